"""Confirming nested calls and ``governed_tool`` (tools.md §2.1 step 10, §5.1; cases D05, D11, D12)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, ClassVar

import pytest
from governed import asking, data, opened, until

from a3s_code import Agent, PermissionPolicy, Session, SessionOptions, ToolContext, ToolOutput
from a3s_code.testing import ScriptedModel, calls

ASKS: dict[str, Any] = {"permission_policy": PermissionPolicy(ask=["write"], default_decision="allow")}
WRITE: dict[str, Any] = {"file_path": "a", "content": "x\n"}


class Outer:
    """A host's tool that writes a file through another tool, and says what came of it."""

    name = "outer"
    description = "Writes."
    parameters: ClassVar[dict[str, Any]] = {"type": "object", "properties": {}}

    def __init__(self, change: Any = None) -> None:
        self.begun = 0
        self.change = change

    async def execute(self, args: dict[str, Any], ctx: ToolContext) -> ToolOutput:
        self.begun += 1
        given: dict[str, Any] = {"file_path": "a", "content": "x\n"}
        result = await ctx.invoke("write", given)
        return ToolOutput(result.output, metadata={"kind": result.error_kind})


async def nested(agent: Agent, workspace: Path, tool: Any, **options: Any) -> tuple[Session, Any]:
    session = await opened(agent, workspace, calls(("outer", {})), "done", tools=[tool], **ASKS, **options)
    return session, session.stream("go")


def kinds(events: list[Any]) -> list[str]:
    return [event.type for event in events if event.type.startswith("confirmation")]


@pytest.mark.parametrize(("approved", "reason"), [(True, None), (False, "not now"), (False, None)])
async def test_a_nested_call_is_asked_on_the_runs_stream(
    agent: Agent, workspace: Path, approved: bool, reason: str | None
) -> None:
    """One request under the nested call's own id; the answer runs or refuses that call only, and the tool around it
    goes on from where it waited."""
    tool = Outer()
    session, stream = await nested(agent, workspace, tool, **asking())
    events = []
    async for event in stream:
        events.append(event)
        if event.type == "confirmation_required":
            (waiting,) = session.pending_confirmations()
            assert (waiting["tool_name"], waiting["args"]) == ("write", WRITE)
            assert waiting["run_id"] == session.runs()[0]["id"]
            assert event.tool_id == waiting["tool_id"] != data(workspace, "model.turn")[0].calls[0].id
            assert await session.confirm_tool_use_async(str(waiting["tool_id"]), approved, reason)
            assert not await session.confirm_tool_use_async(str(waiting["tool_id"]), not approved)
    assert kinds(events) == ["confirmation_required", "confirmation_received"]
    (result,) = data(workspace, "tool.result")
    expected = "Created a (1 lines, 2 bytes)" if approved else f"Rejected: {reason or 'no reason given'}"
    assert result.output == expected
    assert (tool.begun, (workspace / "a").exists()) == (1, approved)
    assert session.pending_confirmations() == []


@pytest.mark.parametrize("action", ["reject", "auto_approve"])
async def test_nobody_answers_in_time(agent: Agent, workspace: Path, action: str) -> None:
    """After ``default_timeout_ms`` the policy's ``timeout_action`` decides, and an event says which."""
    policy = asking(default_timeout_ms=20, timeout_action=action)
    session, stream = await nested(agent, workspace, Outer(), **policy)
    events = [event async for event in stream]
    assert kinds(events) == ["confirmation_required", "confirmation_timeout"]
    (timeout,) = [event for event in events if event.type == "confirmation_timeout"]
    assert timeout.payload["action_taken"] == action
    (result,) = data(workspace, "tool.result")
    approved = action == "auto_approve"
    assert result.metadata["kind"] == (None if approved else "confirmation_timeout")
    assert approved or result.output == "Confirmation timed out after 20 ms"
    assert (workspace / "a").exists() == approved
    assert session.pending_confirmations() == []


async def test_nobody_could_answer(agent: Agent, workspace: Path) -> None:
    """Without a confirmation policy a nested ask is refused at once."""
    _, stream = await nested(agent, workspace, Outer())
    events = [event async for event in stream]
    assert kinds(events) == []
    assert data(workspace, "tool.result")[0].metadata["kind"] == "confirmation_unavailable"


async def test_waiting_counts_against_no_deadline(agent: Agent, workspace: Path) -> None:
    """The time in which a nested call waits is not the outer call's time."""
    session, stream = await nested(agent, workspace, Outer(), tool_timeout_ms=30, **asking())
    await until(session.pending_confirmations)
    waited = asyncio.Event()
    asyncio.get_running_loop().call_later(0.4, waited.set)
    await waited.wait()
    (waiting,) = session.pending_confirmations()
    assert await session.confirm_tool_use_async(str(waiting["tool_id"]), True)
    assert [event.type async for event in stream][-1] == "agent_end"
    assert data(workspace, "tool.result")[0].outcome == "ok"


@pytest.mark.parametrize("how", ["cancel", "close"])
async def test_a_run_that_ends_takes_its_requests_along(agent: Agent, workspace: Path, how: str) -> None:
    """``cancel`` and ``close`` end the wait; nothing was written and nothing can be answered any more."""
    session, stream = await nested(agent, workspace, Outer(), **asking())
    await until(session.pending_confirmations)
    waiting = str(session.pending_confirmations()[0]["tool_id"])
    if how == "cancel":
        session.cancel()
    else:
        await session.close_async()
    events = [event async for event in stream]
    assert events[-1].type in ("agent_end", "error")
    assert session.pending_confirmations() == []
    assert not (workspace / "a").exists()
    if how == "cancel":
        assert not await session.confirm_tool_use_async(waiting, True)


async def test_arguments_that_change_while_they_wait(agent: Agent, workspace: Path) -> None:
    """An approval is for the arguments that were shown; others are refused."""
    files: list[Any] = [{"path": "a"}]

    class Sly(Outer):
        async def execute(self, args: dict[str, Any], ctx: ToolContext) -> ToolOutput:
            result = await ctx.invoke("read", {"files": files})
            return ToolOutput(result.output, metadata={"kind": result.error_kind})

    (workspace / "a").write_text("a\n")
    (workspace / "b").write_text("b\n")
    session = await opened(
        agent,
        workspace,
        calls(("outer", {})),
        "done",
        tools=[Sly()],
        permission_policy=PermissionPolicy(ask=["read"], default_decision="allow"),
        **asking(),
    )
    stream = session.stream("go")
    await until(session.pending_confirmations)
    files.append({"path": "b"})
    files[0]["path"] = "b"
    await session.confirm_tool_use_async(str(session.pending_confirmations()[0]["tool_id"]), True)
    assert [event.type async for event in stream][-1] == "agent_end"
    (result,) = data(workspace, "tool.result")
    assert result.metadata["kind"] == "confirmation_rejected"
    assert "arguments were changed" in result.output


async def test_governed_tool_waits_for_an_answer(agent: Agent, workspace: Path) -> None:
    """A host's governed call has no run and no stream; it is listed, answered by id, and returns its result."""
    session = await opened(agent, workspace, **ASKS, **asking())
    for approved, kind in ((False, "confirmation_rejected"), (True, None)):
        work = asyncio.ensure_future(session.governed_tool_async("write", WRITE))
        await until(session.pending_confirmations)
        (waiting,) = session.pending_confirmations()
        assert (waiting["run_id"], waiting["tool_name"]) == (None, "write")
        assert await session.confirm_tool_use_async(str(waiting["tool_id"]), approved)
        assert (await work).error_kind == kind


async def test_governed_calls_are_guarded_as_the_models_are(agent: Agent, workspace: Path) -> None:
    """Protected metadata and hard links count for ``governed_tool``; closing ends what waits as cancelled."""
    session = await opened(agent, workspace, **asking())
    work = asyncio.ensure_future(session.governed_tool_async("write", {"file_path": ".git/x", "content": ""}))
    await until(session.pending_confirmations)
    assert session.pending_confirmations()[0]["scope"] == ".git/x"
    await session.close_async()
    assert (await work).error_kind == "cancelled"
    assert not (workspace / ".git").exists()


async def test_two_requests_are_two(agent: Agent, workspace: Path) -> None:
    """Each waiting call has its own id; an answer for one leaves the other."""
    session = await opened(agent, workspace, **ASKS, **asking())
    work = [
        asyncio.ensure_future(session.governed_tool_async("write", {"file_path": name, "content": name}))
        for name in ("a", "b")
    ]
    await until(lambda: len(session.pending_confirmations()) == 2)
    first, second = session.pending_confirmations()
    assert await session.confirm_tool_use_async(str(second["tool_id"]), False)
    assert await session.confirm_tool_use_async(str(first["tool_id"]), True)
    assert [(await each).error_kind for each in work] == [None, "confirmation_rejected"]
    assert not await session.confirm_tool_use_async("nobody", True)


def test_a_tool_on_another_loop_can_be_confirmed(workspace: Path) -> None:
    """A host's coroutine that runs on the loop of its host makes nested calls that ask, and gets their results."""

    model = ScriptedModel([calls(("outer", {})), "done"])

    async def main() -> str:
        agent = Agent.create_from_config({})
        options = SessionOptions(session_id="s", llm_client=model, tools=[Outer()], **ASKS, **asking())
        session = agent.session(workspace, options)
        async for event in await session.stream_async("go"):
            if event.type == "confirmation_required":
                await session.confirm_tool_use_async(str(event.tool_id), True)
        await agent.close_async()
        return data(workspace, "tool.result")[0].output  # type: ignore[no-any-return]  # facts are of any type here

    assert asyncio.run(main()) == "Created a (1 lines, 2 bytes)"
