"""Ending a run from outside, in every state it can be in (api.md, *How a run ends*; cases B01, B09, B11, B14)."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest
from runhelp import collected, data, kinds, one_result_each, open_session, outcomes, until, well_formed

from a3s_code import Agent, Session, tool
from a3s_code.core.policy import ConfirmationPolicy, PermissionPolicy
from a3s_code.engine.invoke import execute
from a3s_code.errors import CodeError, SessionClosed
from a3s_code.ports.model import ModelRequest
from a3s_code.ports.tool import ToolContext
from a3s_code.testing import JumpingClock, ScriptedModel, calls, delay, error
from a3s_code.testing.turns import Turn


def hold() -> Any:
    """A piece of a script that never comes to an end."""
    return delay(asyncio.Event())


async def started(session: Session, prompt: str = "go") -> asyncio.Task[Any]:
    """A ``send`` whose run is at work."""
    task = asyncio.ensure_future(session.send_async(prompt))
    await until(lambda: session.current_run() is not None)
    return task


async def usable(session: Session, workspace: Path, model: ScriptedModel) -> None:
    """The log is well formed, and the next prompt is answered from well formed messages."""
    assert one_result_each(workspace)
    model.add("next")
    assert (await session.send_async("and now?")).text == "next"
    assert all(well_formed(list(request.messages)) for request in model.requests)


async def test_cancel_while_the_model_streams(agent: Agent, workspace: Path) -> None:
    """``cancel`` makes ``send`` return what there was as cancelled, and the session goes on."""
    model = ScriptedModel([["partial", hold()]])
    session = await open_session(agent, workspace, llm_client=model)
    task = await started(session)
    await until(lambda: "text_delta" in [e["type"] for e in session.run_events(str(session.runs()[0]["id"]))])
    assert session.cancel()
    result = await task
    assert result.stop_reason == "cancelled"
    assert not session.cancel()
    await usable(session, workspace, model)


async def test_cancel_run_names_its_run(agent: Agent, workspace: Path) -> None:
    """``cancel_run`` of another id does nothing; of the run at work it cancels; twice, or afterwards, it is False."""
    model = ScriptedModel([[hold()]])
    session = await open_session(agent, workspace, llm_client=model)
    task = await started(session)
    await until(lambda: len(model.requests) == 1)
    run_id = str(session.runs()[0]["id"])
    assert not session.cancel_run("another")
    assert session.cancel_run(run_id)
    assert not session.cancel_run(run_id)
    assert (await task).stop_reason == "cancelled"
    assert not session.cancel_run(run_id)
    await usable(session, workspace, model)


async def test_cancel_while_a_coroutine_tool_runs(agent: Agent, workspace: Path) -> None:
    """A tool that watches ``ctx.cancelled`` ends by itself, its result is recorded, calls after it never begin."""
    began = asyncio.Event()

    @tool
    async def wait_for_it(ctx: ToolContext) -> str:
        """Waits."""
        began.set()
        await ctx.cancelled.wait()
        return "stopped in time"

    model = ScriptedModel([calls(("wait_for_it", {}), ("ls", {}))])
    session = await open_session(agent, workspace, llm_client=model, tools=[wait_for_it])
    task = await started(session)
    await began.wait()
    session.cancel()
    assert (await task).stop_reason == "cancelled"
    first, second = data(workspace, "tool.result")
    assert (first.output, first.outcome) == ("stopped in time", "ok")
    assert second.outcome == "cancelled"
    assert len(data(workspace, "tool.started")) == 1
    await usable(session, workspace, model)


async def test_a_deaf_coroutine_tool_is_stopped(agent: Agent, workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tool that doesn't listen is cancelled after the grace, and awaited (case B09)."""
    monkeypatch.setattr(execute, "GRACE_S", 0.01)
    began, ended = asyncio.Event(), asyncio.Event()

    @tool
    async def deaf() -> str:
        """Waits."""
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return "never"

    model = ScriptedModel([calls(("deaf", {}))])
    session = await open_session(agent, workspace, llm_client=model, tools=[deaf])
    task = await started(session)
    await began.wait()
    session.cancel()
    assert (await task).stop_reason == "cancelled"
    await until(ended.is_set)
    assert list(outcomes(workspace).values()) == ["cancelled"]
    await usable(session, workspace, model)


async def test_a_stuck_thread_is_abandoned_and_its_answer_dropped(
    agent: Agent, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plain function that blocks is written off; what it gives later goes nowhere (case B09)."""
    monkeypatch.setattr(execute, "GRACE_S", 0.01)
    began, release, left = threading.Event(), threading.Event(), threading.Event()

    @tool
    def stuck() -> str:
        """Blocks."""
        began.set()
        release.wait(30)
        left.set()
        return "too late"

    model = ScriptedModel([calls(("stuck", {}))])
    session = await open_session(agent, workspace, llm_client=model, tools=[stuck])
    task = await started(session)
    await until(began.is_set)
    session.cancel()
    assert (await task).stop_reason == "cancelled"
    written = len(kinds(workspace))
    release.set()
    await until(left.is_set)
    assert len(kinds(workspace)) == written
    await usable(session, workspace, model)


async def test_cancel_kills_what_bash_started(agent: Agent, workspace: Path) -> None:
    """A shell command and its children end with the run, and what was printed is in the result."""
    model = ScriptedModel([calls(("bash", {"command": "echo begun; sleep 600 & sleep 600"}))])
    session = await open_session(agent, workspace, llm_client=model)
    task = await started(session)
    run_id = str(session.runs()[0]["id"])
    await until(lambda: "tool_output_delta" in [e["type"] for e in session.run_events(run_id)])
    session.cancel()
    assert (await task).stop_reason == "cancelled"
    (result,) = data(workspace, "tool.result")
    assert (result.outcome, result.exit_code) == ("cancelled", 130)
    assert "begun" in result.output
    assert session.active_tools() == []
    await usable(session, workspace, model)


async def test_cancel_between_admission_and_the_call(agent: Agent, workspace: Path) -> None:
    """A call whose start is being made durable when the run is cancelled never begins."""
    ran: list[str] = []

    @tool
    def effect() -> str:
        """Has an effect."""
        ran.append("x")
        return "done"

    model = ScriptedModel([calls(("effect", {}))])
    session = await open_session(agent, workspace, llm_client=model, tools=[effect], log_durability="fsync")
    engine = session._engine
    real = engine.writer.durable

    async def cancelling() -> None:
        if engine.view().turns:
            session.cancel()
        await real()

    engine.writer.durable = cancelling  # type: ignore[method-assign]  # the one moment that is hard to hit
    result = await session.send_async("go")
    engine.writer.durable = real  # type: ignore[method-assign]  # as it was
    assert result.stop_reason == "cancelled"
    assert ran == []
    assert list(outcomes(workspace).values()) == ["cancelled"]
    await usable(session, workspace, model)


async def test_cancel_from_inside_the_model_client(agent: Agent, workspace: Path) -> None:
    """A client that cancels its own run and then answers without waiting ends it as cancelled, not with an error."""
    found: list[Session] = []

    def answer(request: ModelRequest) -> Turn:
        found[0].cancel()
        return calls(("bash", {"command": "echo never"}))

    model = ScriptedModel([answer])
    session = await open_session(agent, workspace, llm_client=model, log_durability="fsync")
    found.append(session)
    assert (await session.send_async("go")).stop_reason == "cancelled"
    assert "tool.started" not in kinds(workspace)
    await usable(session, workspace, model)


async def test_cancel_from_a_tool(agent: Agent, workspace: Path) -> None:
    """A tool may cancel the run it is part of; its own result is kept."""
    found: list[Session] = []

    @tool
    async def stop() -> str:
        """Stops everything."""
        found[0].cancel()
        return "stopped"

    model = ScriptedModel([calls(("stop", {}))])
    session = await open_session(agent, workspace, llm_client=model, tools=[stop])
    found.append(session)
    assert (await session.send_async("go")).stop_reason == "cancelled"
    assert [each.output for each in data(workspace, "tool.result")] == ["stopped"]
    await usable(session, workspace, model)


async def test_cancel_while_waiting_to_try_again(agent: Agent, workspace: Path) -> None:
    """The wait between two attempts of a model call ends at once."""
    agent._shared.clock = JumpingClock(max_jump=0)  # type: ignore[assignment]  # a clock that stands still
    model = ScriptedModel([error(503)])
    session = await open_session(agent, workspace, llm_client=model)
    task = await started(session)
    await until(lambda: len(model.requests) == 1)
    session.cancel()
    assert (await task).stop_reason == "cancelled"
    await usable(session, workspace, model)


ASKS = {
    "permission_policy": PermissionPolicy(ask=["write"], default_decision="allow"),
    "confirmation_policy": ConfirmationPolicy(),
}


async def parked(agent: Agent, workspace: Path, model: ScriptedModel) -> tuple[Session, asyncio.Task[Any]]:
    session = await open_session(agent, workspace, llm_client=model, **ASKS)
    task = await started(session)
    await until(lambda: session.runs()[0]["status"] == "parked")
    return session, task


WRITES = calls(("ls", {}), ("write", {"file_path": "a", "content": "x\n"}))


async def test_cancel_while_parked(agent: Agent, workspace: Path) -> None:
    """A parked run is ended by ``cancel``; its open calls are cancelled and can't be answered any more."""
    model = ScriptedModel([WRITES])
    session, task = await parked(agent, workspace, model)
    (pending,) = session.pending_confirmations()
    session.cancel()
    assert (await task).stop_reason == "cancelled"
    assert list(outcomes(workspace).values()) == ["ok", "cancelled"]
    assert session.pending_confirmations() == []
    assert not await session.confirm_tool_use_async(str(pending["tool_id"]), True)
    assert not (workspace / "a").exists()
    await usable(session, workspace, model)


async def test_close_while_parked_keeps_it_parked(agent: Agent, workspace: Path) -> None:
    """``close`` leaves a parked run parked in the log; ``send`` raises, the stream ends with one ``error``."""
    session, task = await parked(agent, workspace, ScriptedModel([WRITES]))
    await session.close_async()
    with pytest.raises(SessionClosed, match="Session 's' is closed"):
        await task
    assert kinds(workspace)[-1] == "tool.result"
    again = await open_session(agent, workspace, **ASKS)
    assert [each["tool_name"] for each in again.pending_confirmations()] == ["write"]
    assert again.runs()[0]["status"] == "parked"


async def test_a_parked_stream_ends_when_its_session_closes(agent: Agent, workspace: Path) -> None:
    """A reader of a parked run gets exactly one terminal event, also from ``close``."""
    session = await open_session(agent, workspace, WRITES, **ASKS)
    stream = await session.stream_async("go")
    reading = asyncio.ensure_future(collected(stream))
    await until(lambda: session.runs()[0]["status"] == "parked")
    await session.close_async()
    events = await reading
    assert [event.type for event in events].count("error") == 1
    assert (events[-1].type, events[-1].payload["code"]) == ("error", "SESSION_CLOSED")
    assert session.runs()[0]["status"] == "parked"


async def test_close_in_the_middle_of_a_run(agent: Agent, workspace: Path) -> None:
    """``close`` ends the run, waits for it, and ``send`` raises SessionClosed; the log is well formed."""
    session = await open_session(agent, workspace, ["partial", hold()])
    task = await started(session)
    await session.close_async()
    assert task.done() or session._engine.active is None
    with pytest.raises(SessionClosed):
        await task
    assert one_result_each(workspace)
    assert data(workspace, "run.closed")[0].status == "cancelled"
    for operation in (session.send_async("x"), session.stream_async("x"), session.tool_async("ls", {})):
        with pytest.raises(SessionClosed):
            await operation
    await session.close_async()


async def test_close_ends_a_host_call(agent: Agent, workspace: Path) -> None:
    """A host's direct tool call is cancelled by ``close``, which returns only when it has ended."""
    session = await open_session(agent, workspace)
    task = asyncio.ensure_future(session.tool_async("bash", {"command": "sleep 600"}))
    await until(lambda: bool(session.active_tools()))
    await session.close_async()
    assert session.active_tools() == []
    assert (await task).error_kind == "cancelled"


async def test_the_token_stops_all_work(agent: Agent, workspace: Path) -> None:
    """Cancelling the session's token ends the run; the session is not closed."""
    session = await open_session(agent, workspace, [hold()])
    task = await started(session)
    session.session_cancel_token().cancel()
    assert (await task).stop_reason == "cancelled"
    assert not session.is_closed()


async def test_the_first_end_counts(agent: Agent, workspace: Path) -> None:
    """A cancel after the run has settled changes nothing (case B14)."""
    session = await open_session(agent, workspace, "done")
    stream = await session.stream_async("go")
    await until(lambda: session.runs()[0]["status"] == "completed")
    assert not session.cancel()
    events = await collected(stream)
    assert events[-1].payload["stop_reason"] == "done"
    assert [each.status for each in data(workspace, "run.closed")] == ["completed"]


async def test_out_of_working_time(agent: Agent, workspace: Path) -> None:
    """``max_execution_time_ms`` interrupts the run, which fails with DEADLINE_EXCEEDED and a partial result."""
    model = ScriptedModel([[calls(("ls", {}))[0]], [hold()]])
    session = await open_session(agent, workspace, llm_client=model, max_execution_time_ms=300)
    with pytest.raises(CodeError, match="max_execution_time_ms=300") as caught:
        await session.send_async("go")
    assert caught.value.code == "DEADLINE_EXCEEDED"
    assert caught.value.result.tool_calls_count == 1
    await usable(session, workspace, model)


async def test_parked_time_does_not_count(agent: Agent, workspace: Path) -> None:
    """A run that is parked has no working time to run out of."""
    model = ScriptedModel([WRITES, "written"])
    session = await open_session(agent, workspace, llm_client=model, max_execution_time_ms=10_000, **ASKS)
    task = await started(session)
    await until(lambda: session.runs()[0]["status"] == "parked")
    run = session._engine.active
    assert run is not None
    assert run.worktime._timer is None
    (pending,) = session.pending_confirmations()
    assert await session.confirm_tool_use_async(str(pending["tool_id"]), True)
    assert (await task).text == "written"


async def test_nothing_follows_the_terminal_event(agent: Agent, workspace: Path) -> None:
    """The recorded events of a cancelled run end with its one ``agent_end``."""
    session = await open_session(agent, workspace, ["partial", hold()])
    task = await started(session)
    session.cancel()
    await task
    types = [event["type"] for event in session.run_events(str(session.runs()[0]["id"]))]
    assert types[-1] == "agent_end"
    assert types.count("agent_end") == 1
