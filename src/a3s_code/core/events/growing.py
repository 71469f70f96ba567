"""Neighbouring deltas kept as one. In: deltas of one type and call, in order. Out: one event, whole or from a cursor.

One rule: cut at any sequence that went in, the text from there on is what came from there on, no more and no less.
Known weakness: remembering where each delta ended costs twelve bytes a delta, which ``size`` counts.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right

from a3s_code.core.events.catalogue import DELTA_FIELDS
from a3s_code.core.events.envelope import AgentEvent, with_text

_JOIN_EVERY = 256
_MARK_BYTES = 12


class GrowingDelta:
    """``size`` is bytes; once it reaches ``limit`` the next delta belongs in a new one."""

    __slots__ = ("_ends", "_field", "_id", "_latest", "_length", "_limit", "_parts", "_sequences", "_type", "size")

    def __init__(self, event: AgentEvent, limit: int) -> None:
        self._type = event.type
        self._field = DELTA_FIELDS[event.type]
        self._id = event.payload.get("id")
        self._limit = limit
        self._parts: list[str] = []
        self._length = 0
        self._sequences = array("q")
        self._ends = array("q")
        self.size = 0
        self.add(event)

    def takes(self, event: AgentEvent) -> bool:
        return event.type == self._type and self.size < self._limit and event.payload.get("id") == self._id

    def add(self, event: AgentEvent) -> None:
        text = event.payload.get(self._field)
        if not isinstance(text, str):
            text = ""
        self._latest = event
        parts = self._parts
        parts.append(text)
        if len(parts) >= _JOIN_EVERY:
            self._parts = ["".join(parts)]
        self._length += len(text)
        self._sequences.append(event.sequence)
        self._ends.append(self._length)
        self.size += text_bytes(text) + _MARK_BYTES

    @property
    def last(self) -> int:
        """The sequence of the newest delta, which is also the merged event's."""
        return self._sequences[-1]

    def event(self, after: int | None = None) -> AgentEvent | None:
        """The merged event of the deltas whose sequence is above ``after``; ``None`` when there is none."""
        text = "".join(self._parts)
        if after is not None:
            known = bisect_right(self._sequences, after)
            if known == len(self._sequences):
                return None
            text = text[self._ends[known - 1] :] if known else text
        return with_text(self._latest, text)


def text_bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def delta_bytes(event: AgentEvent) -> int:
    text = event.payload.get(DELTA_FIELDS[event.type])
    return text_bytes(text) if isinstance(text, str) else 0
