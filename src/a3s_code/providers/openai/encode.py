"""OpenAI-compatible chat requests. In: a ModelRequest. Out: the body's bytes.

One rule: a body without its last two bytes is a prefix of the conversation's next body, so that provider caches hit.
Known weakness: images of tool results go in a user message after all results of the turn, as the wire has no other
place for them.
"""

from __future__ import annotations

from typing import Any, Final

from a3s_code.core.content import AssistantMessage, Call, ToolMessage, UserMessage
from a3s_code.ports.model import ModelRequest, ToolSpec
from a3s_code.providers.transcript import Load, Part, Transcript, attached, dumps, kept, wire_name

NAME: Final = "openai"
_OURS: Final = frozenset({"model", "messages", "stream", "tools"})


class OpenAiTranscript(Transcript):
    def __init__(self, *, images: bool = True) -> None:
        super().__init__(images=images)
        self._pictures: tuple[Part, ...] = ()

    def _write(self, message: dict[str, Any]) -> None:
        if self.body:
            self.body += b","
        self.body += dumps(message)

    def _user(self, message: UserMessage, load: Load) -> None:
        if not message.attachments:
            self._write({"role": "user", "content": message.text})
            return
        parts = [attached(ref, load, images=self.images, image_part=_image) for ref in message.attachments]
        text: list[Part] = [{"type": "text", "text": message.text}] if message.text.strip() else []
        self._write({"role": "user", "content": text + parts})

    def _assistant(self, message: AssistantMessage) -> None:
        if not message.calls and not message.text.strip():
            return  # an interrupted answer that said nothing
        out: dict[str, Any] = {"role": "assistant", "content": message.text or None}
        for thought in message.reasoning:
            if thought.field:
                out[thought.field] = out.get(thought.field, "") + thought.text
        if message.calls:
            out["tool_calls"] = [_call(call) for call in message.calls]
        self._write(out)

    def _result(self, message: ToolMessage, load: Load) -> None:
        self._write({"role": "tool", "tool_call_id": message.call, "content": message.output})
        if message.attachments:
            parts = [attached(ref, load, images=self.images, image_part=_image) for ref in message.attachments]
            title = {"type": "text", "text": f"[attached to the result of {message.name}]"}
            self._pictures = (*self._pictures, title, *parts)

    def _answered(self) -> None:
        if self._pictures:
            self._write({"role": "user", "content": list(self._pictures)})
            self._pictures = ()

    def _dropped(self) -> None:
        self._pictures = ()


def transcript(request: ModelRequest, *, images: bool) -> OpenAiTranscript:
    return kept(request, NAME, OpenAiTranscript, images=images)


def encode(request: ModelRequest, *, model: str, images: bool = True, limit_member: str = "max_tokens") -> bytes:
    """The body. ``limit_member`` is where this provider expects the output limit."""
    kept_here = transcript(request, images=images)
    kept_here.settle(request)
    key = (model, limit_member, request.system, request.tools, request.temperature, request.max_output_tokens)
    head = kept_here.head(request, key, lambda: _head(request, model, limit_member))
    written = kept_here.closed().body
    comma = b"," if request.system and written else b""
    return b"".join((head, comma, written, b"]}"))


def _head(request: ModelRequest, model: str, limit_member: str) -> bytes:
    head: dict[str, Any] = {"model": model, "stream": True, "stream_options": {"include_usage": True}}
    if request.temperature is not None:
        head["temperature"] = request.temperature
    if request.max_output_tokens is not None:
        head[limit_member] = request.max_output_tokens
    head |= {name: value for name, value in request.extra.items() if name not in _OURS}
    if request.tools:
        # By name, so that two servers answering in another order don't cost the cache.
        head["tools"] = [_tool(tool) for tool in sorted(request.tools, key=lambda tool: tool.name)]
    system = dumps({"role": "system", "content": request.system}) if request.system else b""
    return dumps({name: value for name, value in head.items() if value is not None})[:-1] + b',"messages":[' + system


def _tool(tool: ToolSpec) -> dict[str, Any]:
    function = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    return {"type": "function", "function": function}


def _call(call: Call) -> dict[str, Any]:
    arguments = "{}" if call.raw is not None else dumps(call.args).decode()
    return {"id": call.id, "type": "function", "function": {"name": wire_name(call.name), "arguments": arguments}}


def _image(media_type: str, data: str) -> Part:
    return {"type": "image_url", "image_url": {"url": f"data:{media_type};base64,{data}"}}
