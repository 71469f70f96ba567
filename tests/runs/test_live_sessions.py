"""Which sessions live: the agent's registry, closing, dropping (api.md, *Agent*)."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from pathlib import Path

import pytest
from runhelp import data, make_agent, open_session, until

from a3s_code import Agent
from a3s_code.errors import SessionBusy, SessionClosed, SessionConfigurationError
from a3s_code.testing import calls, delay


async def test_live_sessions_are_listed(agent: Agent, workspace: Path) -> None:
    """Ids are sorted, each once; closing takes one off."""
    sessions = [await open_session(agent, workspace, session_id=name) for name in ("b", "a", "b")]
    assert agent.list_sessions() == ["a", "b"]
    await sessions[1].close_async()
    assert agent.list_sessions() == ["b"]
    assert await agent.close_session_async("b")
    assert not await agent.close_session_async("b")
    assert agent.list_sessions() == []
    assert all(session.is_closed() for session in sessions)


async def test_a_dropped_session_gives_its_log_back(agent: Agent, workspace: Path) -> None:
    """The agent holds its sessions weakly; one that goes away frees its lock and its descriptor."""
    session = await open_session(agent, workspace, "a")
    await session.send_async("x")
    gone = weakref.ref(session)
    del session
    gc.collect()
    assert gone() is None
    assert agent.list_sessions() == []
    await asyncio.sleep(0)
    again = await open_session(agent, workspace, "b")
    assert (await again.send_async("y")).text == "b"


async def test_a_run_at_work_holds_its_session(agent: Agent, workspace: Path) -> None:
    """A session nobody holds lives until its run has ended, and then gives its log back."""
    gate = asyncio.Event()
    session = await open_session(agent, workspace, [delay(gate), "a"])
    await session.spawn_run_with_id_async("job", "x")
    gone = weakref.ref(session)
    del session
    gc.collect()
    assert agent.list_sessions() == ["s"]
    gate.set()

    def dropped() -> bool:
        gc.collect()
        return gone() is None

    await until(dropped, turns=200)
    await asyncio.sleep(0)
    again = await open_session(agent, workspace, "b")
    assert again.runs()[0]["status"] == "completed"
    assert (await again.send_async("y")).text == "b"


async def test_closing_the_agent_ends_everything(workspace: Path) -> None:
    """``close`` ends runs at work, also of sessions nobody holds; afterwards opening is SessionClosed."""
    made = await make_agent()
    session = await open_session(made, workspace, [delay(asyncio.Event())])
    await session.spawn_run_with_id_async("job", "x")
    del session
    gc.collect()
    await made.close_async()
    await made.close_async()
    assert [closed.status for closed in data(workspace, "run.closed")] == ["cancelled"]
    assert made.is_closed()
    with pytest.raises(SessionClosed):
        await open_session(made, workspace)


async def test_two_sessions_on_one_log(agent: Agent, workspace: Path) -> None:
    """Two live sessions may have one id; the second that writes gets SESSION_BUSY naming the holder, and writes once
    the first is closed, folding what it added (cases C04, C06)."""
    one = await open_session(agent, workspace, "one")
    two = await open_session(agent, workspace, "two")
    await one.send_async("x")
    with pytest.raises(SessionBusy, match="this process"):
        await two.send_async("y")
    assert [message["content"] for message in two.history()] == ["x", "one"]
    await one.close_async()
    assert (await two.send_async("y")).text == "two"
    assert [message["content"] for message in two.history()] == ["x", "one", "y", "two"]


async def test_a_session_that_looked_early_folds_what_came_later(agent: Agent, workspace: Path) -> None:
    """Reading takes no lock; before its first fact a session folds what was added since it looked."""
    early = await open_session(agent, workspace, "late")
    assert early.history() == []
    other = await open_session(agent, workspace, "one", "two")
    await other.send_async("x")
    assert len(early.history()) in (0, 2)
    await other.send_async("y")
    await other.close_async()
    await early.send_async("z")
    assert [message["content"] for message in early.history()] == ["x", "one", "y", "two", "z", "late"]


async def test_an_idle_session_writes_nothing(agent: Agent, workspace: Path) -> None:
    """Making, asking and closing a session leave no file."""
    session = await open_session(agent, workspace)
    assert session.history() == []
    assert session.runs() == []
    assert session.pending_confirmations() == []
    assert not session.cancel()
    assert not await session.confirm_tool_use_async("c", True)
    await session.close_async()
    assert list(workspace.iterdir()) == []


async def test_context_managers(workspace: Path) -> None:
    """Agent and session close at the end of an ``async with``."""
    async with await make_agent() as made, await open_session(made, workspace, "a") as session:
        await session.send_async("x")
    assert session.is_closed()
    assert made.is_closed()
    await until(lambda: made.list_sessions() == [])


async def test_a_closed_agent_leaves_no_thread(workspace: Path) -> None:
    """An agent on the caller's loop ends the workers it started, at once; the thread that syncs is the process's."""

    def plain() -> str:
        """Runs in a worker."""
        return "x"

    before = set(threading.enumerate())
    agent = await make_agent()
    session = await open_session(agent, workspace, calls(("plain", {}), ("ls", {})), "done", tools=[plain])
    assert (await session.send_async("go")).text == "done"
    await agent.close_async()
    await agent.close_async()
    left = {thread.name for thread in set(threading.enumerate()) - before if thread.is_alive()}
    assert left <= {"a3s-code-sync"}


async def test_an_undeclared_model_is_refused_by_name(workspace: Path) -> None:
    """The message names the option and what is declared."""
    async with await Agent.create_async('default_model = "offline/scout"') as agent:
        with pytest.raises(
            SessionConfigurationError, match="session option 'model': provider 'openai' is not declared"
        ):
            await agent.session_async(workspace, model="openai/x")
