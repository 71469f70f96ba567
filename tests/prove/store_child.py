"""Children with a store that are killed. In: one JSON command a line. Out: what each had acknowledged, and found.

The kill comes at a point of the store (before a write, before each change in its transaction, before and after its
commit) or, as in crash_child, at an operation on a disk.

One rule: a child says a line only after what the line tells of was acknowledged to it.
Known weakness: a renewal of a lease comes when its time has come, so nobody is killed in one on purpose.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

sys.path.append(str(Path(__file__).parents[1] / "stores"))

from crash_child import PowerCut, Say, serve
from scenario import PROMPT, STEER, attended, open_session, unanswered
from storehelp import AnyStore, connect, maker
from storepoints import Points, Troubled

from a3s_code import Agent, Session
from a3s_code.core.codec import decode_line
from a3s_code.core.documents import CheckpointHeader, SessionSnapshot
from a3s_code.errors import CodeError
from a3s_code.ports.store import Epoch
from a3s_code.stores.disk import Disk
from a3s_code.testing.faults import CountingDisk, KillingDisk

RUNS: Final = ("the-run", "the-run-anew", "the-run-once-more")
"""Ids under which a host starts the run: the next one when nobody knows how to go on with the one before."""
SET_UP: Final[dict[str, Any]] = {
    "tenant_id": "t",
    "principal": "p",
    "correlation_id": "c",
    "permission_policy": {"ask": ["pay"], "default_decision": "allow"},
    "confirmation_policy": {"enabled": True},
}
"""What a resumed session takes from its store."""


class OfWrites(CountingDisk):
    """Counts only what changes something: what it would find is the same before a look as after it."""

    def _reached(self, operation: str, fd: int = -1, data: bytes = b"") -> None:
        if operation not in ("open", "read", "stat"):
            super()._reached(operation, fd, data)


class KillingWrite(OfWrites, KillingDisk):
    """Kills its process at the n-th change of a file."""


class PowerCutInWrite(OfWrites, PowerCut):
    """The same, with what a log had not synced taken back."""


def disk_of_writes(command: dict[str, Any]) -> Disk:
    at, when = command.get("at", 0), command.get("when", "before")
    return PowerCutInWrite(at) if when == "power" else KillingWrite(at, when)


def telling(store: AnyStore, say: Say) -> None:
    """Has ``store`` tell what it has acknowledged."""
    append, save, settle, delete = (
        store.append_checkpoint,
        store.save_snapshot,
        store.settle_run,
        store.delete_checkpoint,
    )

    async def append_checkpoint(
        run_id: str, header: CheckpointHeader, facts: Sequence[bytes], epoch: Epoch = None
    ) -> int:
        reached = await append(run_id, header, facts, epoch)
        if reached == header.seq:
            say(f"kept {reached}")
        return reached

    async def save_snapshot(snapshot: SessionSnapshot, epoch: Epoch = None) -> str:
        say(f"saves {snapshot.session_id}")
        digest = await save(snapshot, epoch)
        say(f"saved {digest}")
        return digest

    async def settle_run(run_id: str, record: Any, epoch: Epoch = None) -> bool:
        settled = await settle(run_id, record, epoch)
        say(f"settled {run_id}")
        return settled

    async def delete_checkpoint(run_id: str, epoch: Epoch = None) -> bool:
        if run_id in RUNS:
            say(f"deletes {run_id}")
        return await delete(run_id, epoch)

    store.append_checkpoint = append_checkpoint  # type: ignore[method-assign]
    store.save_snapshot = save_snapshot  # type: ignore[method-assign]
    store.settle_run = settle_run  # type: ignore[method-assign]
    store.delete_checkpoint = delete_checkpoint  # type: ignore[method-assign]


async def emptied(store: AnyStore, dsn: str, schema: str) -> None:
    """Tables are dear to make, so those of the run before are used again."""
    await store.load_run(RUNS[0])
    connection = await connect(dsn)
    for table in ("documents", "facts", "events"):
        await connection.execute(f"DELETE FROM {schema}.{table}")
    await connection.close()


async def look(store: AnyStore) -> dict[str, Any]:
    """What a store holds of the run and its session."""
    headers = await store.list_checkpoints("proof")
    last = max(headers, key=lambda header: header.seq, default=None)
    checkpoint = None if last is None else await store.load_checkpoint(last.run_id)
    snapshot, run = await store.load_snapshot("proof"), await store.load_run(RUNS[0])
    lines = [] if checkpoint is None else checkpoint.facts
    return {
        "seq": len(lines),
        "sum": "" if checkpoint is None else checkpoint.header.sum,
        "states": unanswered([decode_line(line).fact for line in lines]),
        "checkpoints": [header.run_id for header in headers],
        "digest": None if snapshot is None else snapshot.digest,
        "messages": [] if snapshot is None else snapshot.messages,
        "labels": None if snapshot is None else snapshot.labels,
        "record": None if run is None else run.record,
    }


async def steer_once(session: Session) -> None:
    """Whoever answers also steers the run, unless it was by now."""
    if not any(message.get("content") == STEER for message in session.history()):
        await session.steer_async(STEER, {"request_id": "steer"})


async def started(session: Session, store: AnyStore) -> str:
    """The run under the first id that is free."""
    known = [run_id for run_id in RUNS if await store.load_run(run_id) is not None]
    run_id = RUNS[len(known)]
    await session.spawn_run_with_id_async(run_id, PROMPT)
    run = session._engine.active
    assert run is not None
    await run.finished
    record = session.run_snapshot(run_id)
    assert record is not None
    return str(record["text"])


async def resumed(session: Session, store: AnyStore) -> str:
    """The run resumed; its stored answer if it had ended; started anew if the store knows no more than its id."""
    for run_id in RUNS:
        try:
            return str((await session.resume_run_async(run_id)).text)
        except CodeError as error:
            if error.code != "SESSION_ERROR":
                raise
    if session.runs() and session.runs()[-1]["status"] == "completed":
        return str(session.runs()[-1]["text"])
    return await started(session, store)


async def act(command: dict[str, Any], say: Say) -> None:
    """``run`` starts the run under its id; ``resume`` goes on with it; each at its workspace, with the store given."""
    given = command["store"]
    store = maker(given["kind"], Path(given["directory"]), lambda: str(given["dsn"]), given["schema"])()
    if command["do"] == "run" and given["kind"] == "postgres":
        await emptied(store, str(given["dsn"]), str(given["schema"]))
    found = await look(store)
    say(f"found {json.dumps(found)}")
    known = found["seq"] > 0 or found["digest"] is not None
    points = Points(command.get("point", 0), lambda: os.kill(os.getpid(), signal.SIGKILL))
    store._backend = Troubled(store._backend, points)
    telling(store, say)

    def acknowledged(seq: str) -> None:
        say(f"ack {seq}")

    async with await Agent.create_from_config_async({}) as agent:
        session = await open_session(
            agent,
            Path(command["workspace"]),
            command["unknown"],
            acknowledged,
            session_store=store,
            auto_save=True,
            **({} if known else SET_UP),
        )
        work: Callable[[], Any] = (
            (lambda: started(session, store)) if command["do"] == "run" else (lambda: resumed(session, store))
        )
        text = await attended(session, work(), acknowledged, before_answering=steer_once)
        say(f"asked {len(session._engine.parts.model.requests)}")  # type: ignore[attr-defined]  # a ScriptedModel
        say(f"text {text}")
    say(f"left {json.dumps(await look(store))}")
    say(f"points {points.passed}")
    await store.close()


if __name__ == "__main__":
    serve(act, disk_of_writes)
