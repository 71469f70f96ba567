"""The scripted model does what its script says, and tells what it was asked."""

from __future__ import annotations

import asyncio

import pytest

from a3s_code.core.content import Message, Usage, UserMessage
from a3s_code.errors import LlmError
from a3s_code.ports.model import CallDelta, ModelDelta, ModelRequest
from a3s_code.testing import JumpingClock, ScriptedModel, Turn, call, calls, cut, delay, error, text, thought, turn


def ask(prompt: str = "hi", messages: list[Message] | None = None) -> ModelRequest:
    return ModelRequest("m", messages if messages is not None else [UserMessage(prompt)])


async def deltas(model: ScriptedModel, request: ModelRequest | None = None) -> list[ModelDelta]:
    return [delta async for delta in model.stream(request or ask())]


async def test_text_and_calls_stream_in_pieces_and_end_with_their_reason() -> None:
    """Chunks join to the whole; calls get counted ids and indexes; the reason follows from what was in the turn."""
    model = ScriptedModel(
        ["Hello", turn(text("abcdef", chunks=3), call("ls", chunks=2)), calls(("a", {}), ("b", {"x": 1}))]
    )
    assert await deltas(model) == [ModelDelta(text="Hello"), ModelDelta(finish="stop")]
    assert await deltas(model) == [
        ModelDelta(text="ab"),
        ModelDelta(text="cd"),
        ModelDelta(text="ef"),
        ModelDelta(call=CallDelta(0, "call_2_1", "ls", "{")),
        ModelDelta(call=CallDelta(0, arguments="}")),
        ModelDelta(finish="tool_calls"),
    ]
    assert [delta.call for delta in (await deltas(model))[:2]] == [
        CallDelta(0, "call_3_1", "a", "{}"),
        CallDelta(1, "call_3_2", "b", '{"x":1}'),
    ]


async def test_usage_finish_reasoning_and_raw_arguments_are_sent_as_scripted() -> None:
    """A turn says its own usage and reason; malformed arguments go out untouched."""
    model = ScriptedModel(
        [turn(thought("hm", "sig"), call("read", '{"a', id="x"), finish="length", usage=Usage(7, 2, 9)), "b"],
        usage=Usage(1, 1, 2),
    )
    assert await deltas(model) == [
        ModelDelta(reasoning="hm"),
        ModelDelta(signature="sig"),
        ModelDelta(call=CallDelta(0, "x", "read", '{"a')),
        ModelDelta(usage=Usage(7, 2, 9)),
        ModelDelta(finish="length"),
    ]
    assert (await deltas(model))[1] == ModelDelta(usage=Usage(1, 1, 2))


@pytest.mark.parametrize(("status", "retryable"), [(429, True), (503, True), (400, False), (401, False)])
async def test_a_scripted_status_is_the_error_a_provider_would_give(status: int, retryable: bool) -> None:
    """The engine sees the same error as from a real client."""
    with pytest.raises(LlmError) as caught:
        await deltas(ScriptedModel([error(status, retry_after_ms=5)]))
    assert (caught.value.status, caught.value.retryable, caught.value.retry_after_ms) == (status, retryable, 5)


async def test_an_error_object_is_raised_as_it_is() -> None:
    """A test may make any error, alone or as a piece."""
    own = LlmError("mine", context_too_long=True)
    scripts: list[Turn] = [own, error(own), ["some text", error(own)]]
    for scripted in scripts:
        with pytest.raises(LlmError) as caught:
            await deltas(ScriptedModel([scripted]))
        assert caught.value is own


@pytest.mark.parametrize("script", [turn(text("abcd", chunks=4), cut(after=2)), turn("a", "b", cut(), "c")])
async def test_a_cut_stream_gives_what_came_and_then_a_retryable_error(script: list[str]) -> None:
    """A cut never looks like an end (A10)."""
    stream = ScriptedModel([script]).stream(ask())
    assert [(await anext(stream)).text, (await anext(stream)).text] == ["a", "b"]
    with pytest.raises(LlmError, match="cut") as caught:
        await anext(stream)
    assert caught.value.retryable


async def test_delays_wait_for_the_event_and_pass_on_the_clock() -> None:
    """Nothing is given before the event; seconds are slept on the clock the model was given."""
    gate, clock = asyncio.Event(), JumpingClock()
    stream = ScriptedModel([turn("a", delay(gate), delay(2.5), "b")], clock=clock).stream(ask())
    assert (await anext(stream)).text == "a"
    waiting = asyncio.ensure_future(anext(stream))
    await asyncio.sleep(0)
    assert not waiting.done()
    gate.set()
    assert (await waiting).text == "b"
    assert clock.sleeps == [2.5]


async def test_requests_are_kept_as_they_were() -> None:
    """A conversation that grows afterwards does not change what was recorded."""
    messages: list[Message] = [UserMessage("one")]
    model = ScriptedModel(["a"], repeat_last=True)
    await deltas(model, ask(messages=messages))
    messages.append(UserMessage("two"))
    await deltas(model, ask(messages=messages))
    assert [len(request.messages) for request in model.requests] == [1, 2]


async def test_a_function_answers_from_the_request() -> None:
    """A turn may depend on what was asked, and give any other turn, also a function."""
    model = ScriptedModel([lambda request: lambda again: f"turn {again.turn} of {request.model}"])
    assert (await deltas(model, ask("x")))[0].text == "turn 0 of m"


async def test_a_request_beyond_the_script_fails_and_says_what_was_asked() -> None:
    """A test learns which request was one too many; the error is not retried."""
    model = ScriptedModel(["a"])
    assert model.remaining == 1
    await deltas(model)
    with pytest.raises(LlmError, match="1 turns, but request 2 came; its last message: a prompt: more") as caught:
        await deltas(model, ask("more"))
    assert not caught.value.retryable
    model.add("late", "later")
    assert (await deltas(model))[0].text == "later"


async def test_closing_is_seen() -> None:
    """An agent that closes its clients can be checked for it."""
    model = ScriptedModel([])
    await model.aclose()
    assert model.closed


def test_a_bare_string_is_no_script() -> None:
    """A string would be a turn a letter; that is refused."""
    with pytest.raises(TypeError, match="list of turns"):
        ScriptedModel("abc")
