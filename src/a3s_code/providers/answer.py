"""What both decoders share. In: the bytes of an answer, cut anywhere. Out: ModelDeltas, or an LlmError.

One rule: an answer is whole only with a finish reason or the end mark of its family; every other end raises.
Known weakness: an answer that is no stream is held as a whole (up to 32 MiB) before anything comes out.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from a3s_code.errors import LlmError
from a3s_code.ports.model import ModelDelta
from a3s_code.providers import failures
from a3s_code.providers.sse import SseDecoder

LIMIT_BYTES: Final = 32 * 1024 * 1024
MALFORMED: Final = (msgspec.DecodeError, RecursionError, UnicodeDecodeError)


class AnswerDecoder:
    """``complete``: a finish reason or the end mark came. ``done``: nothing that counts can follow."""

    def __init__(self) -> None:
        self.complete = False
        self.done = False
        self._sse = SseDecoder()
        self._kind: Literal["unknown", "events", "json", "html"] = "unknown"
        self._held = bytearray()
        self._size = 0
        self._model = ""
        self._refusal = ""
        self._refused = False

    def feed(self, chunk: bytes) -> list[ModelDelta]:
        """The deltas that ``chunk`` completes."""
        if self.done:
            return []
        self._size += len(chunk)
        if self._size > LIMIT_BYTES:
            raise LlmError(f"the provider's answer is larger than {LIMIT_BYTES} bytes", retryable=False)
        if self._kind != "events":
            chunk = self._sniff(chunk)
        out: list[ModelDelta] = []
        for name, data in self._sse.feed(chunk):
            try:
                ended = self._event(name, data, out)
            except MALFORMED as fault:
                message = failures.clip(f"the provider sent a malformed event: {fault}")
                raise LlmError(message, retryable=True) from fault
            if ended:
                self.complete = self.done = True
                break
        return out

    def _sniff(self, chunk: bytes) -> bytes:
        """What goes to the event decoder: everything from the start, once it is clear that these are events."""
        self._held += chunk
        if self._kind == "unknown":
            self._kind = _kind_of(bytes(self._held))
        if self._kind != "events":
            return b""
        chunk = bytes(self._held)
        self._held.clear()
        return chunk

    def finish(self) -> list[ModelDelta]:
        """What is left when the bytes have ended; raises when the answer isn't whole or is a refusal."""
        out: list[ModelDelta] = []
        if self._kind == "html":
            raise failures.html(bytes(self._held))
        if self._kind == "json":
            self._whole(bytes(self._held), out)
        elif not self.complete:
            for name, data in self._sse.finish():
                try:
                    self.complete = self._event(name, data, out) or self.complete
                except MALFORMED:
                    raise failures.cut("in the middle of an event") from None
        if self._refused:
            raise LlmError(failures.clip(f"the provider refused to answer: {self._refusal or '(no reason given)'}"))
        if not self.complete:
            raise failures.cut("it ended without a finish reason" if self._size else "it was empty")
        return out

    def _whole(self, body: bytes, out: list[ModelDelta]) -> None:
        try:
            parsed = msgspec.json.decode(body)
        except MALFORMED as fault:
            raise failures.cut(f"its JSON body is malformed ({fault})") from None
        if isinstance(parsed, list) or parsed.get("error"):
            raise failures.from_object(parsed)
        try:
            self._event(b"", body, out)
        except MALFORMED as fault:
            raise LlmError(failures.clip(f"the provider's answer has an unknown form: {fault}")) from None
        if not self.complete and not any(delta.text or delta.reasoning or delta.call for delta in out):
            said = failures.message_of(body[: failures.MESSAGE_BYTES])
            raise LlmError(failures.clip(f"the provider's answer holds no message: {said}"))
        self.complete = True  # a JSON body that parses is not cut

    def _event(self, name: bytes, data: bytes, out: list[ModelDelta]) -> bool:
        """Adds what one event says to ``out``; tells whether it is the end mark. Raises ``MALFORMED`` errors."""
        raise NotImplementedError

    def _named(self, model: object, out: list[ModelDelta]) -> None:
        if isinstance(model, str) and model and not self._model:
            self._model = model
            out.append(ModelDelta(model=model))


def count(value: object) -> int:
    """A token count as providers write it; anything odd is 0."""
    if isinstance(value, (int, float)) and 0 < value < 1e15:
        return int(value)
    return 0


def _kind_of(held: bytes) -> Literal["unknown", "events", "json", "html"]:
    start = held.removeprefix(b"\xef\xbb\xbf").lstrip()[:1]
    if not start or held in (b"\xef", b"\xef\xbb"):
        return "unknown"
    return "json" if start in b"{[" else "html" if start == b"<" else "events"
