"""Provider streams as they really come (providers.md; cases A01 to A20), fed in every way they can be cut."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from provider_bytes import (
    ANTHROPIC,
    CALLED,
    DONE,
    OPENAI,
    STOP,
    call,
    calls,
    decoded,
    event,
    named,
    openai_event,
    turn_of,
)

from a3s_code.core.content import Call, Reasoning, Usage
from a3s_code.errors import LlmError
from a3s_code.providers.answer import LIMIT_BYTES, AnswerDecoder
from a3s_code.providers.anthropic.decode import AnthropicDecoder
from a3s_code.providers.openai.decode import OpenAiDecoder
from a3s_code.providers.sse import SseDecoder

Make = Callable[[], AnswerDecoder]
BOTH = pytest.mark.parametrize(
    ("make", "stream"), [(OpenAiDecoder, OPENAI), (AnthropicDecoder, ANTHROPIC)], ids=["openai", "anthropic"]
)


def test_a_whole_openai_stream_is_understood() -> None:
    """Text, reasoning, interleaved calls with a gap, late usage and split names come out as one turn."""
    turn = turn_of(OpenAiDecoder(), OPENAI)
    assert turn.text == "北京 is a city 🏙."
    assert turn.reasoning == (Reasoning("Ünderlegt 🤔", field="reasoning_content"),)
    assert turn.calls == (Call("c1", "read", {"path": "ä.py"}), Call("c2", "grep", {"pattern": "x"}))
    assert turn.usage == Usage(10, 5, 15)
    assert (turn.finish, turn.model) == ("tool_calls", "m-1")


def test_a_whole_anthropic_stream_is_understood() -> None:
    """Thinking with its signature, sealed thinking, text, calls and split usage come out as one turn."""
    turn = turn_of(AnthropicDecoder(), ANTHROPIC)
    assert turn.text == "北京 is a city."
    assert turn.reasoning == (Reasoning("Hmm 🤔", "c2ln"), Reasoning(redacted="c2VhbGVk"))
    assert turn.calls == (Call("t1", "ls", {}), Call("t2", "read", {"path": "ä.py"}))
    assert turn.usage == Usage(107, 9, 116, cache_read_tokens=100)
    assert (turn.finish, turn.model) == ("tool_calls", "m-2")


@BOTH
@pytest.mark.parametrize("line_end", [b"\n", b"\r\n", b"\r"], ids=["lf", "crlf", "cr"])
def test_a_stream_means_the_same_however_it_is_cut(make: Make, stream: bytes, line_end: bytes) -> None:
    """Byte by byte and in two parts at every point, with every line end, the deltas are the same (A13)."""
    stream = stream.replace(b"\n", line_end)
    whole = decoded(make(), [stream])
    assert decoded(make(), [stream[i : i + 1] for i in range(len(stream))]) == whole
    for at in range(len(stream)):
        assert decoded(make(), [stream[:at], stream[at:]]) == whole


@BOTH
def test_a_stream_that_was_cut_before_its_finish_is_an_error(make: Make, stream: bytes) -> None:
    """Every prefix without a finish reason raises a retryable error, so that no half call can run (A10, A12)."""
    marker = b'"finish_reason": "tool_calls"' if make is OpenAiDecoder else b'"stop_reason"'
    finish = stream.index(b"\n\n", stream.index(marker))
    for at in range(finish - 1):
        with pytest.raises(LlmError) as caught:
            decoded(make(), [stream[:at]])
        assert caught.value.retryable
    assert decoded(make(), [stream[:finish]])


def test_a_finish_reason_or_the_end_mark_alone_is_enough() -> None:
    """Providers that send no [DONE], or no finish reason but [DONE], are understood."""
    text = openai_event(delta={"content": "a"}, finish_reason="")
    assert turn_of(OpenAiDecoder(), text, STOP).finish == "stop"
    assert turn_of(OpenAiDecoder(), text, DONE).text == "a"
    assert turn_of(OpenAiDecoder(), text, b"data:[DONE]").text == "a"


def test_data_after_the_end_mark_is_ignored() -> None:
    """Whatever follows [DONE] or message_stop says nothing, not even when it is garbage."""
    assert turn_of(OpenAiDecoder(), STOP + DONE + openai_event(delta={"content": "late"}) + b"data: {{{\n\n").text == ""
    assert turn_of(AnthropicDecoder(), ANTHROPIC + b"data: {{{\n\n").finish == "tool_calls"


def test_bad_utf8_is_an_error_and_no_replacement_character() -> None:
    """Genuinely bad bytes raise (A13)."""
    with pytest.raises(LlmError, match="malformed event"):
        decoded(OpenAiDecoder(), [b'data: {"choices":[{"delta":{"content":"\xe5\x8c"}}]}\n\n', STOP])


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ({"prompt_tokens": 9, "completion_tokens": 1, "total_tokens": 10}, Usage(9, 1, 10)),
        (
            {"prompt_tokens": 9, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": 4}},
            Usage(9, 1, 10, cache_read_tokens=4),
        ),
        (
            {"prompt_tokens": 9, "completion_tokens": 1, "prompt_cache_hit_tokens": 5, "prompt_tokens_details": None},
            Usage(9, 1, 10, cache_read_tokens=5),
        ),
        ({"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 0, "total_characters": 60}, Usage(10, 5, 15)),
    ],
)
@pytest.mark.parametrize("place", ["last chunk", "choice", "every chunk"])
def test_usage_is_found_wherever_it_is_put(usage: dict[str, object], expected: Usage, place: str) -> None:
    """Usage counts once, cached tokens included, in whichever chunk it comes (A08, A09)."""
    text = openai_event(delta={"content": "a"})
    if place == "last chunk":
        chunks = [text, STOP, event({"choices": [], "usage": usage}), DONE]
    elif place == "choice":
        chunks = [text, openai_event(delta={}, finish_reason="stop", usage=usage), DONE]
    else:
        chunks = [event({"choices": [{"delta": {"content": "a"}}], "usage": usage})] * 3 + [STOP, DONE]
    assert turn_of(OpenAiDecoder(), *chunks).usage == expected


def test_a_name_is_never_wiped_by_an_empty_one() -> None:
    """Empty names, null members and empty ids after the first piece change nothing (A01, A02, A19)."""
    second = {"index": 0, "id": "", "function": {"name": "", "parameters": None, "arguments": '{"a":1}'}}
    third = {"index": 0, "id": None, "function": {"name": None, "arguments": ""}}
    turn = turn_of(OpenAiDecoder(), calls(call(0, "c1", "plan", "")), calls(second), calls(third), CALLED)
    assert turn.calls == (Call("c1", "plan", {"a": 1}),)


def test_calls_in_one_chunk_without_indexes_are_told_apart() -> None:
    """A list of whole calls without index or id is so many calls."""
    turn = turn_of(OpenAiDecoder(), calls(call(None, None, "a", "{}"), call(None, None, "b", {"x": 1})), CALLED)
    assert turn.calls == (Call("call-0", "a", {}), Call("call-1", "b", {"x": 1}))


def test_reasoning_keeps_the_member_it_came_in() -> None:
    """``reasoning``, ``reasoning_content`` and an empty one are each told with their member's name (A16)."""
    for field, said in (("reasoning", "r"), ("reasoning_content", "r"), ("reasoning_content", "")):
        turn = turn_of(OpenAiDecoder(), openai_event(delta={field: said}), openai_event(delta={field: said}), STOP)
        assert turn.reasoning == (Reasoning(said * 2, field=field),)


@pytest.mark.parametrize(
    ("chunk", "retryable", "status"),
    [
        (event({"error": {"message": "slow down", "code": 429}}), True, 429),
        (event({"error": {"message": "boom", "type": "server_error"}}), True, 500),
        (event({"error": {"message": "who knows"}}), True, None),
        (event({"error": {"message": "bad", "type": "invalid_request_error"}}), False, 400),
        (b'event: error\ndata: {"message":"bad key","code":"401"}\n\n', False, 401),
        (event({"object": "error", "message": "no such model", "code": 404}), False, 404),
    ],
)
def test_an_error_inside_a_stream_is_raised(chunk: bytes, retryable: bool, status: int | None) -> None:
    """An error object in a 200 stream has the class that its status would have had."""
    with pytest.raises(LlmError) as caught:
        decoded(OpenAiDecoder(), [openai_event(delta={"content": "a"}), chunk, STOP])
    assert (caught.value.retryable, caught.value.status) == (retryable, status)


def test_an_anthropic_error_event_is_raised() -> None:
    """``overloaded_error`` may be tried again, ``invalid_request_error`` for a long prompt asks for a compaction."""
    with pytest.raises(LlmError) as caught:
        decoded(AnthropicDecoder(), [named("error", error={"type": "overloaded_error", "message": "Overloaded"})])
    assert (caught.value.retryable, caught.value.status) == (True, 529)
    long = {"type": "invalid_request_error", "message": "prompt is too long: 210000 tokens > 200000 maximum"}
    with pytest.raises(LlmError) as caught:
        decoded(AnthropicDecoder(), [named("error", error=long)])
    assert (caught.value.retryable, caught.value.context_too_long) == (False, True)


def test_refusals_are_errors_that_no_retry_mends() -> None:
    """A refusal, a content filter and Anthropic's ``refusal`` end the call, after their usage was told."""
    refusal = [openai_event(delta={"refusal": "I can't "}), openai_event(delta={"refusal": "do that"}), STOP, DONE]
    with pytest.raises(LlmError, match="I can't do that") as caught:
        decoded(OpenAiDecoder(), refusal)
    assert not caught.value.retryable
    filtered = openai_event(delta={"content": "x"}, finish_reason="content_filter")
    with pytest.raises(LlmError, match="content filter"):
        decoded(OpenAiDecoder(), [filtered, DONE])
    decoder = AnthropicDecoder()
    deltas = decoder.feed(named("message_delta", delta={"stop_reason": "refusal"}, usage={"output_tokens": 3}))
    assert deltas[0].usage == Usage(0, 3, 3)
    with pytest.raises(LlmError, match="refused"):
        decoder.finish()


def test_a_web_page_is_no_answer() -> None:
    """HTML with status 200 is an error with the page's title, and isn't tried again."""
    page = b"\n <!DOCTYPE html><html><head><title>Sign in\n please</title></head><body>x</body></html>"
    with pytest.raises(LlmError, match="web page instead of an answer: Sign in please") as caught:
        decoded(OpenAiDecoder(), [page[:9], page[9:]])
    assert not caught.value.retryable


def test_a_json_body_where_a_stream_was_asked_for_is_understood() -> None:
    """A whole answer in one JSON body gives the same turn as a stream would."""
    message = {"role": "assistant", "content": "a", "tool_calls": [call(None, "c1", "ls", "{}")]}
    usage = {"prompt_tokens": 2, "completion_tokens": 1}
    body = json.dumps({"model": "m", "choices": [{"message": message, "finish_reason": "stop"}], "usage": usage})
    turn = turn_of(OpenAiDecoder(), body[:5].encode(), body[5:].encode())
    assert (turn.text, turn.calls, turn.usage) == ("a", (Call("c1", "ls", {}),), Usage(2, 1, 3))
    content = [{"type": "text", "text": "a"}, {"type": "tool_use", "id": "t", "name": "ls", "input": {"p": 1}}]
    body = json.dumps({"type": "message", "content": content, "stop_reason": "tool_use", "usage": {"input_tokens": 2}})
    turn = turn_of(AnthropicDecoder(), body.encode())
    assert (turn.text, turn.calls, turn.finish) == ("a", (Call("t", "ls", {"p": 1}),), "tool_calls")


@pytest.mark.parametrize("body", [b'{"choices":[]}', b'{"choices":null}', b'{"detail":"Not Found"}', b'{"ok":true}'])
def test_a_json_body_without_an_answer_is_an_error(body: bytes) -> None:
    """An empty list of choices in a whole body is a typed error (A08)."""
    with pytest.raises(LlmError):
        decoded(OpenAiDecoder(), [body])
    with pytest.raises(LlmError):
        decoded(AnthropicDecoder(), [body])


def test_an_answer_above_the_limit_is_refused() -> None:
    """32 MiB is the most that an answer may have, with or without a line end, and a retry doesn't mend it (A18)."""
    decoder = OpenAiDecoder()
    piece = b"x" * (1 << 20)
    for _ in range(LIMIT_BYTES // len(piece)):
        decoder.feed(piece)
    with pytest.raises(LlmError, match="larger than") as caught:
        decoder.feed(b"x")
    assert not caught.value.retryable


def test_an_empty_answer_is_an_error() -> None:
    """Nothing, or only blank lines, is a cut answer."""
    for nothing in (b"", b"\n\n \n"):
        with pytest.raises(LlmError) as caught:
            decoded(OpenAiDecoder(), [nothing])
        assert caught.value.retryable


def test_events_are_split_as_the_standard_says() -> None:
    """Comments, unknown fields, several data lines, a missing space and an unfinished last event are handled."""
    sse = SseDecoder()
    text = b"\xef\xbb\xbf:hi\nid: 1\nretry: 5\nevent: a\ndata:x\ndata: y\n\n\n\nevent: nothing\n\ndata\n\ndata:  z"
    assert sse.feed(text) == [(b"a", b"x\ny"), (b"", b"")]
    assert sse.finish() == [(b"", b" z")]


@BOTH
@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_a_mutated_stream_never_yields_half_a_call(make: Make, stream: bytes, data: st.DataObject) -> None:
    """Whatever bytes are changed or lost, decoding ends, fails only with LlmError, and a call's arguments are an
    object or have a fault."""
    damaged = bytearray(stream)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, max(len(damaged) - 1, 0)))
        width = data.draw(st.integers(0, 40))
        damaged[at : at + width] = data.draw(st.sampled_from([b"", b"\n", b"\r", b'"', b"{", b"\xff", b"data: ", b"0"]))
    cut = data.draw(st.integers(0, len(damaged)))
    try:
        turn = turn_of(make(), bytes(damaged[:cut]), bytes(damaged[cut:]))
    except LlmError:
        return
    for made in turn.calls:
        assert made.id
        assert isinstance(made.args, dict)
        assert (made.raw is None) == (made.fault is None)
        assert made.args == {} or made.fault is None
