"""Hooks that raise, hang, block, lie or change what they get (extensions.md §1.2; cases H02 to H04)."""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hookhelp import ANSWERED, Heard, Note, data, open_session, until

from a3s_code import Agent, CodeError, HookDenied, SessionBusy, SessionClosed
from a3s_code.engine import firing
from a3s_code.testing import call


class Interrupt(BaseException):
    """What no handler should raise, and some do."""


def raising(error: BaseException) -> Callable[[Any], Any]:
    def handler(event: Any) -> Any:
        raise error

    return handler


def a_loop() -> Any:
    found: dict[str, Any] = {}
    found["text"] = found
    return found


RUBBISH: list[Any] = [
    3,
    "block",
    True,
    [],
    {},
    {"action": "allow"},
    {"action": ["block"]},
    {"action": None},
    {"action": "continue", "updatedInput": {"text": "new"}},
    {"action": "continue", "modified": "text"},
    {"action": "continue", "modified": {"updatedInput": "text"}},
    {"action": "continue", "modified": {"text": object()}},
    {"action": "continue", "modified": {"text": float("nan")}},
    {"action": "continue", "modified": {3: "x"}},
    {"action": "continue", "modified": a_loop()},
    {"action": "block", "reason": 3},
    {"action": "retry", "delay_ms": True},
    {"action": "retry", "delay_ms": -1},
    {"action": "retry", "delay_ms": "1"},
    {"decision": "allow"},
]
RAISED = [
    ValueError("oops"),
    SystemExit(0),
    KeyboardInterrupt(),
    Interrupt("x"),
    asyncio.CancelledError(),
    StopIteration(),
]


@pytest.mark.parametrize("answer", RUBBISH)
async def test_rubbish_from_a_gating_hook_denies(agent: Agent, workspace: Path, answer: Any) -> None:
    """What isn't in the table is a failed hook, and a failed hook has denied."""
    note = Note()
    session = await open_session(agent, workspace, tools=[note])
    session.register_hook("guard", "pre_tool_use", Heard(answer))
    result = await session.tool_async("note", {"text": "x"})
    assert result.error_kind == "hook_denied"
    error = result.metadata["error"]
    assert isinstance(error, dict)
    assert str(error["reason"]).startswith("Required hook 'guard' failed: ")
    assert error["retryable"] is False
    assert note.calls == []


@pytest.mark.parametrize("kind", ["plain", "coroutine"])
@pytest.mark.parametrize("error", RAISED, ids=lambda error: type(error).__name__)
async def test_a_gating_hook_that_raises_denies(agent: Agent, workspace: Path, error: BaseException, kind: str) -> None:
    """Whatever it raises, in a thread or on the loop, the call is denied and the session goes on."""
    note = Note()
    session = await open_session(agent, workspace, [call("note", {"text": "x"})], "done", tools=[note])

    async def coroutine(event: Any) -> Any:
        raise error

    session.register_hook("guard", "pre_tool_use", raising(error) if kind == "plain" else coroutine)
    assert (await session.tool_async("note", {"text": "x"})).error_kind == "hook_denied"
    assert (await session.send_async("go")).text == "done"
    assert data(workspace, "tool.result")[0].metadata["error"]["type"] == "hook_denied"
    assert note.calls == []


@pytest.mark.parametrize("event", ["pre_prompt", "permission_request", "pre_run_control"])
async def test_every_gate_fails_closed(agent: Agent, workspace: Path, event: str) -> None:
    """Prompts, permissions and run control are denied by a hook that raises, with the same words."""
    told: list[str] = []

    class Steering(Note):
        async def execute(self, args: dict[str, Any], ctx: Any) -> str:
            try:
                await session.steer_async("left")
            except HookDenied as error:
                told.append(str(error))
            return "ok"

    script = [call("note", {"text": "x"})], "done"
    session = await open_session(agent, workspace, *script, tools=[Steering()], **ANSWERED)
    session.register_hook("guard", event, raising(ValueError("oops")))
    if event != "permission_request":
        session.register_hook("yes", "permission_request", Heard({"decision": "allow"}))
    try:
        await session.send_async("go")
    except HookDenied as error:
        told.append(str(error))
    told += [fact.output for fact in data(workspace, "tool.result") if fact.outcome == "denied"]
    (said,) = told
    assert said.startswith("Denied by hook: Required hook 'guard' failed: ValueError: oops")


@pytest.mark.parametrize("answer", [3, {"action": "block"}, {"action": "continue", "modified": {"text": "x"}}])
async def test_an_observing_hook_stops_nothing(
    agent: Agent, workspace: Path, answer: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """What it returns or raises is logged, and the run goes on as it would have."""
    session = await open_session(agent, workspace, [call("ls", {})], "done")
    for event in ("post_tool_use", "pre_reasoning", "on_success"):
        session.register_hook(event, event, Heard(answer))
        session.register_hook(f"{event} 2", event, raising(Interrupt("oops")))
    with caplog.at_level(logging.WARNING, "a3s_code"):
        assert (await session.send_async("go")).text == "done"
    assert caplog.text.count("oops") == 4
    assert "hook 'post_tool_use'" in caplog.text


@pytest.fixture
def blocked() -> Iterator[threading.Event]:
    """Lets go the threads that a test has blocked."""
    release = threading.Event()
    yield release
    release.set()


async def test_a_hook_that_blocks_its_thread_is_given_up(
    agent: Agent, workspace: Path, blocked: threading.Event
) -> None:
    """It denies after its timeout; after four calls that never came back it isn't called again, and denies at once."""
    note, began = Note(), list[int]()

    def hang(event: Any) -> None:
        began.append(1)
        blocked.wait()

    session = await open_session(agent, workspace, tools=[note])
    session.register_hook("slow", "pre_tool_use", None, {"timeout_ms": 20}, hang)
    for number in range(1, 5):
        result = await session.tool_async("note", {"text": "x"})
        assert "gave no answer within 20 ms" in result.output
        assert session.list_hooks()[0]["abandoned_calls"] == number
    result = await session.tool_async("note", {"text": "x"})
    assert "4 earlier calls never returned" in result.output
    assert len(began) == 4
    assert [line["outcome"] for line in session.trace_events() if line["type"] == "hook"] == ["timeout"] * 4 + [
        "failed"
    ]
    blocked.set()
    await until(lambda: session.list_hooks()[0]["abandoned_calls"] == 0)
    session.register_hook("slow", "pre_tool_use", Heard())
    assert (await session.tool_async("note", {"text": "x"})).exit_code == 0


async def test_a_coroutine_that_swallows_its_cancellation_is_given_up(agent: Agent, workspace: Path) -> None:
    """Deaf coroutines are left behind like threads, and counted until they end."""
    release = asyncio.Event()

    async def deaf(event: Any) -> None:
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue

    session = await open_session(agent, workspace, "hi")
    session.register_hook("deaf", "pre_prompt", None, {"timeout_ms": 20}, deaf)
    for _ in range(4):
        with pytest.raises(HookDenied, match="gave no answer within 20 ms"):
            await session.send_async("go")
    with pytest.raises(HookDenied, match="4 earlier calls never returned"):
        await session.send_async("go")
    assert session.list_hooks()[0]["abandoned_calls"] == 4
    release.set()
    await until(lambda: session.list_hooks()[0]["abandoned_calls"] == 0)
    session.unregister_hook("deaf")
    assert (await session.send_async("go")).text == "hi"


@pytest.mark.parametrize("event", ["pre_tool_use", "pre_reasoning", "post_tool_use", "pre_prompt"])
async def test_cancel_and_close_dont_wait_for_a_hook_that_hangs(
    agent: Agent, workspace: Path, blocked: threading.Event, event: str
) -> None:
    """A run whose hook hangs ends when it is cancelled or closed, long before the hook's timeout."""
    began = threading.Event()

    def hang(event: Any) -> None:
        began.set()
        blocked.wait()

    session = await open_session(agent, workspace, [call("ls", {}, id="c")], "done")
    session.register_hook("slow", event, hang)
    running = asyncio.ensure_future(session.send_async("go"))
    await until(began.is_set)
    if event == "pre_prompt":
        await session.close_async()
        with pytest.raises(SessionClosed):
            await running
        assert data(workspace, "user.message") == []
    else:
        session.unregister_hook("slow")
        assert session.cancel() is True
        assert (await running).stop_reason == "cancelled"


async def test_handlers_get_copies(agent: Agent, workspace: Path) -> None:
    """What a handler does to its event, or later to what it returned, changes nothing for anybody else."""
    note, second = Note(), Heard()
    returned: dict[str, Any] = {"updatedInput": {"text": "mine", "command": "x"}}

    def spoil(event: dict[str, Any]) -> Any:
        event["payload"]["args"]["text"] = "spoilt"
        event["payload"]["tool"] = "bash"
        event["session_id"] = "other"
        return {"action": "continue", "modified": returned}

    def later(event: dict[str, Any]) -> None:
        returned["updatedInput"]["text"] = "changed afterwards"
        event["payload"]["args"].clear()

    session = await open_session(agent, workspace, tools=[note])
    session.register_hook("a", "pre_tool_use", spoil)
    session.register_hook("b", "pre_tool_use", later)
    session.register_hook("c", "pre_tool_use", second)
    given = {"text": "x"}
    await session.tool_async("note", given)
    assert given == {"text": "x"}
    assert second.events[0]["session_id"] == "s"
    assert second.payloads[0]["tool"] == "note"
    assert note.calls == [{"text": "mine", "command": "x"}]


async def test_a_handler_without_parameters_is_called_without_the_event(agent: Agent, workspace: Path) -> None:
    """A function that declares no parameter is a handler too, plain or coroutine, method or object."""
    heard: list[str] = []

    async def coroutine() -> None:
        heard.append("coroutine")

    class Owner:
        def method(self) -> None:
            heard.append("method")

        def __call__(self) -> None:
            heard.append("object")

    session = await open_session(agent, workspace, "hi")
    session.register_hook("a", "on_success", lambda: heard.append("lambda"))
    session.register_hook("b", "on_success", coroutine)
    session.register_hook("c", "on_success", Owner().method)
    session.register_hook("d", "on_success", Owner())
    await session.send_async("go")
    assert heard == ["lambda", "coroutine", "method", "object"]


async def test_a_handler_can_use_the_session_but_not_its_gate(agent: Agent, workspace: Path) -> None:
    """send, stream and resume_run are SESSION_BUSY from inside; tools and getters work, hooks on them included."""
    codes: list[str] = []
    outputs: list[str] = []

    async def nosy(event: Any) -> None:
        for again in (lambda: session.send_async("x"), lambda: session.stream_async("x")):
            with pytest.raises(SessionBusy) as caught:
                await again()
            codes.append(caught.value.code)
        with pytest.raises(CodeError) as resumed:
            await session.resume_run_async("x")
        codes.append(resumed.value.code)
        outputs.append((await session.tool_async("note", {"text": "inner"})).output)
        assert session.current_run() is not None

    session = await open_session(agent, workspace, "done", tools=[Note()])
    session.register_hook("x", "pre_reasoning", nosy)
    inner = Heard()
    session.register_hook("y", "pre_tool_use", inner)
    assert (await session.send_async("go")).text == "done"
    assert codes == ["SESSION_BUSY"] * 3
    assert outputs == ["noted inner"]
    assert len(inner.events) == 1


@pytest.mark.parametrize("event", ["pre_prompt", "pre_reasoning", "pre_tool_use", "post_tool_use", "on_success"])
@pytest.mark.parametrize("kind", ["coroutine", "plain"])
def test_close_from_inside_a_handler_returns(workspace: Path, event: str, kind: str) -> None:
    """It marks the session closed and cancels its work without waiting for its own caller; the run ends."""
    closed: list[bool] = []
    returned = threading.Event()
    with Agent.create_from_config({}) as agent:
        session = agent.session(
            workspace, session_id="s", llm_client=scripted(), permission_policy="full", log_durability="os"
        )

        async def coroutine(event: Any) -> None:
            await session.close_async()
            closed.append(session.is_closed())
            returned.set()

        def plain(event: Any) -> None:
            session.close()
            closed.append(session.is_closed())
            returned.set()

        session.register_hook("x", event, coroutine if kind == "coroutine" else plain)
        if event == "on_success":
            assert session.send("go").text == "done"
        else:
            with pytest.raises(SessionClosed):
                session.send("go")
        session.close()
        assert returned.wait(30)  # a plain one may still be on its way out of its thread
        assert closed == [True]
        assert agent.list_sessions() == []


def scripted() -> Any:
    from a3s_code.testing import ScriptedModel

    return ScriptedModel([[call("ls", {})], "done"])


def test_both_faces_have_the_methods_and_plain_ones_dont_wait(workspace: Path) -> None:
    """From a script: plain handlers in threads, coroutine handlers on the agent's own loop."""
    heard: list[str] = []

    def plain(event: Any) -> None:
        heard.append(threading.current_thread().name)

    async def coroutine(event: Any) -> None:
        heard.append(threading.current_thread().name)

    with Agent.create_from_config({}) as agent:
        session = agent.session(workspace, llm_client=scripted(), permission_policy="full", log_durability="os")
        session.register_hook("a", "pre_tool_use", {"tool": "ls"}, handler=plain)
        session.register_hook("b", "pre_tool_use", {"tool": "ls"}, handler=coroutine)
        assert session.send("go").text == "done"
        assert session.unregister_hook("a")
        assert session.hook_count() == 1
    assert [name.split("_")[0] for name in heard] == ["a3s-code-callback", "a3s-code"]
    assert threading.current_thread() is threading.main_thread()
    assert sys.exc_info() == (None, None, None)


async def test_a_deaf_budget_guard_is_given_up_too(agent: Agent, workspace: Path) -> None:
    """Guards are called with the same patience as hooks: one that swallows its cancellation has denied."""
    release = asyncio.Event()

    class Deaf:
        async def check_before_tool(self, session_id: str, tool_name: str) -> None:
            while not release.is_set():
                try:
                    await release.wait()
                except asyncio.CancelledError:
                    continue

    note = Note()
    session = await open_session(agent, workspace, tools=[note], budget_guard=Deaf(), budget_guard_timeout_ms=20)
    result = await session.tool_async("note", {"text": "x"})
    assert result.error_kind == "budget_exhausted"
    assert "no answer within 20 ms" in result.output
    assert note.calls == []
    release.set()


async def test_a_hook_on_a_session_that_closes_is_hurried(
    agent: Agent, workspace: Path, monkeypatch: pytest.MonkeyPatch, blocked: threading.Event
) -> None:
    """session_end gets five seconds a handler, whatever its own timeout; then close() goes on."""
    monkeypatch.setattr(firing, "LAST_PATIENCE_MS", 20)
    session = await open_session(agent, workspace)
    session.register_hook("slow", "session_end", lambda: blocked.wait())
    await session.tool_async("ls")
    await session.close_async()
    assert [line["outcome"] for line in session.trace_events() if line["type"] == "hook"] == ["timeout"]


async def test_a_guarded_call_of_a_tool_is_cancelled_while_its_hook_hangs(
    agent: Agent, workspace: Path, blocked: threading.Event
) -> None:
    """A host's own call ends as cancelled when its session closes under a hook that hangs."""
    began, note = threading.Event(), Note()

    def hang(event: Any) -> None:
        began.set()
        blocked.wait()

    session = await open_session(agent, workspace, tools=[note])
    session.register_hook("slow", "pre_tool_use", hang)
    running = asyncio.ensure_future(session.tool_async("note", {"text": "x"}))
    await until(began.is_set)
    await session.close_async()
    assert (await running).error_kind == "cancelled"
    assert note.calls == []
