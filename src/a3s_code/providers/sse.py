"""Server-sent events. In: bytes as the network cut them. Out: (event name, data) pairs, both bytes.

One rule: bytes are held until their event ends; nothing here decodes text, so a split character can't be harmed.
Known weakness: ``id`` and ``retry`` fields are ignored, since a model's answer can't be resumed.
"""

from __future__ import annotations

from typing import TypeAlias

Event: TypeAlias = tuple[bytes, bytes]
_BOM = b"\xef\xbb\xbf"


class SseDecoder:
    __slots__ = ("_after_cr", "_first", "_held")

    def __init__(self) -> None:
        self._held = bytearray()
        self._after_cr = False
        self._first = True

    def feed(self, chunk: bytes) -> list[Event]:
        """The events that ``chunk`` completes."""
        if not chunk:
            return []
        if self._after_cr and chunk.startswith(b"\n"):
            chunk = chunk[1:]
        self._after_cr = False
        if b"\r" in chunk:
            self._after_cr = chunk.endswith(b"\r")
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        held = self._held
        if held or not chunk.endswith(b"\n\n"):
            searched = max(len(held) - 1, 0)  # a big event in many chunks is searched once, not once a chunk
            held += chunk
            end = held.rfind(b"\n\n", searched)
            if end < 0:
                return []
            chunk = bytes(held[:end])
            del held[: end + 2]
        else:
            chunk = chunk[:-2]
        return self._events(chunk)

    def finish(self) -> list[Event]:
        """The last event when the stream ended without the empty line after it."""
        rest = bytes(self._held)
        self._held.clear()
        return self._events(rest)

    def _events(self, blocks: bytes) -> list[Event]:
        if self._first:
            self._first = False
            blocks = blocks.removeprefix(_BOM)
        events: list[Event] = []
        for block in blocks.split(b"\n\n"):
            if block.startswith(b"data: ") and b"\n" not in block:
                events.append((b"", block[6:]))
            elif block:
                _parse(block, events)
        return events


def _parse(block: bytes, events: list[Event]) -> None:
    name = b""
    data: list[bytes] = []
    for line in block.split(b"\n"):
        field, _, value = line.partition(b":")
        if field == b"data":
            data.append(value[1:] if value.startswith(b" ") else value)
        elif field == b"event":
            name = value[1:] if value.startswith(b" ") else value
    if data:
        events.append((name, data[0] if len(data) == 1 else b"\n".join(data)))
