"""Answers as providers send them. In: nothing. Out: bytes for the decoders' tests, and helpers to feed them.

One rule: what stands here was written by hand after real streams; expectations stand in the tests.
Known weakness: none known.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from a3s_code.core.assemble import AssembledTurn, Assembler
from a3s_code.ports.model import ModelDelta
from a3s_code.providers.answer import AnswerDecoder


def openai_event(**choice: Any) -> bytes:
    """One chunk whose only choice has these members."""
    return event({"id": "x", "model": "m-1", "choices": [{"index": 0, **choice}]})


def event(value: Any) -> bytes:
    return b"data: " + json.dumps(value, ensure_ascii=False).encode() + b"\n\n"


def calls(*pieces: dict[str, Any]) -> bytes:
    """One chunk with these pieces of tool calls."""
    return openai_event(delta={"tool_calls": list(pieces)}, finish_reason=None)


def call(
    index: int | None, call_id: str | None = None, name: str | None = None, arguments: Any = None
) -> dict[str, Any]:
    """A piece of a call; what is ``None`` is left out."""
    piece: dict[str, Any] = {} if index is None else {"index": index}
    if call_id is not None:
        piece["id"] = call_id
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    return {**piece, "function": function}


def named(kind: str, **members: Any) -> bytes:
    """One Anthropic event."""
    return f"event: {kind}\n".encode() + event({"type": kind, **members})


USE: dict[str, Any] = {"type": "tool_use", "input": {}}
DONE = b"data: [DONE]\n\n"
STOP = openai_event(delta={}, finish_reason="stop")
CALLED = openai_event(delta={}, finish_reason="tool_calls")

OPENAI = b"".join(
    [
        b"\xef\xbb\xbf: keep-alive\n\n",
        event({"choices": [], "prompt_filter_results": []}),
        openai_event(delta={"role": "assistant", "content": ""}, finish_reason=None),
        openai_event(delta={"reasoning_content": "Ünderlegt 🤔"}, finish_reason=""),
        openai_event(delta={"content": "北京 is "}),
        'data:{"choices":[{"delta":\ndata:{"content":"a city 🏙."}}]}\n\n'.encode(),
        event({"choices": None}),
        calls(call(0, "c1", "read", "")),
        calls(call(2, "c2", "gr", '{"pat')),
        calls(call(0, "", "", '{"path": "ä.py"}')),
        calls(call(2, None, "ep", 'tern": "x"}')),
        CALLED,
        event({"choices": [], "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 0}}),
        DONE,
    ]
)
ANTHROPIC = b"".join(
    [
        named("message_start", message={"model": "m-2", "usage": {"input_tokens": 7, "cache_read_input_tokens": 100}}),
        named("content_block_start", index=0, content_block={"type": "thinking", "thinking": "", "signature": ""}),
        named("ping"),
        named("content_block_delta", index=0, delta={"type": "thinking_delta", "thinking": "Hmm 🤔"}),
        named("content_block_delta", index=0, delta={"type": "signature_delta", "signature": "c2ln"}),
        named("content_block_stop", index=0),
        named("content_block_start", index=1, content_block={"type": "redacted_thinking", "data": "c2VhbGVk"}),
        named("content_block_stop", index=1),
        named("content_block_start", index=2, content_block={"type": "text", "text": ""}),
        named("content_block_delta", index=2, delta={"type": "text_delta", "text": "北京 is a city."}),
        named("content_block_stop", index=2),
        named("content_block_start", index=3, content_block=USE | {"id": "t1", "name": "ls"}),
        named("content_block_delta", index=3, delta={"type": "input_json_delta", "partial_json": ""}),
        named("content_block_stop", index=3),
        named("content_block_start", index=4, content_block=USE | {"id": "t2", "name": "read"}),
        named("content_block_delta", index=4, delta={"type": "input_json_delta", "partial_json": '{"path": "'}),
        named("content_block_delta", index=4, delta={"type": "input_json_delta", "partial_json": 'ä.py"}'}),
        named("content_block_stop", index=4),
        named("message_delta", delta={"stop_reason": "tool_use"}, usage={"output_tokens": 9}),
        named("message_stop"),
    ]
)


def decoded(decoder: AnswerDecoder, chunks: Iterable[bytes]) -> list[ModelDelta]:
    out: list[ModelDelta] = []
    for chunk in chunks:
        out += decoder.feed(chunk)
    return out + decoder.finish()


def assembled(deltas: Iterable[ModelDelta], used_ids: Iterable[str] = ()) -> AssembledTurn:
    assembler = Assembler(lambda position: f"call-{position}", frozenset(used_ids))
    for delta in deltas:
        assembler.add(delta)
    return assembler.turn()


def turn_of(decoder: AnswerDecoder, *chunks: bytes) -> AssembledTurn:
    return assembled(decoded(decoder, chunks))
