"""Every event fires where the chapter says (extensions.md §1.4), with its payload."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hookhelp import ANSWERED, Heard, Note, open_session, until

from a3s_code import HOOK_EVENT_TYPES_EXTENDED, Agent, CodeError, LlmError, Session, tool
from a3s_code.core.content import Usage
from a3s_code.testing import ScriptedModel, call, error, turn

LATER = (
    "pre_context_perception post_context_perception pre_memory_recall post_memory_recall intent_detection pre_planning "
    "post_planning skill_load skill_unload pre_compact post_compact"
).split()


def hear_all(session: Session) -> Heard:
    heard = Heard()
    for name in HOOK_EVENT_TYPES_EXTENDED:
        session.register_hook(f"hear {name}", name, heard)
    return heard


async def test_a_run_fires_its_events_in_order(agent: Agent, workspace: Path) -> None:
    """The events of a run with one call, each with its payload and the envelope around it."""
    session = await open_session(
        agent,
        workspace,
        turn("Look.", call("search", {"mode": "glob", "query": "*.x"}, id="c1")),
        "done",
        tenant_id="t",
    )
    heard = hear_all(session)
    result = await session.send_async("go")
    assert heard.types == [
        "session_start",
        "pre_prompt",
        "pre_reasoning",
        "generate_start",
        "generate_end",
        "post_reasoning",
        "pre_tool_use",
        "post_tool_use",
        "pre_reasoning",
        "generate_start",
        "generate_end",
        "post_reasoning",
        "post_response",
        "on_success",
    ]
    by_type = {event["event_type"]: event for event in reversed(heard.events)}
    payloads = {name: event["payload"] for name, event in by_type.items()}
    assert payloads["session_start"] == {"workspace": session.workspace, "model": "custom", "resumed": False}
    assert payloads["pre_prompt"] == {"prompt": "go", "attachment_count": 0, "history_len": 0}
    assert payloads["pre_reasoning"] == {"turn": 1}
    assert payloads["post_reasoning"] == {"turn": 1, "tool_call_count": 1, "has_text": True}
    started = payloads["generate_start"]
    assert started.pop("estimated_tokens") > 100
    assert started.pop("tool_count") > 3
    assert started == {"model": "custom", "purpose": "turn", "attempt": 1, "message_count": 1}
    ended = payloads["generate_end"]
    assert ended.pop("duration_ms") >= 0
    assert set(ended.pop("usage")) >= {"prompt_tokens", "completion_tokens", "total_tokens"}
    assert ended == {"model": "custom", "purpose": "turn", "stop_reason": "tool_calls", "error": None}
    args = payloads["pre_tool_use"]["args"]
    assert payloads["pre_tool_use"] == {"tool": "search", "tool_call_id": "c1", "args": args, "origin": "agent"}
    assert args["path"] == "."  # defaults are filled in
    after = payloads["post_tool_use"]
    assert after.pop("duration_ms") >= 0
    assert after == {
        "args": args,
        "tool": "search",
        "tool_call_id": "c1",
        "origin": "agent",
        "exit_code": 0,
        "output": "No files found matching: *.x",
        "error_kind": None,
    }
    assert payloads["post_response"]["text"] == "done"
    assert payloads["post_response"]["tool_calls_count"] == 1
    assert payloads["post_response"]["completion"] is None
    assert payloads["on_success"]["usage"] == payloads["post_response"]["usage"]
    envelope = by_type["pre_tool_use"]
    assert envelope["session_id"] == "s"
    assert envelope["parent_session_id"] is None
    assert envelope["run_id"] == result.run_id
    assert envelope["turn_id"] == "turn-1"
    assert envelope["timestamp_ms"] > 0
    assert envelope["tenant_id"] == "t"
    assert envelope["principal"] is envelope["agent_template_id"] is envelope["correlation_id"] is None
    assert not set(heard.types) & set(LATER)


async def test_session_start_and_end_come_once(agent: Agent, workspace: Path) -> None:
    """session_start comes with the first operation of any kind, session_end in close() with what was done."""
    model = ScriptedModel(["a", "b"], usage=Usage(3, 2, 5))
    session = await open_session(agent, workspace, llm_client=model)
    heard = Heard()
    session.register_hook("start", "session_start", heard)
    session.register_hook("end", "session_end", heard)
    await session.tool_async("ls")
    await session.send_async("one")
    await session.send_async("two")
    assert heard.types == ["session_start"]
    await session.close_async()
    await session.close_async()
    assert heard.types == ["session_start", "session_end"]
    assert heard.payloads[1] == {"reason": "closed", "runs": 2, "total_tokens": 10}
    again = await open_session(agent, workspace, "c")
    again.register_hook("start", "session_start", heard)
    again.register_hook("end", "session_end", heard)
    await again.send_async("three")
    assert heard.payloads[2]["resumed"] is True
    await agent.close_async()
    assert heard.payloads[3] == {"reason": "agent_closed", "runs": 1, "total_tokens": heard.payloads[3]["total_tokens"]}


async def test_an_unused_session_has_no_end(agent: Agent, workspace: Path) -> None:
    """Without a first operation neither event fires."""
    session = await open_session(agent, workspace)
    heard = hear_all(session)
    await session.close_async()
    assert heard.types == []


async def test_each_attempt_is_a_generation(agent: Agent, workspace: Path) -> None:
    """A provider that is overloaded fires on_rate_limit before the wait, and every attempt its start and end."""
    session = await open_session(agent, workspace, error(429, "slow down", retry_after_ms=0), "done")
    heard = Heard()
    for name in ("generate_start", "generate_end", "on_rate_limit"):
        session.register_hook(name, name, heard)
    await session.send_async("go")
    assert heard.types == ["generate_start", "generate_end", "on_rate_limit", "generate_start", "generate_end"]
    assert [p.get("attempt") for p in heard.payloads] == [1, None, 1, 2, None]
    assert "slow down" in heard.payloads[1]["error"]
    assert heard.payloads[1]["usage"] is None
    assert heard.payloads[2] == {"model": "custom", "attempt": 1, "retry_after_ms": 0}


async def test_a_failed_run_fires_on_error(agent: Agent, workspace: Path) -> None:
    """on_error has code and message; neither on_success nor post_response comes."""
    session = await open_session(agent, workspace, error(400, "no such model"))
    heard = hear_all(session)
    with pytest.raises(LlmError):
        await session.send_async("go")
    assert heard.types[-1] == "on_error"
    assert heard.payloads[-1]["code"] == "LLM_ERROR"
    assert "no such model" in heard.payloads[-1]["message"]
    assert not {"post_response", "on_success"} & set(heard.types)


async def test_a_cancelled_run_fires_neither_success_nor_error(agent: Agent, workspace: Path) -> None:
    """Its interrupt is told as run control, and the call it stopped gets its post_tool_use."""

    @tool
    async def wait() -> str:
        """Waits until it is cancelled."""
        await session.interrupt_async({"request_id": "r1", "reason": "enough"})
        await until(lambda: False)
        return "never"

    session = await open_session(agent, workspace, [call("wait", {}, id="c")], tools=[wait])
    heard = hear_all(session)
    result = await session.send_async("go")
    assert result.stop_reason == "cancelled"
    assert not {"on_success", "on_error", "post_response"} & set(heard.types)
    (asked,) = [e["payload"] for e in heard.events if e["event_type"] == "pre_run_control"]
    assert asked == {"kind": "interrupt", "request_id": "r1", "text": None, "reason": "enough"}
    states = [e["payload"]["state"] for e in heard.events if e["event_type"] == "post_run_control"]
    assert states == ["accepted", "applied", "settled"]
    (after,) = [e["payload"] for e in heard.events if e["event_type"] == "post_tool_use"]
    assert (after["error_kind"], after["exit_code"]) == ("cancelled", 130)


async def test_steering_is_told_until_it_settles(agent: Agent, workspace: Path) -> None:
    """A steer is accepted, applied and settled; the receipts carry its request id."""

    @tool
    async def steer() -> str:
        """Steers the run it is in."""
        await session.steer_async("left", {"request_id": "r2"})
        return "ok"

    session = await open_session(agent, workspace, [call("steer", {})], "done", tools=[steer])
    heard = Heard()
    session.register_hook("pre", "pre_run_control", heard)
    session.register_hook("post", "post_run_control", heard)
    await session.send_async("go")
    assert heard.payloads[0] == {"kind": "steer", "request_id": "r2", "text": "left", "reason": None}
    assert [p["state"] for p in heard.payloads[1:]] == ["accepted", "applied", "settled"]
    assert {p["request_id"] for p in heard.payloads} == {"r2"}


async def test_tool_events_fire_for_every_origin(agent: Agent, workspace: Path) -> None:
    """Direct, governed, nested and model calls; a denial fires post_tool_use only, a wrong call neither."""

    class Outer(Note):
        name = "outer"

        async def execute(self, args: dict[str, Any], ctx: Any) -> str:
            return str((await ctx.invoke("note", {"text": "inner"})).output)

    policy = {"deny": ["ls"], "default_decision": "allow"}
    script = [call("outer", {"text": "x"}), call("ls", {}), call("note", {}), call("nothing", {})]
    session = await open_session(agent, workspace, script, "done", tools=[Note(), Outer()], permission_policy=policy)
    heard = Heard()
    session.register_hook("pre", "pre_tool_use", heard)
    session.register_hook("post", "post_tool_use", heard)
    await session.send_async("go")
    await session.tool_async("note", {"text": "x"})
    await session.tool_async("ls")
    await session.governed_tool_async("ls")
    await session.tool_async("note", {})
    seen = [(e["event_type"], e["payload"]["tool"], e["payload"]["origin"]) for e in heard.events]
    assert seen == [
        ("post_tool_use", "ls", "agent"),
        ("pre_tool_use", "outer", "agent"),
        ("pre_tool_use", "note", "nested"),
        ("post_tool_use", "note", "nested"),
        ("post_tool_use", "outer", "agent"),
        ("pre_tool_use", "note", "host"),
        ("post_tool_use", "note", "host"),
        ("pre_tool_use", "ls", "host"),
        ("post_tool_use", "ls", "host"),
        ("pre_tool_use", "ls", "governed_host"),
        ("post_tool_use", "ls", "governed_host"),
    ]
    assert heard.payloads[0]["error_kind"] == "permission_denied" == heard.payloads[-1]["error_kind"]
    assert heard.events[-1]["run_id"] is None


async def test_long_output_is_shown_from_its_beginning(agent: Agent, workspace: Path) -> None:
    """post_tool_use has the first 64 KiB, never half a character."""

    @tool
    def much() -> str:
        """Says much."""
        return "é" * 50_000

    session = await open_session(agent, workspace, tools=[much])
    heard = Heard()
    session.register_hook("post", "post_tool_use", heard)
    await session.tool_async("much")
    assert heard.payloads[0]["output"] == "é" * 32_768


async def test_a_confirmation_can_be_answered_from_inside_its_handler(agent: Agent, workspace: Path) -> None:
    """on_confirmation comes when the call parks and when it is settled."""
    note = Note()
    session = await open_session(
        agent, workspace, [call("note", {"text": "x"}, id="c")], "done", tools=[note], **ANSWERED
    )
    heard = Heard()

    async def answer(event: dict[str, Any]) -> None:
        await heard(event)
        if event["payload"]["phase"] == "required":
            assert session.pending_confirmations()[0]["tool_id"] == "c"
            assert await session.confirm_tool_use_async("c", True, "fine")

    session.register_hook("x", "on_confirmation", answer)
    await session.send_async("go")
    assert note.calls == [{"text": "x"}]
    common = {"tool_id": "c", "tool": "note", "args": {"text": "x"}}
    assert heard.payloads == [
        {"phase": "required", **common, "approved": None, "reason": None},
        {"phase": "answered", **common, "approved": True, "reason": "fine"},
    ]


async def test_a_confirmation_that_nobody_gives_times_out(agent: Agent, workspace: Path) -> None:
    """A call that can't park is told as required, then as timed out."""
    policy = {"enabled": True, "default_timeout_ms": 1}
    session = await open_session(agent, workspace, tools=[Note()], **{**ANSWERED, "confirmation_policy": policy})
    heard = Heard()
    session.register_hook("x", "on_confirmation", heard)
    result = await session.governed_tool_async("note", {"text": "x"})
    assert result.error_kind == "confirmation_timeout"
    assert [(p["phase"], p["approved"]) for p in heard.payloads] == [("required", None), ("timeout", False)]


async def test_an_answer_without_a_run_is_told(agent: Agent, workspace: Path) -> None:
    """A call that is answered in a process that doesn't run it is told there."""
    first = await open_session(agent, workspace, [call("note", {"text": "x"}, id="c")], tools=[Note()], **ANSWERED)
    stream = await first.stream_async("go")
    await until(first.pending_confirmations)
    await first.close_async()
    await stream.close_async()
    session = await open_session(agent, workspace, tools=[Note()], **ANSWERED)
    heard = Heard()
    session.register_hook("x", "on_confirmation", heard)
    assert await session.confirm_tool_use_async("c", False, "no")
    assert [(p["phase"], p["approved"], p["reason"]) for p in heard.payloads] == [("answered", False, "no")]


async def test_a_stream_on_the_agents_loop_asks_its_hooks_too(agent: Agent, workspace: Path) -> None:
    """stream() can't wait: what a hook denies ends the events, and nothing is on the log."""
    heard = Heard({"action": "block", "reason": "not today"})
    session = await open_session(agent, workspace, "hi")
    session.register_hook("x", "pre_prompt", heard)
    events = [event async for event in session.stream("go")]
    assert [(e.type, e.payload) for e in events] == [
        ("error", {"message": "Denied by hook: not today", "code": "HOOK_DENIED"})
    ]
    assert session.runs() == []
    assert session.history() == []
    heard.answer = None
    events = [event async for event in session.stream("go")]
    assert events[0].type == "agent_start"
    assert events[-1].type == "agent_end"
    assert [p["prompt"] for p in heard.payloads] == ["go", "go"]


async def test_hooks_without_a_handler_are_traced(agent: Agent, workspace: Path) -> None:
    """A match of a hook without a handler leaves a line, and so does one that answers."""
    session = await open_session(agent, workspace, "hi")
    session.register_hook("silent", "pre_prompt", {"session_id": "s"})
    session.register_hook("other", "pre_prompt", {"session_id": "t"})
    session.register_hook("broken", "on_success", lambda: 1 / 0)
    await session.send_async("go")
    lines = [line for line in session.trace_events() if line["type"] == "hook"]
    assert [(line["name"], line["event"], line["outcome"]) for line in lines] == [
        ("silent", "pre_prompt", "no handler"),
        ("broken", "on_success", "failed"),
    ]


async def test_a_denied_log_or_session_error_is_told(agent: Agent, workspace: Path) -> None:
    """A run that a limit ends is an error with the limit's code."""
    session = await open_session(agent, workspace, [call("ls", {})], "done", step_limit=1)
    heard = Heard()
    session.register_hook("x", "on_error", heard)
    with pytest.raises(CodeError):
        await session.send_async("go")
    assert [p["code"] for p in heard.payloads] == ["STEP_LIMIT"]
