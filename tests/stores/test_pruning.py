"""Deleting old sessions of a store by age, number and bytes: the oldest first, and none that somebody still needs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from storehelp import AnyStore

from a3s_code import Agent, FileSessionStore, MemorySessionStore
from a3s_code.api import retention
from a3s_code.core.documents import Lease
from a3s_code.errors import CodeError, SessionBusy, SessionConfigurationError
from a3s_code.ports.store import CheckpointHeader, SessionSnapshot
from a3s_code.testing import ScriptedModel
from a3s_code.testing.store_contract.helping import Story

pytest_plugins = ["storefixtures"]

LATER = 1 << 50
"""A time of saving that stays in the future; small numbers are long ago."""


async def save(store: AnyStore, session_id: str, saved_ms: int, *, size: int = 0, **more: Any) -> None:
    await store.save_snapshot(SessionSnapshot(session_id=session_id, saved_ms=saved_ms, model="x" * size, **more))


async def names(store: AnyStore) -> list[str]:
    return [entry.session_id for entry in await store.list_sessions()]


def told(report: list[dict[str, Any]]) -> list[tuple[object, object, object]]:
    return [(each["session_id"], each["limit"], each["deleted"] or each["reason"]) for each in report]


async def test_each_limit_takes_the_oldest(
    agent: Agent, make_store: Callable[[], AnyStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Age, number and bytes each take the sessions saved longest ago, page by page, until they hold, and no more."""
    monkeypatch.setattr(retention, "_PAGE", 2)
    store = make_store()
    for session_id, saved_ms in {"c": 1, "a": 2, "e": 3, "b": LATER, "d": LATER + 1, "f": LATER + 2}.items():
        await save(store, session_id, saved_ms, size=10_000)
    aged = await agent.prune_sessions_async(session_store=store, max_age_ms=60_000, max_sessions=100, dry_run=True)
    assert told(aged) == [(name, "max_age_ms", True) for name in "cae"]
    assert await names(store) == list("abcdef")
    assert told(await agent.prune_sessions_async(session_store=store, max_sessions=5)) == [("c", "max_sessions", True)]
    report = await agent.prune_sessions_async(session_store=store, max_bytes=35_000)
    assert told(report) == [("a", "max_bytes", True), ("e", "max_bytes", True)]
    assert all(10_000 < int(str(each["stored_bytes"])) < 11_500 for each in report)
    assert await agent.prune_sessions_async(session_store=store, max_bytes=35_000, max_age_ms=60_000) == []
    assert await names(store) == list("bdf")
    both = await agent.prune_sessions_async(session_store=store, max_sessions=2, max_bytes=0)
    assert told(both) == [("b", "max_sessions", True), ("d", "max_bytes", True), ("f", "max_bytes", True)]
    assert await names(store) == []
    await store.close()


async def test_a_tenant_s_limit_is_its_own(agent: Agent, make_store: Callable[[], AnyStore]) -> None:
    """With a tenant only its sessions count and go."""
    store = make_store()
    for at, tenant in enumerate(["t", "u", "t", "u"]):
        await save(store, str(at), at + 1, labels={"tenant_id": tenant})
    report = await agent.prune_sessions_async(session_store=store, max_sessions=1, tenant_id="t")
    assert told(report) == [("0", "max_sessions", True)]
    assert report[0]["tenant_id"] == "t"
    assert await names(store) == ["1", "2", "3"]
    await store.close()


async def test_what_is_in_use_stays(agent: Agent, make_store: Callable[[], AnyStore]) -> None:
    """A session that another node holds, one with a checkpoint and one with a parked run stay, however old; for the
    number the next ones go instead."""
    store, node, story = make_store(), make_store(), Story(2)
    parked = [{"id": "r0", "status": "completed"}, {"id": "r1", "status": "parked"}]
    await save(store, "held", 1)
    await save(store, "stopped", 2)
    await save(store, "waits", 3, runs=parked)
    for at, session_id in enumerate(["done", "new", "newest"]):
        await save(store, session_id, 4 + at, runs=parked[:1])
    lease = await node.acquire_lease("held", "node-b", 60_000)
    await node.append_checkpoint("r9", story.header("r9", "stopped", 2), story.lines)
    dry = await agent.prune_sessions_async(session_store=store, max_sessions=4, dry_run=True)
    report = await agent.prune_sessions_async(session_store=store, max_sessions=4)
    assert dry == report
    assert told(report) == [
        ("held", "max_sessions", "held"),
        ("stopped", "max_sessions", "open_run"),
        ("waits", "max_sessions", "open_run"),
        ("done", "max_sessions", True),
        ("new", "max_sessions", True),
    ]
    details = [str(each["detail"]) for each in report]
    assert "node-b" in details[0]
    assert "'r9'" in details[1]
    assert "'r1'" in details[2]
    assert await names(store) == ["held", "newest", "stopped", "waits"]
    assert await node.load_checkpoint("r9") is not None
    await node.save_snapshot(SessionSnapshot(session_id="held", saved_ms=9), epoch=lease.epoch)
    await node.close()
    await store.close()


async def test_a_session_can_be_taken_right_after_a_look(agent: Agent, make_store: Callable[[], AnyStore]) -> None:
    """Pruning, also a dry run, gives each lease back, and leaves nothing of what it deleted."""
    store, story = make_store(), Story(2)
    await save(store, "kept", 2)
    await save(store, "gone", 1)
    await store.append_checkpoint("r", story.header("r", "gone", 2), story.lines)
    await store.delete_checkpoint("r")
    await store.admit_run("r", "gone", "x")
    await agent.prune_sessions_async(session_store=store, max_sessions=0, dry_run=True)
    await agent.prune_sessions_async(session_store=store, max_sessions=1)
    for session_id in ("kept", "gone"):
        await store.acquire_lease(session_id, "somebody", 60_000)
    assert await store.load_run("r") is None
    assert await store.append_checkpoint("r", story.header("r", "gone", 2), story.lines[1:]) == 0
    await store.close()


async def test_a_damaged_session_stays_and_keeps_no_other(agent: Agent, tmp_path: Path) -> None:
    """What can't be read is left alone and told; the others go. By name and with force it goes, too."""
    store = FileSessionStore(tmp_path)
    for at, session_id in enumerate("abc"):
        await save(store, session_id, at + 1)
    (tmp_path / "v1" / "sessions" / "id_YQ.json").write_bytes(b"{")
    report = await agent.prune_sessions_async(session_store=store, max_sessions=0)
    assert told(report) == [(name, "max_sessions", True if name != "a" else "failed") for name in "abc"]
    assert "is damaged" in str(report[0]["detail"])
    assert await names(store) == ["a"]
    with pytest.raises(CodeError, match="is damaged"):
        await agent.delete_session_async("a", session_store=store)
    assert await agent.delete_session_async("a", session_store=store, force=True)
    assert await names(store) == []
    await store.close()


class Meddled(MemorySessionStore):
    """A store in which somebody else does something just before a session's lease, or its deletion, is asked for."""

    before: str = ""
    agent: Agent | None = None
    place: Path

    async def acquire_lease(self, session_id: str, holder: str, ttl_ms: int) -> Lease:
        if self.before == "lease":
            await super().save_snapshot(SessionSnapshot(session_id=session_id, saved_ms=1, model="anew"))
        return await super().acquire_lease(session_id, holder, ttl_ms)

    async def list_checkpoints(self, session_id: str | None = None) -> list[CheckpointHeader]:
        if self.before == "deletion":
            found = await self._backend.transact((), lambda tx: self._load(tx, Lease, str(session_id)))
            assert found is not None
            await super().release(found)
            await super().acquire_lease(str(session_id), "node-b", 60_000)
        if self.agent is not None:
            self.opened = await self.agent.session_async(
                self.place, session_id=session_id, llm_client=ScriptedModel([])
            )
        return await super().list_checkpoints(session_id)


async def test_a_session_that_was_saved_since_stays(agent: Agent) -> None:
    """Who used a session between the listing and its deletion keeps it."""
    store = Meddled()
    await save(store, "s", 1)
    store.before = "lease"
    report = await agent.prune_sessions_async(session_store=store, max_age_ms=0)
    assert told(report) == [("s", "max_age_ms", "unsaved")]
    assert await names(store) == ["s"]


async def test_a_lost_lease_deletes_nothing(agent: Agent) -> None:
    """Where another node takes the session over while it is looked at, the deletion writes nothing."""
    store = Meddled()
    await save(store, "s", 1)
    store.before = "deletion"
    report = await agent.prune_sessions_async(session_store=store, max_age_ms=0)
    assert told(report) == [("s", "max_age_ms", "held")]
    with pytest.raises(SessionBusy):
        await agent.delete_session_async("s", session_store=store)
    store.before = ""
    assert await names(store) == ["s"]


async def test_a_session_that_is_opened_meanwhile_stays(agent: Agent, workspace: Path) -> None:
    """A session that is opened in the agent while it is looked at stays."""
    store = Meddled()
    await save(store, "s", 1)
    store.agent, store.place = agent, workspace
    report = await agent.prune_sessions_async(session_store=store, max_age_ms=0)
    assert told(report) == [("s", "max_age_ms", "live")]
    assert await names(store) == ["s"]


async def test_only_a_whole_path_is_a_workspace(agent: Agent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A snapshot whose workspace is no absolute path takes no log with it, wherever the process stands."""
    monkeypatch.chdir(tmp_path)
    log = tmp_path / ".a3s" / "effect-log" / "s.jsonl"
    log.parent.mkdir(parents=True)
    log.touch()
    store = MemorySessionStore()
    for workspace in ("", ".", str(tmp_path / "nowhere")):
        await save(store, "s", 1, workspace=workspace)
        assert told(await agent.prune_sessions_async(session_store=store, max_age_ms=0)) == [("s", "max_age_ms", True)]
        assert log.exists()


async def test_limits_are_checked_first(agent: Agent) -> None:
    """No limit, and one that is no number, is INVALID_REQUEST; no store is a matter of configuration."""
    store = MemorySessionStore()
    for limits in ({}, {"max_age_ms": -1}, {"max_sessions": True}, {"max_bytes": 1.5}):
        with pytest.raises(CodeError) as caught:
            await agent.prune_sessions_async(session_store=store, **limits)
        assert caught.value.code == "INVALID_REQUEST"
    with pytest.raises(SessionConfigurationError, match="session_store"):
        await agent.prune_sessions_async(max_sessions=1)
