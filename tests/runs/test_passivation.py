"""Leaving a session so that any node can go on with it (durability.md, *Passivation*)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from runhelp import data, kinds, one_result_each, outcomes, until
from savedhelp import kept, vanished

from a3s_code import Agent, MemorySessionStore, Session, tool
from a3s_code.core.digest import text_digest
from a3s_code.errors import CodeError, SessionClosed, SessionConfigurationError, StoreError
from a3s_code.ports.leases import TTL_MS
from a3s_code.ports.tool import ToolContext, ToolFailure
from a3s_code.testing import ScriptedModel, call, delay


async def is_free(store: Any) -> bool:
    lease = await store.acquire_lease("s", "another-node", TTL_MS)
    released: bool = await store.release(lease)
    return released


async def test_the_step_at_work_settles_and_the_run_stays_open(agent: Agent, workspace: Path, elsewhere: Path) -> None:
    """The tool's result is kept, no further step is begun, and another node does the rest without a snapshot of its
    own."""
    store = MemorySessionStore()
    began, go = asyncio.Event(), asyncio.Event()

    @tool
    async def work() -> str:
        """Works."""
        began.set()
        await go.wait()
        return "worked"

    model = ScriptedModel([[call("work", {}, id="c")], "never"])
    session = await kept(agent, workspace, store, llm_client=model, tools=[work], auto_save=False)
    run = asyncio.ensure_future(session.send_async("go"))
    await began.wait()
    leaving = asyncio.ensure_future(session.passivate_async())
    await until(session.is_closed)
    with pytest.raises(SessionClosed):
        await session.send_async("more")
    go.set()
    run_id = await leaving
    assert run_id == session.runs()[0]["id"]
    with pytest.raises(SessionClosed, match=f"was passivated; resume_run\\('{run_id}'\\) goes on"):
        await run
    assert (kinds(workspace)[-1], outcomes(workspace)) == ("tool.result", {"c": "ok"})
    assert len(model.requests) == 1
    assert session.runs()[0]["status"] == "parked"
    assert agent.list_sessions() == []
    assert await is_free(store)
    there = await kept(agent, elsewhere, store, "done", tools=[work])
    assert (await there.resume_run_async(str(run_id))).text == "done"
    assert one_result_each(elsewhere) is False  # the run that was left stays as it was
    assert outcomes(elsewhere) == {"c": "ok"}


async def test_at_the_deadline_the_call_is_interrupted_without_a_result(
    agent: Agent, workspace: Path, elsewhere: Path
) -> None:
    """Whoever goes on decides about it: it had begun, and what it came to isn't known."""
    store = MemorySessionStore()
    began = asyncio.Event()

    @tool
    async def work(ctx: ToolContext) -> str:
        """Works until it is told to stop."""
        began.set()
        await until(ctx.cancelled.is_set)
        raise ToolFailure("cancelled", "stopped")

    options: dict[str, Any] = {"tools": [work], "unknown_outcome": "report"}
    session = await kept(agent, workspace, store, [call("work", {}, id="c")], **options)
    run = asyncio.ensure_future(session.send_async("go"))
    await began.wait()
    run_id = await session.passivate_async(deadline_ms=1)
    with pytest.raises(SessionClosed):
        await run
    assert kinds(workspace)[-1] == "tool.started"
    there = await kept(agent, elsewhere, store, "done", **options)
    assert (await there.resume_run_async(str(run_id))).text == "done"
    assert outcomes(elsewhere) == {"c": "unknown"}


async def test_a_model_call_is_interrupted_at_the_deadline(agent: Agent, workspace: Path) -> None:
    """What it had said so far is no turn: whoever goes on asks the model again."""
    store = MemorySessionStore()
    model = ScriptedModel([["half a sen", delay(asyncio.Event()), "tence"], "whole"])
    session = await kept(agent, workspace, store, llm_client=model)
    events: list[Any] = []

    async def read() -> None:
        async for event in await session.stream_async("go"):
            events.append(event)  # noqa: PERF401  it is looked at while it grows

    reading = asyncio.ensure_future(read())
    await until(lambda: any(event.type == "text_delta" for event in events))
    await session.passivate_async(deadline_ms=1)
    await reading
    assert (events[-1].type, events[-1].payload["code"]) == ("error", "SESSION_CLOSED")
    assert data(workspace, "model.turn") == []
    again = await kept(agent, workspace, store, llm_client=model)
    assert (await again.resume_run_async("latest")).text == "whole"


async def test_a_run_that_waits_for_a_person_is_left_at_once(agent: Agent, workspace: Path, elsewhere: Path) -> None:
    """Another node shows what waits before it resumes anything."""
    store = MemorySessionStore()

    @tool
    def pay() -> str:
        """Pays."""
        return "paid"

    options: dict[str, Any] = {
        "tools": [pay],
        "permission_policy": {"ask": ["pay"]},
        "confirmation_policy": {"enabled": True},
    }
    session = await kept(agent, workspace, store, [call("pay", {}, id="c")], **options)
    run = asyncio.ensure_future(session.send_async("go"))
    await until(lambda: bool(session.pending_confirmations()))
    run_id = await session.passivate_async()
    with pytest.raises(SessionClosed):
        await run
    there = await kept(agent, elsewhere, store, "done", tools=[pay])
    assert [each["run_id"] for each in there.pending_confirmations()] == [run_id]
    assert await there.confirm_tool_use_async("c", True)
    assert (await there.resume_run_async(str(run_id))).text == "done"


async def test_a_run_that_is_about_to_wait_for_a_person_is_left_too(agent: Agent, workspace: Path) -> None:
    """Between the moment when its call waits and the one when the run does, as its log is being synced."""
    store = MemorySessionStore()

    @tool
    def pay() -> str:
        """Pays."""
        return "paid"

    options: dict[str, Any] = {
        "tools": [pay],
        "permission_policy": {"ask": ["pay"]},
        "confirmation_policy": {"enabled": True},
        "log_durability": "fsync",
    }
    session = await kept(agent, workspace, store, [call("pay", {}, id="c")], **options)
    run = asyncio.ensure_future(session.send_async("go"))
    while not session.pending_confirmations():
        await asyncio.sleep(0)
    assert session._engine.active is not None
    assert not session._engine.active.parked
    assert await session.passivate_async() == session.runs()[0]["id"]
    with pytest.raises(SessionClosed):
        await run


async def test_an_idle_session_is_saved_and_left(agent: Agent, workspace: Path, elsewhere: Path) -> None:
    """There is no run to go on with; the conversation goes on anywhere."""
    store = MemorySessionStore()
    session = await kept(agent, workspace, store, "one", auto_save=False)
    await session.send_async("go")
    assert await session.passivate_async() is None
    assert (session.is_closed(), await is_free(store)) == (True, True)
    there = await kept(agent, elsewhere, store, "two")
    assert [message["content"] for message in there.history()] == ["go", "one"]
    unused = await kept(agent, workspace, store, session_id="unused")
    assert await unused.passivate_async() is None
    assert await store.load_snapshot("unused") is None


async def test_passivation_from_inside_a_tool_does_not_wait_for_itself(agent: Agent, workspace: Path) -> None:
    """The tool's own result is the last thing that is kept."""
    store = MemorySessionStore()
    found: list[Session] = []

    @tool
    async def leave() -> str:
        """Leaves this node."""
        assert await found[0].passivate_async() is None
        return "leaving"

    found.append(await kept(agent, workspace, store, [call("leave", {}, id="c")], "never", tools=[leave]))
    with pytest.raises(SessionClosed, match="was passivated"):
        await found[0].send_async("go")
    assert outcomes(workspace) == {"c": "ok"}
    while not await _free_now(store):
        await asyncio.sleep(0)


async def _free_now(store: Any) -> bool:
    try:
        return await is_free(store)
    except CodeError:
        return False


async def test_a_store_that_fails_is_told_and_the_session_closed(agent: Agent, workspace: Path) -> None:
    """Its log has everything: the next session here goes on from it."""

    class Full(MemorySessionStore):
        async def save_snapshot(self, snapshot: Any, epoch: int | None = None) -> str:
            raise StoreError("the database is full")

    session = await kept(agent, workspace, Full(), "one", auto_save=False)
    await session.send_async("go")
    with pytest.raises(StoreError, match="full"):
        await session.passivate_async()
    assert session.is_closed()
    again = await kept(agent, workspace, MemorySessionStore(), "two")
    assert [message["content"] for message in again.history()] == ["go", "one"]


async def test_what_passivation_needs(agent: Agent, workspace: Path) -> None:
    """A store to leave the session in, and a time that is one."""
    plain = await agent.session_async(workspace, llm_client=ScriptedModel([]))
    with pytest.raises(SessionConfigurationError, match="passivate requires a session_store"):
        await plain.passivate_async()
    session = await kept(agent, workspace, MemorySessionStore())
    with pytest.raises(CodeError, match="deadline_ms: expected Unix milliseconds, got 'soon'"):
        await session.passivate_async("soon")  # type: ignore[arg-type]  # that is the point
    assert not session.is_closed()
    await session.close_async()
    with pytest.raises(SessionClosed):
        await session.passivate_async()


async def test_a_detached_run_whose_node_died_at_its_admission_can_be_started_again(
    agent: Agent, workspace: Path, elsewhere: Path
) -> None:
    """While its node lives it is said to run; afterwards nobody had begun it, so whoever asks next does."""
    store = MemorySessionStore()
    first = await kept(agent, workspace, store, "never")
    await first._engine.hold()
    keeper: Any = first._engine.keeper
    await store.admit_run("job", "s", text_digest("do it"), keeper.holding.epoch)
    second = await kept(agent, elsewhere, store, "done")
    while_it_lives: Any = await second.spawn_run_with_id_async("job", "do it")
    assert (while_it_lives["replayed"], while_it_lives["snapshot"]["status"]) == (True, "running")
    await vanished(first)
    started: Any = await second.spawn_run_with_id_async("job", "do it")
    assert started["replayed"] is False
    await until(lambda: second._engine.active is None)
    ended: Any = await second.spawn_run_with_id_async("job", "do it")
    assert (ended["replayed"], ended["snapshot"]["text"]) == (True, "done")
