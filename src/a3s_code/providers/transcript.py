"""A conversation as a family writes it. In: messages, of which only the new ones are looked at. Out: kept bytes.

One rule: a message is encoded once; what is kept stands for exactly the messages it was made of (they are compared),
so a changed history is written anew from the first difference on. Nothing malformed is ever written: a call without
its result gets one, a result without its call is left out.
Known weakness: the kept bytes double the memory of a live session's history.
"""

from __future__ import annotations

import copy
import re
from binascii import b2a_base64
from collections.abc import Callable, Sequence
from typing import Any, Final, Self, TypeAlias, TypeVar

import msgspec

from a3s_code.core.content import AssistantMessage, AttachmentRef, Call, Message, ToolMessage, UserMessage
from a3s_code.errors import StoreError
from a3s_code.ports.model import ModelRequest

Load: TypeAlias = Callable[[AttachmentRef], bytes] | None
Part: TypeAlias = dict[str, Any]
LOST: Final = "cancelled: this call has no result"
_NAME = r"[^a-zA-Z0-9_-]"
_encode = msgspec.json.Encoder().encode


class Transcript:
    """``body`` is the message list's bytes without its brackets; ``state`` is the family's, at the end of ``body``."""

    start_state: tuple[str, bool] = ("", False)

    def __init__(self, *, images: bool = True) -> None:
        self.images = images
        self.body = bytearray()
        self.state = self.start_state
        self.encoded = 0
        self._head: tuple[object, bytes] = (None, b"")
        self._generation = 0
        self._messages: list[Message] = []
        self._open: dict[str, Call] = {}
        self._marks: list[tuple[int, int, tuple[str, bool]]] = []

    def unseen(self, messages: Sequence[Message]) -> list[AttachmentRef]:
        """Attachments that the next ``settle`` will load."""
        if len(messages) <= len(self._messages):
            return []
        return [
            ref
            for message in messages[len(self._messages) :]
            if not isinstance(message, AssistantMessage)
            for ref in message.attachments
            if self.images or ref.kind == "text"
        ]

    def settle(self, request: ModelRequest) -> None:
        """Brings ``body`` up to the messages of ``request``."""
        messages, kept = request.messages, self._messages
        if request.generation != self._generation:
            self._cut(0)
            self._generation = request.generation
        elif kept and (now := list(messages[: len(kept)])) != kept:
            pairs = zip(now, kept, strict=False)
            self._cut(next((i for i, (new, old) in enumerate(pairs) if new != old), len(now)))
        try:
            for message in messages[len(self._messages) :]:
                self._add(message, request.load)
                self._messages.append(message)
                self.encoded += 1
        except BaseException:
            self._cut(0)  # half a message must not stay
            raise

    def head(self, request: ModelRequest, key: tuple[object, ...], make: Callable[[], bytes]) -> bytes:
        """What a body begins with, made anew when ``key`` or the request's ``extra`` changes. Conversations with the
        same settings share it: the tools' schemas are most of an idle session."""
        if self._head[0] != (key, request.extra):
            shared = _heads.get(type(self))
            if shared is None or shared[0] != (key, request.extra):
                shared = _heads[type(self)] = ((key, dict(request.extra)), make())
            self._head = shared
        return self._head[1]

    def closed(self) -> Self:
        """This transcript, with results for the calls that have none; they are not kept, as real ones may come."""
        if not self._open:
            return self
        other = copy.copy(self)
        other.body = bytearray(self.body)
        other._open = dict(self._open)
        other._close()
        return other

    def _cut(self, length: int) -> None:
        """Forgets all but the first ``length`` messages, or some more."""
        while self._marks and self._marks[-1][0] > length:
            self._marks.pop()
        count, size, self.state = self._marks.pop() if self._marks else (0, 0, self.start_state)
        del self._messages[count:]
        del self.body[size:]
        self._open.clear()
        self._dropped()

    def _add(self, message: Message, load: Load) -> None:
        match message:
            case UserMessage():
                self._close()
                self._marks.append((len(self._messages), len(self.body), self.state))
                self._user(message, load)
            case AssistantMessage():
                self._close()
                self._assistant(message)
                self._open = {call.id: call for call in message.calls}
            case ToolMessage():
                if self._open.pop(message.call, None) is not None:
                    self._result(message, load)
                    if not self._open:
                        self._answered()

    def _close(self) -> None:
        if self._open:
            for call in self._open.values():
                self._result(ToolMessage(call.id, call.name, LOST, is_error=True), None)
            self._open.clear()
            self._answered()

    def _user(self, message: UserMessage, load: Load) -> None:
        raise NotImplementedError

    def _assistant(self, message: AssistantMessage) -> None:
        raise NotImplementedError

    def _result(self, message: ToolMessage, load: Load) -> None:
        raise NotImplementedError

    def _answered(self) -> None:
        """Called when the last call of a turn has its result."""

    def _dropped(self) -> None:
        """Called when messages were forgotten."""


_heads: Final[dict[type[Transcript], tuple[object, bytes]]] = {}
"""The head made last, for each family."""

T = TypeVar("T", bound=Transcript)


def kept(request: ModelRequest, name: str, kind: type[T], *, images: bool) -> T:
    """The transcript of this conversation in ``request.memo``; one for each family and kind of content."""
    key = name if images else f"{name}/text"
    transcript = request.memo.get(key)
    if not isinstance(transcript, kind):
        transcript = request.memo[key] = kind(images=images)
    return transcript


def dumps(value: Any) -> bytes:
    """JSON; a lone surrogate (a file name that is no UTF-8) becomes ``?`` instead of failing every later request."""
    try:
        return _encode(value)
    except UnicodeEncodeError:
        return _encode(_clean(value))


def wire_name(name: str) -> str:
    """A tool name that every provider takes: a made-up one in the history must not fail every later request."""
    return re.sub(_NAME, "_", name)[:64] or "unknown"


def wire_id(call: str) -> str:
    return re.sub(_NAME, "_", call) or "_"


def attached(ref: AttachmentRef, load: Load, *, images: bool, image_part: Callable[[str, str], Part]) -> Part:
    """An attachment as a part of a message: an image for a model that takes one, else text."""
    name = ref.name or ref.sha256[:12]
    if ref.kind == "image" and not images:
        return {"type": "text", "text": f"[image {name} left out: this model takes no images]"}
    try:
        data = load(ref) if load is not None else None
    except (OSError, StoreError):  # the conversation goes on without it, on another machine or after it was changed
        data = None
    if data is None:
        return {"type": "text", "text": f"[{ref.kind} {name} is not available any more]"}
    if ref.kind == "image":
        return image_part(ref.media_type, b2a_base64(data, newline=False).decode())
    return {"type": "text", "text": f"[file {name}]\n{data.decode('utf-8', 'replace')}"}


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {_clean(key): _clean(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_clean(item) for item in value]
    return value
