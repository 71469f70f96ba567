"""Anthropic Messages events. In: the bytes of an answer. Out: ModelDeltas.

One rule: a thinking block's signature is told once, when its block ends, so that it closes the text before it.
Known weakness: blocks of server-side tools are skipped, since none is ever asked for.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from a3s_code.core.content import Usage
from a3s_code.ports.model import CallDelta, ModelDelta
from a3s_code.providers import failures
from a3s_code.providers.answer import MALFORMED, AnswerDecoder, count


class _Block(msgspec.Struct, gc=False):
    type: Any = None
    text: Any = None
    thinking: Any = None
    signature: Any = None
    data: Any = None
    id: Any = None
    name: Any = None
    input: Any = None


class _Delta(msgspec.Struct, gc=False):
    type: Any = None
    text: Any = None
    thinking: Any = None
    signature: Any = None
    partial_json: Any = None
    stop_reason: Any = None


class _Message(msgspec.Struct, gc=False):
    model: Any = None
    usage: Any = None


class _Event(msgspec.Struct, gc=False):
    type: Any = None
    index: Any = None
    delta: _Delta | None = None
    content_block: _Block | None = None
    message: _Message | str | None = None
    usage: Any = None
    error: Any = None
    # The members of a whole message, where a stream was asked for:
    content: list[_Block] | None = None
    stop_reason: Any = None
    model: Any = None


_decode = msgspec.json.Decoder(_Event).decode
_FINISH: Final = {"max_tokens": "length", "model_context_window_exceeded": "length", "tool_use": "tool_calls"}


class AnthropicDecoder(AnswerDecoder):
    def __init__(self) -> None:
        super().__init__()
        self._counted: dict[str, int] = {}
        self._signature = ""
        self._finish = ""

    def _event(self, name: bytes, data: bytes, out: list[ModelDelta]) -> bool:
        try:
            event = _decode(data)
        except MALFORMED:
            if data.strip() in (b"[DONE]", b""):
                return False
            raise
        kind = event.type
        if kind == "content_block_delta":
            if event.delta is not None:
                self._delta(event.index, event.delta, out)
        elif kind == "content_block_start":
            if event.content_block is not None:
                self._begin(event.index, event.content_block, out)
        elif kind == "content_block_stop":
            self._end(out)
        elif event.error or kind == "error" or name == b"error":
            raise failures.from_object(event.error or msgspec.json.decode(data))
        elif kind == "message_start":
            if isinstance(event.message, _Message):
                self._named(event.message.model, out)
                self._used(event.message.usage, out)
        elif kind == "message_delta":
            self._used(event.usage, out)
            self._stopped(event.delta.stop_reason if event.delta else None, out)
        elif kind == "message_stop":
            return True
        elif kind == "message":
            self._message(event, out)
        return False

    def _delta(self, index: object, delta: _Delta, out: list[ModelDelta]) -> None:
        kind = delta.type
        if kind == "text_delta":
            if isinstance(delta.text, str) and delta.text:
                out.append(ModelDelta(text=delta.text))
        elif kind == "input_json_delta":
            if isinstance(delta.partial_json, str) and delta.partial_json:
                out.append(ModelDelta(call=CallDelta(_index(index), arguments=delta.partial_json)))
        elif kind == "thinking_delta":
            if isinstance(delta.thinking, str) and delta.thinking:
                out.append(ModelDelta(reasoning=delta.thinking))
        elif kind == "signature_delta" and isinstance(delta.signature, str):
            self._signature += delta.signature

    def _begin(self, index: object, block: _Block, out: list[ModelDelta]) -> None:
        if block.type == "text":
            if isinstance(block.text, str) and block.text:
                out.append(ModelDelta(text=block.text))
        elif block.type == "tool_use":
            call_id = block.id if isinstance(block.id, str) else ""
            name = block.name if isinstance(block.name, str) else ""
            given = block.input if isinstance(block.input, dict) and block.input else ""
            out.append(ModelDelta(call=CallDelta(_index(index), call_id, name, given)))
        elif block.type == "thinking":
            self._signature = block.signature if isinstance(block.signature, str) else ""
            if isinstance(block.thinking, str) and block.thinking:
                out.append(ModelDelta(reasoning=block.thinking))
        elif block.type == "redacted_thinking" and isinstance(block.data, str):
            out.append(ModelDelta(redacted=block.data))

    def _end(self, out: list[ModelDelta]) -> None:
        if self._signature:
            out.append(ModelDelta(signature=self._signature))
            self._signature = ""

    def _stopped(self, reason: object, out: list[ModelDelta]) -> None:
        if not isinstance(reason, str) or not reason or self._finish:
            return
        self._refused = reason == "refusal"
        self._finish = _FINISH.get(reason, "stop")
        self.complete = True
        out.append(ModelDelta(finish=self._finish))

    def _used(self, reported: object, out: list[ModelDelta]) -> None:
        """Counts are running totals that come in parts: later ones replace earlier ones, member by member."""
        if not isinstance(reported, dict):
            return
        for key, value in reported.items():
            if number := count(value):
                self._counted[key] = number
        counted = self._counted
        read = counted.get("cache_read_input_tokens", 0)
        written = counted.get("cache_creation_input_tokens", 0)
        prompt = counted.get("input_tokens", 0) + read + written
        completion = counted.get("output_tokens", 0)
        if prompt or completion:
            out.append(ModelDelta(usage=Usage(prompt, completion, prompt + completion, read, written)))

    def _message(self, event: _Event, out: list[ModelDelta]) -> None:
        self._named(event.model, out)
        for index, block in enumerate(event.content or ()):
            self._begin(index, block, out)
            self._end(out)
        self._used(event.usage, out)
        self._stopped(event.stop_reason or "end_turn", out)


def _index(index: object) -> int | None:
    return index if isinstance(index, int) else None
