"""A host's budget guard (api.md): asked on every path, fails closed, and the session stays open."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from a3s_code import Agent, BudgetExhausted, Session
from a3s_code.testing import ScriptedModel, call

ACL = 'default_model = "offline/scout"'


class Guard:
    def __init__(self, llm: Any = None, tool: Any = None) -> None:
        self.llm, self.tool = llm, tool
        self.asked: list[tuple[str, str, Any]] = []

    def check_before_llm(self, session_id: str, estimated_tokens: int) -> Any:
        self.asked.append(("llm", session_id, estimated_tokens))
        return self.llm() if callable(self.llm) else self.llm

    def record_after_llm(self, session_id: str, usage: Any) -> None:
        self.asked.append(("usage", session_id, usage))

    def check_before_tool(self, session_id: str, tool_name: str) -> Any:
        self.asked.append(("tool", session_id, tool_name))
        return self.tool() if callable(self.tool) else self.tool


async def open_session(agent: Agent, tmp_path: Path, turns: list[Any], guard: object, **options: Any) -> Session:
    model = ScriptedModel(turns)
    return await agent.session_async(tmp_path, llm_client=model, session_id="s", budget_guard=guard, **options)


async def test_guard_is_asked_before_each_model_and_tool_call_and_told_the_usage(tmp_path: Path) -> None:
    """Every model request comes with a real estimate, every tool call with its name, every answer with its usage."""
    guard = Guard()
    async with await Agent.create_async(ACL) as agent:
        session = await open_session(agent, tmp_path, [[call("ls", {})], "done"], guard)
        await session.send_async("go")
        await session.tool_async("ls")
    kinds = [kind for kind, _, _ in guard.asked]
    assert kinds == ["llm", "usage", "tool", "llm", "usage", "tool"]
    assert guard.asked[0][2] > 100
    assert set(guard.asked[1][2]) >= {"prompt_tokens", "completion_tokens", "total_tokens", "cache_read_tokens"}
    assert {session_id for _, session_id, _ in guard.asked} == {"s"}


async def test_denied_model_call_fails_the_run_and_leaves_the_session_open(tmp_path: Path) -> None:
    """The error names resource and reason, a hard event is sent, and the next prompt works once the guard is gone."""
    guard = Guard(llm={"decision": "deny", "resource": "tokens", "reason": "monthly cap"})
    async with await Agent.create_async(ACL) as agent:
        session = await open_session(agent, tmp_path, ["hello"], guard)
        with pytest.raises(BudgetExhausted, match=r"^Budget exhausted on 'tokens': monthly cap$") as caught:
            await session.send_async("go")
        assert caught.value.code == "BUDGET_EXHAUSTED"
        hits = [
            e["payload"]
            for e in session.run_events(str(session.runs()[0]["id"]))
            if e["type"] == "budget_threshold_hit"
        ]
        assert hits == [
            {"resource": "tokens", "kind": "hard", "consumed": None, "limit": None, "message": "monthly cap"}
        ]
        session.set_budget_guard(None)
        assert (await session.send_async("again")).text == "hello"


async def test_soft_limit_goes_on_and_is_told(tmp_path: Path) -> None:
    """A soft decision only sends an event."""
    guard = Guard(llm={"decision": "soft", "resource": "usd", "consumed": 8, "limit": 10})
    async with await Agent.create_async(ACL) as agent:
        session = await open_session(agent, tmp_path, ["hello"], guard)
        result = await session.send_async("go")
        hits = [e["payload"] for e in session.run_events(result.run_id) if e["type"] == "budget_threshold_hit"]
    assert result.text == "hello"
    assert hits == [{"resource": "usd", "kind": "soft", "consumed": 8, "limit": 10}]


async def test_denied_tool_call_becomes_a_denied_result(tmp_path: Path) -> None:
    """The tool doesn't run and the model reads why."""
    guard = Guard(tool={"decision": "deny", "resource": "calls", "reason": "enough"})
    async with await Agent.create_async(ACL) as agent:
        turns: list[Any] = [[call("write", {"file_path": "x", "content": "y"})], "done"]
        session = await open_session(agent, tmp_path, turns, guard)
        result = await session.send_async("go")
        assert result.text == "done"
        assert session.history()[2]["content"] == "Budget exhausted on 'calls': enough"
        direct = await session.tool_async("ls")
    assert not (tmp_path / "x").exists()
    assert direct.error_kind == "budget_exhausted"


def raises() -> None:
    raise ValueError("broken")


def exits() -> None:
    raise SystemExit(3)


@pytest.mark.parametrize(
    "answer",
    [raises, exits, "yes", {"decision": "maybe"}, {"decision": "deny"}, {"decision": "soft", "resource": "x"}, 1],
)
async def test_guard_that_fails_or_answers_rubbish_has_denied(tmp_path: Path, answer: Any) -> None:
    """Exceptions, also those that end programs, and unknown shapes are refusals on the resource budget_guard."""
    async with await Agent.create_async(ACL) as agent:
        session = await open_session(agent, tmp_path, ["hello"], Guard(llm=answer))
        with pytest.raises(BudgetExhausted, match=r"^Budget exhausted on 'budget_guard': "):
            await session.send_async("go")


async def test_guard_that_does_not_answer_in_time_has_denied(tmp_path: Path) -> None:
    """A coroutine that never ends is given up after the timeout."""

    class Hangs:
        async def check_before_llm(self, session_id: str, estimated_tokens: int) -> None:
            await asyncio.Event().wait()

    async with await Agent.create_async(ACL) as agent:
        session = await open_session(agent, tmp_path, ["hello"], Hangs(), budget_guard_timeout_ms=30)
        with pytest.raises(BudgetExhausted, match="gave no answer within 30 ms"):
            await session.send_async("go")


async def test_failing_bookkeeping_is_ignored(tmp_path: Path) -> None:
    """record_after_llm may raise; missing methods allow."""

    class OnlyRecords:
        def record_after_llm(self, session_id: str, usage: Any) -> None:
            raise RuntimeError("ledger is down")

    async with await Agent.create_async(ACL) as agent:
        session = await open_session(agent, tmp_path, ["hello"], OnlyRecords())
        assert (await session.send_async("go")).text == "hello"
