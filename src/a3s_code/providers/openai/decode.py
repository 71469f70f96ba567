"""OpenAI-compatible chat chunks. In: the bytes of an answer. Out: ModelDeltas.

One rule: only non-empty values say something; nulls, empty strings and unknown members say nothing.
Known weakness: of several choices only the first of each chunk is read, since one is asked for.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from a3s_code.core.content import Usage
from a3s_code.ports.model import CallDelta, ModelDelta
from a3s_code.providers import failures
from a3s_code.providers.answer import MALFORMED, AnswerDecoder, count


class _Function(msgspec.Struct, gc=False):
    name: Any = None
    arguments: Any = None


class _ToolCall(msgspec.Struct, gc=False):
    index: Any = None
    id: Any = None
    function: _Function | None = None


class _Delta(msgspec.Struct, gc=False):
    content: Any = None
    reasoning_content: Any = None
    reasoning: Any = None
    refusal: Any = None
    tool_calls: list[_ToolCall | None] | None = None


class _Choice(msgspec.Struct, gc=False):
    delta: _Delta | None = None
    message: _Delta | None = None
    finish_reason: Any = None
    usage: Any = None


class _Chunk(msgspec.Struct, gc=False):
    choices: list[_Choice] | None = None
    usage: Any = None
    error: Any = None
    model: Any = None
    x_groq: Any = None


_decode = msgspec.json.Decoder(_Chunk).decode
_FINISH: Final = {
    "length": "length",
    "max_tokens": "length",
    "tool_calls": "tool_calls",
    "tool_use": "tool_calls",
    "function_call": "tool_calls",
}
_FAILED: Final = frozenset({"error", "insufficient_system_resource"})


class OpenAiDecoder(AnswerDecoder):
    def __init__(self) -> None:
        super().__init__()
        self._usage: Usage | None = None
        self._finish = ""
        self._spoke = False
        self._reasoned = False

    def _event(self, name: bytes, data: bytes, out: list[ModelDelta]) -> bool:
        try:
            chunk = _decode(data)
        except MALFORMED:
            if data.strip() in (b"[DONE]", b""):
                return bool(data.strip())
            raise
        if chunk.error:
            raise failures.from_object(chunk.error)
        if not self._model:
            self._named(chunk.model, out)
        if chunk.choices:
            self._choice(chunk.choices[0], out)
        elif name == b"error" or (chunk.usage is None and chunk.choices is None):
            _raise_if_error(name, data)
        if chunk.usage:
            self._used(chunk.usage, out)
        elif chunk.x_groq:
            self._used(chunk.x_groq.get("usage") if isinstance(chunk.x_groq, dict) else None, out)
        return False

    def _choice(self, choice: _Choice, out: list[ModelDelta]) -> None:
        delta = choice.delta
        if delta is None and not self._spoke:
            delta = choice.message  # a whole answer, where a stream was asked for
        if delta is not None:
            reasoning = delta.reasoning_content
            if reasoning is not None or delta.reasoning is not None:
                self._reasoning(delta, out)
            content = delta.content
            if content:
                self._spoke = True
                out.append(ModelDelta(text=content if content.__class__ is str else _text_of(content)))
            if delta.tool_calls:
                self._spoke = True
                self._calls(delta.tool_calls, out)
            if delta.refusal and isinstance(delta.refusal, str):
                self._refused = True
                self._refusal += delta.refusal
        if choice.usage:
            self._used(choice.usage, out)
        if choice.finish_reason and not self._finish and isinstance(choice.finish_reason, str):
            self._finished(choice.finish_reason, out)

    def _finished(self, reason: str, out: list[ModelDelta]) -> None:
        if reason in _FAILED:
            raise failures.from_object({"message": f"the model stopped with {reason}", "code": 503})
        if reason == "content_filter":
            self._refused = True
            self._refusal = self._refusal or "content filter"
        self._finish = _FINISH.get(reason, "stop")
        self.complete = True
        out.append(ModelDelta(finish=self._finish))

    def _reasoning(self, delta: _Delta, out: list[ModelDelta]) -> None:
        for field, said in (("reasoning_content", delta.reasoning_content), ("reasoning", delta.reasoning)):
            # An empty field is told once: a provider that sent it may demand it back (cases A16).
            if isinstance(said, str) and (said or not self._reasoned):
                self._reasoned = True
                out.append(ModelDelta(reasoning=said, reasoning_field=field))
                return

    def _calls(self, calls: list[_ToolCall | None], out: list[ModelDelta]) -> None:
        several = len(calls) > 1
        for position, call in enumerate(calls):
            if call is None:
                continue
            function = call.function or _Function()
            arguments = function.arguments
            index = call.index
            if isinstance(index, str) and index.isdecimal():
                index = int(index)
            out.append(
                ModelDelta(
                    call=CallDelta(
                        # Several calls in one chunk without an index are told apart by their places.
                        index if isinstance(index, int) else position if several else None,
                        call.id if isinstance(call.id, str) else "",
                        function.name if isinstance(function.name, str) else "",
                        arguments if isinstance(arguments, (str, dict)) else "",
                    )
                )
            )

    def _used(self, reported: object, out: list[ModelDelta]) -> None:
        usage = usage_of(reported)
        if usage is not None and usage != self._usage:
            self._usage = usage
            out.append(ModelDelta(usage=usage))


def usage_of(reported: object) -> Usage | None:
    """Token counts in any of the shapes in use, or ``None`` when nothing was counted."""
    if not isinstance(reported, dict):
        return None
    prompt = count(reported.get("prompt_tokens")) or count(reported.get("input_tokens"))
    completion = count(reported.get("completion_tokens")) or count(reported.get("output_tokens"))
    total = count(reported.get("total_tokens"))
    if not prompt and not completion and not total:
        return None
    details = reported.get("prompt_tokens_details") or reported.get("input_tokens_details")
    details = details if isinstance(details, dict) else {}
    cached = (
        count(details.get("cached_tokens"))
        or count(reported.get("prompt_cache_hit_tokens"))
        or count(reported.get("cached_tokens"))
    )
    return Usage(
        prompt_tokens=prompt,
        completion_tokens=completion,
        total_tokens=total or prompt + completion,
        cache_read_tokens=cached,
        cache_write_tokens=count(details.get("cache_write_tokens")),
    )


def _text_of(content: object) -> str:
    """The text of content sent as a list of parts."""
    parts = content if isinstance(content, list) else [content]
    texts = (part if isinstance(part, str) else part.get("text") for part in parts if isinstance(part, (str, dict)))
    return "".join(text for text in texts if isinstance(text, str))


def _raise_if_error(name: bytes, data: bytes) -> None:
    said = msgspec.json.decode(data)
    if name == b"error" or said.get("object") == "error" or ("choices" not in said and (said.keys() & _ERROR_KEYS)):
        raise failures.from_object(said)


_ERROR_KEYS: Final = {"message", "detail", "error_msg"}
