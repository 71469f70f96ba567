"""Prompts and their answers, in both faces, on real logs (api.md, *Session*, *EventStream*)."""

from __future__ import annotations

import asyncio
import gc
from pathlib import Path

import pytest
from runhelp import collected, data, facts, kinds, make_agent, one_result_each, open_session, until, well_formed

from a3s_code import Agent, tool
from a3s_code.core.content import Usage
from a3s_code.errors import CodeError, SessionBusy
from a3s_code.testing import ScriptedModel, calls, delay, text, turn


async def test_send_gives_the_answer_and_writes_facts(agent: Agent, workspace: Path) -> None:
    """A prompt becomes facts, the result is read off them, and the history is what was said."""
    session = await open_session(agent, workspace, turn("Hello", Usage(7, 3, 10)))
    result = await session.send_async("hi")
    assert (result.text, result.stop_reason, result.steps, result.total_tokens) == ("Hello", "done", 1, 10)
    assert kinds(workspace) == ["run.opened", "user.message", "model.turn", "run.closed"]
    assert session.history() == [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "Hello"}]
    assert result.run_id == facts(workspace)[0].run


async def test_a_tool_round(agent: Agent, workspace: Path) -> None:
    """A call runs, its result is a fact before the model is asked again, and the model sees it."""
    (workspace / "a.txt").write_text("content\n")
    model = ScriptedModel([calls(("read", {"file_path": "a.txt"})), "Read it"])
    session = await open_session(agent, workspace, llm_client=model)
    result = await session.send_async("read")
    assert (result.text, result.tool_calls_count, result.steps) == ("Read it", 1, 3)
    assert kinds(workspace)[2:6] == ["model.turn", "tool.started", "tool.result", "model.turn"]
    assert "content" in model.requests[1].messages[-1].output  # type: ignore[union-attr]  # a ToolMessage
    assert all(well_formed(list(request.messages)) for request in model.requests)


def test_the_blocking_face(workspace: Path) -> None:
    """Agent, session, send, stream and close work without an event loop, and the same conversation goes on."""
    with Agent.create_from_config({}) as made:
        model = ScriptedModel(["one", "two"])
        with made.session(workspace, session_id="s", llm_client=model) as session:
            assert session.send("first").text == "one"
            events = list(session.stream("second"))
            assert [event.type for event in events] == [
                "agent_start",
                "turn_start",
                "text_delta",
                "turn_end",
                "agent_end",
            ]
            assert [message["content"] for message in session.history()] == ["first", "one", "second", "two"]
    assert made.is_closed()
    assert session.is_closed()


async def test_run_is_send(agent: Agent, workspace: Path) -> None:
    """``run`` is an alias, and a prompt may be a mapping."""
    session = await open_session(agent, workspace, "a")
    assert (await session.run_async({"prompt": "x"})).text == "a"


@pytest.mark.parametrize("prompt", ["", "  \n", 5, None, {"prompt": "x", "promt": 1}, {"history": []}])
async def test_what_is_no_prompt_is_refused_before_a_fact(agent: Agent, workspace: Path, prompt: object) -> None:
    """A blank or malformed prompt is INVALID_REQUEST and nothing is written."""
    session = await open_session(agent, workspace, "never")
    with pytest.raises(CodeError) as caught:
        await session.send_async(prompt)  # type: ignore[arg-type]  # the point
    assert caught.value.code == "INVALID_REQUEST"
    assert not (workspace / ".a3s").exists()


async def test_stream_ends_with_one_terminal_event_and_a_free_gate(agent: Agent, workspace: Path) -> None:
    """A fully consumed stream ends with exactly one ``agent_end``, and the next call never meets its gate."""
    script = [text("abcdef", chunks=3) for _ in range(30)]
    session = await open_session(agent, workspace, *script)
    for number in range(30):
        events = await collected(await session.stream_async(f"prompt {number}"))
        assert [event.type for event in events].count("agent_end") == 1
        assert events[-1].type == "agent_end"
        assert "".join(event.text or "" for event in events if event.type == "text_delta") == "abcdef"


async def test_stream_of_a_failing_run_ends_with_error(agent: Agent, workspace: Path) -> None:
    """A run that fails ends its stream with one ``error`` event that has message and code; nothing is raised."""
    session = await open_session(agent, workspace)
    events = await collected(session.stream("x"))
    assert [event.type for event in events].count("error") == 1
    assert events[-1].type == "error"
    assert events[-1].payload["code"] == "LLM_ERROR"
    session = await open_session(agent, workspace, "fine", session_id="t")
    assert (await session.send_async("again")).text == "fine"


async def test_sequences_count_and_labels_are_everywhere(agent: Agent, workspace: Path) -> None:
    """Events count from 1 without a gap, and events and traces carry the identity labels that are set."""
    labels = {"tenant_id": "t1", "principal": "p", "agent_template_id": "a", "correlation_id": "c"}
    session = await open_session(agent, workspace, calls(("ls", {})), "done", **labels)
    events = await collected(await session.stream_async("x"))
    assert [event.metadata["sequence"] for event in events] == list(range(1, len(events) + 1))
    for event in events:
        assert labels.items() <= event.metadata.items()
        assert event.metadata["session_id"] == "s"
    assert [(trace["type"], trace["outcome"]) for trace in session.trace_events()] == [
        ("model_call", "ok"),
        ("tool_call", "ok"),
        ("model_call", "ok"),
    ]
    for trace in session.trace_events():
        assert labels.items() <= trace.items()


async def test_busy_is_said_before_anything_is_read_or_written(agent: Agent, workspace: Path) -> None:
    """While a run is at work every other operation fails at once with SESSION_BUSY and leaves the log as it is."""
    gate = asyncio.Event()
    session = await open_session(agent, workspace, [delay(gate), "done"])
    running = asyncio.ensure_future(session.send_async("first"))
    await until(lambda: session.current_run() is not None)
    before = facts(workspace)
    image = [{"path": "/nonexistent"}]
    for operation in (
        lambda: session.send_async("x"),
        lambda: session.stream_async("x"),
        lambda: session.send_async("x", attachments=image),
        lambda: session.send_async("x", [{"role": "user", "content": "h"}]),
        lambda: session.resume_run_async("r"),
        lambda: session.spawn_run_with_id_async("other", "x"),
    ):
        with pytest.raises(SessionBusy, match="busy with send"):
            await operation()
    with pytest.raises(SessionBusy):
        session.stream("x")
    assert facts(workspace) == before
    gate.set()
    assert (await running).text == "done"


async def test_host_helpers_do_not_take_the_gate(agent: Agent, workspace: Path) -> None:
    """Host tool calls work beside a run and touch neither history nor log."""
    gate = asyncio.Event()
    session = await open_session(agent, workspace, [delay(gate), "done"])
    running = asyncio.ensure_future(session.send_async("first"))
    await until(lambda: session.current_run() is not None)
    await session.write_file_async("f.txt", "x\n")
    assert await session.read_file_async("f.txt") == "x\n"
    gate.set()
    await running
    assert "tool.started" not in kinds(workspace)
    assert len(session.history()) == 2


async def test_a_refused_prompt_leaves_the_gate_free(agent: Agent, workspace: Path) -> None:
    """What is refused after admission (attachments that can't be taken, a bad history) gives the gate back."""
    session = await open_session(agent, workspace, "fine")
    with pytest.raises(CodeError):
        await session.send_async("x", attachments=[{"path": "missing"}])
    with pytest.raises(CodeError):
        await session.send_async("x", [{"role": "nobody"}])
    assert not (workspace / ".a3s" / "effect-log").exists()
    assert (await session.send_async("x")).text == "fine"


async def test_dropping_a_stream_interrupts_its_run(agent: Agent, workspace: Path) -> None:
    """An iterator that goes away ends its run as cancelled; the session can be used again."""
    session = await open_session(agent, workspace, ["a", delay(asyncio.Event())], "next")
    stream = await session.stream_async("x")
    async for event in stream:
        if event.type == "text_delta":
            break
    del stream, event
    gc.collect()
    await until(lambda: session.runs()[0]["status"] != "running")
    assert session.runs()[0]["status"] == "cancelled"
    assert (await session.send_async("y")).text == "next"
    assert one_result_each(workspace)


async def test_closing_a_stream_waits_until_the_session_is_free(agent: Agent, workspace: Path) -> None:
    """After ``close_async`` the next call is admitted at once."""
    session = await open_session(agent, workspace, ["a", delay(asyncio.Event())], "next")
    stream = session.stream("x")
    await anext(stream)
    await stream.close_async()
    assert (await session.send_async("y")).text == "next"


async def test_cancelling_the_waiting_task_interrupts_the_run(agent: Agent, workspace: Path) -> None:
    """A cancelled ``send_async`` returns only when its run has settled as cancelled."""
    session = await open_session(agent, workspace, ["a", delay(asyncio.Event())], "next")
    task = asyncio.ensure_future(session.send_async("x"))
    await until(lambda: bool(session.runs()))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert session.runs()[0]["status"] == "cancelled"
    assert data(workspace, "run.closed")[0].status == "cancelled"
    assert (await session.send_async("y")).text == "next"


async def test_events_name_tools_and_outputs(agent: Agent, workspace: Path) -> None:
    """A streamed tool round shows begin, input, execution, output and end of the call, in this order."""

    @tool
    def greet(name: str, ctx: object) -> str:
        """Greets."""
        ctx.emit("working")  # type: ignore[attr-defined]  # a ToolContext
        return f"hello {name}"

    session = await open_session(agent, workspace, calls(("greet", {"name": "Ann"})), "done", tools=[greet])
    events = await collected(session.stream("x"))
    about = [event for event in events if event.tool_name == "greet"]
    assert [event.type for event in about] == [
        "tool_start",
        "tool_input_delta",
        "tool_execution_start",
        "tool_output_delta",
        "tool_end",
    ]
    assert (about[-1].output, about[-1].exit_code) == ("hello Ann", 0)


async def test_two_agents_on_two_loops(workspace: Path) -> None:
    """A session may be used from a foreign loop, which is bridged."""
    made = await make_agent()
    session = await open_session(made, workspace, "one", "two")

    def elsewhere() -> str:
        async def use() -> str:
            first = (await session.send_async("x")).text
            events = [event.type async for event in await session.stream_async("y")]
            return f"{first} {events[-1]}"

        return asyncio.run(use())

    assert await asyncio.to_thread(elsewhere) == "one agent_end"
    await made.close_async()
