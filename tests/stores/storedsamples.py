"""One document of every kind, as they stand in tests/data/stores. In: nothing. Out: documents.

One rule: a sample never changes: a new version gets new samples and new files.
Known weakness: none known.

Run as a program it writes the files that aren't there yet, but for ``postgres-v1.sql``, which ``dumped`` made of a
filled store.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final

from storehelp import KEY, AnyStore, connect

from a3s_code.core.documents import AnyDocument, Inbox, encode
from a3s_code.ports.store import (
    CheckpointHeader,
    ControlReceipt,
    ControlRequest,
    Lease,
    RunAdmission,
    SessionSnapshot,
    WorkflowCheckpoint,
)
from a3s_code.stores.file import FileSessionStore
from a3s_code.stores.pgtables import _MAKE
from a3s_code.stores.sqlite import SqliteSessionStore
from a3s_code.testing.store_contract.helping import Story

DATA: Final = Path(__file__).parent.parent / "data" / "stores"
LABELS: Final = {"tenant_id": "acme", "principal": "jo", "agent_template_id": "t1", "correlation_id": "c-λ"}
STORY: Final = Story(5)

SAMPLES: Final[dict[str, AnyDocument]] = {
    "snapshot": SessionSnapshot(
        session_id="golden/λ",
        labels=LABELS,
        workspace="/work/space",
        model="openai/gpt-x",
        options={"tool_budget": None, "step_limit": 32, "ratio": 0.8},
        messages=[
            {"type": "user", "text": "Hallo\nWelt \u0000 \U0001f600"},
            {"type": "assistant", "text": "", "calls": [{"id": "c1", "name": "bash", "args": {"command": "ls"}}]},
        ],
        artifacts=[{"uri": "a3s-artifact://sha256/00", "bytes": 7}],
        traces=[{"sequence": 1, "kind": "run", "status": "ok"}],
        runs=[{"record": {"id": "r1", "status": "completed"}, "events": [{"type": "agent_start"}]}],
        verification_reports=[{"status": "passed"}],
        task_snapshots=[{"id": "t1", "state": "completed"}],
        usage={"prompt_tokens": 12, "completion_tokens": 3, "total_tokens": 15},
        fact_log={"thread": "s-1", "seq": 5, "sum": STORY.sums[4]},
        saved_ms=1_700_000_000_000,
        more={"added_later": [{"kept": True}]},
    ),
    "checkpoint": CheckpointHeader(
        run_id="r1",
        session_id="golden/λ",
        seq=5,
        sum=STORY.sums[4],
        thread="s-1",
        created_ms=1_700_000_000_000,
        logic=1,
        labels=LABELS,
        workspace="/work/space",
        model="openai/gpt-x",
        options={"step_limit": 32},
        saved_ms=1_700_000_000_001,
        more={"added_later": 1},
    ),
    "run": RunAdmission(
        run_id="r1",
        session_id="golden/λ",
        input_digest="d" * 64,
        record={"id": "r1", "status": "completed", "text": "λ"},
        more={"more": {"more": 1}},
    ),
    "workflow": WorkflowCheckpoint(
        workflow_id="w1",
        steps=[{"task_id": "a", "spec_sha256": "0" * 64, "outcome": {"success": True, "output": "done"}}],
        checkpoint_ms=1_700_000_000_002,
    ),
    "lease": Lease(session_id="golden/λ", epoch=7, holder="host/1/2/x", expires_ms=1_700_000_004_000),
    "inbox": Inbox(
        session_id="golden/λ",
        entries=[
            {
                "request": {"request_id": "q1", "kind": "steer", "payload": {"text": "λ"}, "posted_ms": 1},
                "taken": 7,
                "receipt": {
                    "request_id": "q1",
                    "kind": "steer",
                    "state": "applied",
                    "accepted_ms": 2,
                    "run_id": "r1",
                    "code": None,
                    "detail": {},
                },
                "added_later": 1,
            }
        ],
    ),
}


async def fill(store: AnyStore) -> None:
    """The samples as a store writes them."""
    snapshot, header, workflow = SAMPLES["snapshot"], SAMPLES["checkpoint"], SAMPLES["workflow"]
    assert isinstance(snapshot, SessionSnapshot)
    assert isinstance(header, CheckpointHeader)
    assert isinstance(workflow, WorkflowCheckpoint)
    await store.save_snapshot(snapshot)
    await store.append_checkpoint("r1", header, STORY.lines[:3] + STORY.lines[3:])
    await store.admit_run("r1", "golden/λ", "d" * 64)
    await store.settle_run("r1", {"id": "r1", "status": "completed"})
    await store.save_workflow(workflow)
    await store.post_control("golden/λ", ControlRequest("q1", "steer", {"text": "λ"}, 1))
    await store.answer_control("golden/λ", ControlReceipt("q1", "steer", "applied", 2, "r1"))
    await store.close()


async def dumped(dsn: str, schema: str) -> str:
    """The tables of a filled store as statements for a schema ``{s}``."""
    connection = await connect(dsn)
    statements = [_MAKE.strip()]
    for table, order in (("documents", "kind, key"), ("facts", "seq")):
        rows = await connection.fetch(f"SELECT * FROM {schema}.{table} ORDER BY {order}")
        statements += [f"INSERT INTO {{s}}.{table} VALUES ({', '.join(map(_literal, row))});" for row in rows]
    await connection.close()
    return "\n".join(statements) + "\n"


def _literal(value: object) -> str:
    if isinstance(value, bytes):
        return f"'\\x{value.hex()}'"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return "NULL" if value is None else str(value)


def main() -> None:
    DATA.mkdir(exist_ok=True)
    for name, document in SAMPLES.items():
        path = DATA / f"{name}-v1.json"
        if not path.exists():
            path.write_bytes(encode(document))
    for name, store in (
        ("file-store", FileSessionStore(DATA / "file-store")),
        ("file-store-encrypted", FileSessionStore(DATA / "file-store-encrypted", KEY)),
        ("sqlite-v1.db", SqliteSessionStore(DATA / "sqlite-v1.db")),
    ):
        if not (DATA / name).exists():
            asyncio.run(fill(store))


if __name__ == "__main__":
    main()
