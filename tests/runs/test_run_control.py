"""Steer and interrupt (facts.md, api.md): receipts, refusals, and what they do to the run."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from a3s_code import Agent, CodeError, Session, ToolContext, tool
from a3s_code.core.content import UserMessage
from a3s_code.testing import ScriptedModel, call

ACL = 'default_model = "offline/scout"'


class Gate:
    """A tool that waits until the test lets it go."""

    def __init__(self) -> None:
        self.entered = asyncio.Event()
        self.leave = asyncio.Event()

        @tool
        async def hold(ctx: ToolContext) -> str:
            """Waits."""
            self.entered.set()
            await self.leave.wait()
            return "held"

        self.tool = hold


async def started(agent: Agent, tmp_path: Path, *turns: Any) -> tuple[Session, ScriptedModel, Gate, asyncio.Task[Any]]:
    gate, model = Gate(), ScriptedModel([[call("hold", {})], *turns])
    session = await agent.session_async(tmp_path, llm_client=model, tools=[gate.tool])
    work = asyncio.create_task(session.send_async("go"))
    await gate.entered.wait()
    return session, model, gate, work


async def refused(code: str, request: Any) -> None:
    with pytest.raises(CodeError) as caught:
        await request
    assert caught.value.code == code


async def test_steer_is_a_user_message_of_the_next_provider_call(tmp_path: Path) -> None:
    """It is accepted at once, applied with the next request, and settled with the run."""
    async with await Agent.create_async(ACL) as agent:
        session, model, gate, work = await started(agent, tmp_path, "done")
        receipt = await session.steer_async("look at the test first", {"request_id": "r1"})
        assert receipt["state"] == "accepted"
        snapshot = await session.run_control_snapshot_async()
        assert snapshot is not None
        assert (snapshot["turn_id"], snapshot["turn_revision"], snapshot["pending"]) == ("turn-1", 1, 1)
        gate.leave.set()
        result = await work
        assert model.requests[1].messages[-1] == UserMessage("look at the test first")
        events = session.run_events(result.run_id)
        applied = [e["payload"] for e in events if e["type"] == "run_control_applied"]
        assert applied == [{"request_id": "r1", "kind": "steer", "run_id": result.run_id, "turn_id": "turn-2"}]
        again = await session.steer_async("look at the test first", {"request_id": "r1"})
        assert (again["state"], again["accepted_ms"]) == ("settled", receipt["accepted_ms"])


async def test_steer_that_waits_where_the_run_would_settle_makes_it_go_on(tmp_path: Path) -> None:
    """A steer that arrives during the last answer gets an answer of its own."""
    answering, go_on = asyncio.Event(), asyncio.Event()

    class Model:
        def __init__(self) -> None:
            self.asked: list[int] = []

        async def stream(self, request: Any) -> Any:
            from a3s_code import ModelDelta

            self.asked.append(len(request.messages))
            answering.set()
            await go_on.wait()
            yield ModelDelta(text=f"answer {len(self.asked)}", finish="stop")

    async with await Agent.create_async(ACL) as agent:
        model = Model()
        session = await agent.session_async(tmp_path, llm_client=model)
        work = asyncio.create_task(session.send_async("go"))
        await answering.wait()
        await session.steer_async("and this")
        go_on.set()
        assert (await work).text == "answer 2"
        assert model.asked == [1, 3]


async def test_steer_lifts_the_tool_budget_that_was_used_up(tmp_path: Path) -> None:
    """A steer counts as a prompt: the budget starts anew instead of ending the run, and the log stays well formed."""
    async with await Agent.create_async(ACL) as agent:
        gate = Gate()
        model = ScriptedModel([[call("hold", {}), call("ls", {})], "done"])
        session = await agent.session_async(tmp_path, llm_client=model, tools=[gate.tool], tool_budget=1)
        work = asyncio.create_task(session.send_async("go"))
        await gate.entered.wait()
        await session.steer_async("never mind the rest")
        gate.leave.set()
        result = await work
        assert (result.stop_reason, result.text) == ("done", "done")
        roles = [message["role"] for message in session.history()]
        assert roles == ["user", "assistant", "tool", "tool", "user", "assistant"]


async def test_interrupt_cancels_the_work_and_settles_the_run(tmp_path: Path) -> None:
    """The open call gets a cancelled result, the run ends cancelled, and a waiting steer is rejected."""
    async with await Agent.create_async(ACL) as agent:
        session, _, _, work = await started(agent, tmp_path)
        await session.steer_async("too late", {"request_id": "steer"})
        receipt = await session.interrupt_async({"reason": "User stopped the run"})
        result = await work
        assert (receipt["kind"], result.stop_reason) == ("interrupt", "cancelled")
        assert session.history()[-1]["content"] == "Cancelled"
        late = await session.steer_async("too late", {"request_id": "steer"})
        assert (late["state"], late["code"]) == ("rejected", "NO_ACTIVE_RUN")


async def test_every_refusal_has_its_code_and_leaves_nothing_behind(tmp_path: Path) -> None:
    """Stale, foreign, late, doubled and surplus requests are refused, each under its own code."""
    async with await Agent.create_async(ACL) as agent:
        session, model, gate, work = await started(agent, tmp_path, "done")
        await refused("RUN_MISMATCH", session.steer_async("x", {"run_id": "other"}))
        await refused("STALE_TURN", session.steer_async("x", {"expected_turn_id": "turn-9"}))
        await refused("STALE_TURN", session.interrupt_async({"expected_turn_revision": 7}))
        await refused("DEADLINE_EXCEEDED", session.steer_async("x", {"deadline_ms": 1}))
        await refused("INVALID_REQUEST", session.steer_async("x", {"turn": 1}))
        await refused("INVALID_REQUEST", session.steer_async(" "))
        await session.steer_async("one", {"request_id": "same"})
        await refused("DUPLICATE_REQUEST", session.steer_async("two", {"request_id": "same"}))
        for n in range(63):
            await session.steer_async(f"more {n}")
        await refused("QUEUE_FULL", session.steer_async("one too many"))
        gate.leave.set()
        await work
        assert [m.text for m in model.requests[1].messages if isinstance(m, UserMessage)][1] == "one"
        assert len([m for m in model.requests[1].messages if isinstance(m, UserMessage)]) == 65
        await refused("NO_ACTIVE_RUN", session.steer_async("x"))
        assert await session.run_control_snapshot_async() is None
        await session.close_async()
        await refused("CLOSED", session.steer_async("x"))


async def test_the_documents_example_of_a_guarded_steer_works(tmp_path: Path) -> None:
    """Snapshot fields passed back as expectations are taken, also before the first turn."""
    async with await Agent.create_async(ACL) as agent:
        session, _, gate, work = await started(agent, tmp_path, "done")
        state = await session.run_control_snapshot_async()
        options: dict[str, Any] = {}
        if state:
            options["run_id"] = state["run_id"]
            if state.get("turn_id") is not None:
                options["expected_turn_id"] = state["turn_id"]
            options["expected_turn_revision"] = state["turn_revision"]
        receipt = await session.steer_async("Prioritize the failing test", options)
        assert receipt["state"] == "accepted"
        gate.leave.set()
        await work
