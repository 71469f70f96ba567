"""What a session store must answer. In: calls in the order of their transactions. Out: each one's answer, and what is
stored after it.

One rule: it is a plain dictionary and knows nothing of locks, files or databases.
Known weakness: a session's facts are one unbranched story; listings and watching are left out.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias

from a3s_code.core.documents import Inbox, digest_of, encode
from a3s_code.ports.store import (
    Checkpoint,
    CheckpointHeader,
    ControlReceipt,
    ControlRequest,
    Lease,
    RunAdmission,
    SessionSnapshot,
    SessionStore,
    WorkflowCheckpoint,
    workflow_lease,
)
from a3s_code.testing.store_contract.helping import Story

Name: TypeAlias = tuple[str, str]
STORY: Final = Story(12)


@dataclass
class Call:
    """One call of a store. ``kind`` says which, the rest are its arguments as far as it has them; ``value`` is what
    is written, and unlike anything else that is. The last four are filled in while it runs."""

    kind: str
    session: str = ""
    run: str = ""
    holder: str = ""
    epoch: int | None = None
    ttl: int = 1
    value: int = 0
    seen: int | None = None
    at: int = 0
    upto: int = 0
    leases: tuple[Lease, ...] = ()
    now_ms: int = 0
    void: bool = False
    answer: Any = None
    renewed: dict[int, int | None] = field(default_factory=dict)


def snapshot(session: str, value: int) -> SessionSnapshot:
    return SessionSnapshot(session_id=session, saved_ms=value, model=f"{value}" * 20)


def digest(session: str, value: int | None) -> str | None:
    return None if value is None else digest_of(encode(snapshot(session, value)))


async def perform(store: SessionStore, call: Call) -> Any:
    """Calls the store."""
    session, run, epoch = call.session, call.run, call.epoch
    match call.kind:
        case "acquire":
            return await store.acquire_lease(session, call.holder, call.ttl)
        case "renew":
            return await store.renew(call.leases, call.ttl)
        case "release":
            return await store.release(call.leases[0])
        case "save":
            return await store.save_snapshot(snapshot(session, call.value), epoch)
        case "cas":
            return await store.save_snapshot_cas(snapshot(session, call.value), digest(session, call.seen), epoch)
        case "delete":
            return await store.delete_session(session, epoch)
        case "append":
            header = STORY.header(run, session, call.upto, saved_ms=call.value)
            return await store.append_checkpoint(run, header, STORY.lines[call.at : call.upto], epoch)
        case "drop":
            return await store.delete_checkpoint(run, epoch)
        case "admit":
            return await store.admit_run(run, session, f"{call.value}", epoch)
        case "settle":
            return await store.settle_run(run, {"value": call.value}, epoch)
        case "flow":
            flow = WorkflowCheckpoint(workflow_id=run, checkpoint_ms=call.value)
            return await store.save_workflow(flow, epoch)
        case "post":
            return await store.post_control(session, ControlRequest(f"q{call.value}", "steer"))
        case "take":
            assert epoch is not None
            return await store.take_control(session, epoch)
        case "answer":
            return await store.answer_control(session, ControlReceipt(f"q{call.value}", "steer", "applied"), epoch)
        case _:
            raise AssertionError(call.kind)


READS: Final = ("session", "checkpoint", "run", "workflow")


async def read(store: SessionStore, name: Name) -> Any:
    """One document by a call without locks, as ``plain`` gives it."""
    kind, key = name
    match kind:
        case "session":
            return plain(await store.load_snapshot(key))
        case "checkpoint":
            return plain(await store.load_checkpoint(key))
        case "run":
            return plain(await store.load_run(key))
        case _:
            return plain(await store.load_workflow(key))


def plain(found: Any) -> Any:
    """An answer or a document as the model has it."""
    match found:
        case Lease():
            return (found.epoch, found.holder, found.expires_ms)
        case SessionSnapshot():
            assert found.model == f"{found.saved_ms}" * 20, "a snapshot of two generations"
            return found.saved_ms
        case Checkpoint():
            assert found.facts == STORY.lines[: found.header.seq], "a checkpoint of two stories"
            return plain(found.header)
        case RunAdmission():
            record = found.record and found.record["value"]
            return (found.session_id, found.input_digest, record)
        case WorkflowCheckpoint():
            return found.checkpoint_ms
        case ControlRequest():
            return found.request_id
        case ControlReceipt():
            return found.state
        case Inbox():
            entries: list[Any] = found.entries
            return tuple((each["request"]["request_id"], each["taken"], bool(each["receipt"])) for each in entries)
        case list():
            return [plain(each) for each in found]
        case CheckpointHeader():
            return (found.session_id, found.seq, found.saved_ms)
        case _:
            return found


class Refused(Exception):
    """The answer is this code, and nothing is written."""


class Model:
    """``stored`` holds each document's value; one that isn't there has none."""

    def __init__(self, stored: dict[Name, Any] | None = None) -> None:
        self.stored: dict[Name, Any] = stored if stored is not None else {}

    def changes(self, call: Call, locked: Collection[str]) -> dict[Name, Any]:
        """What the call will have changed; ``None`` for what is then gone."""
        after = Model(dict(self.stored))
        after.apply(replace(call, renewed=dict(call.renewed)), locked)
        names = self.stored.keys() | after.stored.keys()
        return {name: after.stored.get(name) for name in names if self.stored.get(name) != after.stored.get(name)}

    def apply(self, call: Call, locked: Collection[str]) -> None:
        """Does what the call does under the locks it has, and sets its answer."""
        try:
            call.answer = self._done(call, locked)
        except Refused as refusal:
            call.answer = str(refusal)

    def _done(self, call: Call, locked: Collection[str]) -> Any:
        match call.kind:
            case "acquire":
                return self._acquire(call)
            case "renew":
                return self._renew(call, locked)
            case "release":
                return self._release(call)
            case "settle" | "drop":
                return self._of_run(call, locked)
            case "flow":
                self._fence(workflow_lease(call.run), call.epoch)
                self.stored["workflow", call.run] = call.value
                return None
            case "admit":
                return self._admit(call)
        if call.kind != "post":
            self._fence(call.session, call.epoch)
        match call.kind:
            case "append":
                return self._append(call)
            case "delete":
                return self._delete(call.session)
            case "post" | "take" | "answer":
                return self._control(call)
        name = ("session", call.session)
        if call.kind == "cas" and self.stored.get(name) != call.seen:
            return None
        self.stored[name] = call.value
        return digest(call.session, call.value)

    def _fence(self, session: str, epoch: int | None) -> None:
        current = self.stored.get(("lease", session), (0,))[0]
        if epoch is not None and epoch != current:
            raise Refused("LEASE_LOST")

    def _acquire(self, call: Call) -> Any:
        epoch, holder, expires = self.stored.get(("lease", call.session), (0, "", 0))
        if expires > call.now_ms and not call.void:
            if holder != call.holder:
                raise Refused("SESSION_BUSY")
        else:
            epoch += 1
        lease = (epoch, call.holder, call.now_ms + call.ttl)
        self.stored["lease", call.session] = lease
        return lease

    def _renew(self, call: Call, locked: Collection[str]) -> Any:
        for number, lease in enumerate(call.leases):
            if number not in call.renewed and f"session:{lease.session_id}" in locked:
                held = self._holds(lease)
                call.renewed[number] = call.now_ms + call.ttl if held else None
                if held:
                    self.stored["lease", lease.session_id] = (lease.epoch, lease.holder, call.now_ms + call.ttl)
        return [
            until and (lease.epoch, lease.holder, until)
            for lease, until in ((each, call.renewed.get(number)) for number, each in enumerate(call.leases))
        ]

    def _release(self, call: Call) -> bool:
        lease = call.leases[0]
        held = self._holds(lease)
        if held:
            self.stored["lease", lease.session_id] = (lease.epoch, lease.holder, 0)
        return held

    def _holds(self, lease: Lease) -> bool:
        epoch, holder, expires = self.stored.get(("lease", lease.session_id), (0, "", 0))
        return (epoch, holder) == (lease.epoch, lease.holder) and expires != 0

    def _append(self, call: Call) -> int:
        name = ("checkpoint", call.run)
        for kind in ("checkpoint", "run"):
            if self.stored.get((kind, call.run), (call.session,))[0] != call.session:
                raise Refused("RUN_IDENTITY_CONFLICT")
        known: int = self.stored.get(("facts", call.session), 0)
        if call.at > known:
            return known
        self.stored["facts", call.session] = max(known, call.upto)
        self.stored[name] = (call.session, call.upto, call.value)
        return call.upto

    def _admit(self, call: Call) -> Any:
        known = self.stored.get(("run", call.run))
        if known is not None:
            return known
        self._fence(call.session, call.epoch)
        self.stored["run", call.run] = (call.session, f"{call.value}", None)
        return None

    def _of_run(self, call: Call, locked: Collection[str]) -> bool:
        name = ("run" if call.kind == "settle" else "checkpoint", call.run)
        known = self.stored.get(name)
        if known is None or f"session:{known[0]}" not in locked:
            return False
        self._fence(known[0], call.epoch)
        if call.kind == "settle":
            self.stored[name] = (*known[:2], call.value)
        else:
            del self.stored[name]
        return True

    def _delete(self, session: str) -> bool:
        mine = [
            (kind, key)
            for (kind, key), value in self.stored.items()
            if (kind in ("checkpoint", "run") and value[0] == session)
            or (kind in ("session", "facts", "inbox") and key == session)
        ]
        for name in mine:
            del self.stored[name]
        return bool(mine)

    def _control(self, call: Call) -> Any:
        name, request = ("inbox", call.session), f"q{call.value}"
        inbox: tuple[tuple[str, int, bool], ...] = self.stored.get(name, ())
        match call.kind:
            case "post":
                known = {each: answered for each, _, answered in inbox}
                if request not in known:
                    self.stored[name] = (*inbox, (request, 0, False))
                return "applied" if known.get(request) else None
            case "take":
                assert call.epoch is not None
                fresh = [each for each, taken, answered in inbox if not answered and taken != call.epoch]
                if fresh:
                    self.stored[name] = tuple(
                        (each, taken if answered else call.epoch, answered) for each, taken, answered in inbox
                    )
                return fresh
        if request not in [each for each, _, _ in inbox]:
            return False
        self.stored[name] = tuple((each, taken, answered or each == request) for each, taken, answered in inbox)
        return True
