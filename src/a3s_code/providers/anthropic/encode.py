"""Anthropic Messages requests. In: a ModelRequest. Out: the body's bytes.

One rule: the kept bytes end inside the last block, so that its cache mark, or the next block, is only added to them.
Known weakness: a turn that adds more than twenty blocks may miss the cache, as the provider looks back no further.
"""

from __future__ import annotations

from typing import Any, Final

from a3s_code.core.content import AssistantMessage, Reasoning, ToolMessage, UserMessage
from a3s_code.ports.model import ModelRequest
from a3s_code.providers.transcript import Load, Part, Transcript, attached, dumps, kept, wire_id, wire_name

NAME: Final = "anthropic"
DEFAULT_MAX_TOKENS: Final = 8192
_MARK: Final = {"type": "ephemeral"}
_OURS: Final = frozenset({"model", "messages", "stream", "tools", "system"})


class AnthropicTranscript(Transcript):
    """``state`` is the role of the message that is still open and whether its last block may carry a cache mark."""

    def _block(self, role: str, block: Part, *, markable: bool = True) -> None:
        before = self.state[0]
        if role == before:
            self.body += b"},"
        else:
            self.body += (b"}]}," if before else b"") + b'{"role":"%b","content":[' % role.encode()
        self.body += dumps(block)[:-1]
        self.state = (role, markable)

    def tail(self) -> bytes:
        """What closes the last block, with the cache mark, and its message."""
        role, markable = self.state
        if not role:
            return b""
        return b',"cache_control":{"type":"ephemeral"}}]}' if markable else b"}]}"

    def _user(self, message: UserMessage, load: Load) -> None:
        for ref in message.attachments:
            self._block("user", attached(ref, load, images=self.images, image_part=_image))
        if message.text.strip():
            self._block("user", {"type": "text", "text": message.text})
        elif not message.attachments:
            self._block("user", {"type": "text", "text": "(an empty message)"})

    def _assistant(self, message: AssistantMessage) -> None:
        if not message.calls and not message.text.strip():
            return  # an interrupted answer that said nothing
        if not self.state[0]:
            self._block("user", {"type": "text", "text": "(the conversation goes on)"})
        for thought in message.reasoning:
            if (block := _thinking(thought)) is not None:
                self._block("assistant", block, markable=False)
        if message.text.strip():
            self._block("assistant", {"type": "text", "text": message.text})
        for call in message.calls:
            args = {} if call.raw is not None else call.args
            name = wire_name(call.name)
            self._block("assistant", {"type": "tool_use", "id": wire_id(call.id), "name": name, "input": args})

    def _result(self, message: ToolMessage, load: Load) -> None:
        block: Part = {"type": "tool_result", "tool_use_id": wire_id(message.call)}
        content = [attached(ref, load, images=self.images, image_part=_image) for ref in message.attachments]
        if message.output.strip():
            content.insert(0, {"type": "text", "text": message.output})
        if content:
            block["content"] = content
        if message.is_error:
            block["is_error"] = True
        self._block("user", block)


def transcript(request: ModelRequest, *, images: bool) -> AnthropicTranscript:
    return kept(request, NAME, AnthropicTranscript, images=images)


def encode(request: ModelRequest, *, model: str, images: bool = True) -> bytes:
    kept_here = transcript(request, images=images)
    kept_here.settle(request)
    key = (model, request.system, request.tools, request.temperature, request.max_output_tokens)
    head = kept_here.head(request, key, lambda: _head(request, model))
    closed = kept_here.closed()
    return b"".join((head, closed.body, closed.tail(), b"]}"))


def _head(request: ModelRequest, model: str) -> bytes:
    head: dict[str, Any] = {"model": model, "max_tokens": request.max_output_tokens or DEFAULT_MAX_TOKENS}
    head["stream"] = True
    if request.temperature is not None:
        head["temperature"] = request.temperature
    head |= {name: value for name, value in request.extra.items() if name not in _OURS}
    if request.system.strip():
        head["system"] = [{"type": "text", "text": request.system, "cache_control": _MARK}]
    if request.tools:
        tools: list[dict[str, Any]] = [
            {"name": tool.name, "description": tool.description, "input_schema": tool.parameters}
            for tool in sorted(request.tools, key=lambda tool: tool.name)
        ]
        tools[-1]["cache_control"] = _MARK
        head["tools"] = tools
    return dumps({name: value for name, value in head.items() if value is not None})[:-1] + b',"messages":['


def _thinking(thought: Reasoning) -> Part | None:
    """Only what this provider signed or sealed itself can be sent back to it."""
    if thought.redacted:
        return {"type": "redacted_thinking", "data": thought.redacted}
    if thought.signature:
        return {"type": "thinking", "thinking": thought.text, "signature": thought.signature}
    return None


def _image(media_type: str, data: str) -> Part:
    return {"type": "image", "source": {"type": "base64", "media_type": media_type, "data": data}}
