"""What is kept of one run's events. In: every event in order. Out: what is left of them, from any cursor.

One rule: the oldest go first, neighbouring deltas count as one, ``event_count`` never falls.
Known weakness: the sizes of deltas are those of their texts, not of the events' JSON.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from a3s_code.core.content import Json, JsonObject
from a3s_code.core.digest import encoded_size
from a3s_code.core.events.catalogue import DELTA_FIELDS
from a3s_code.core.events.envelope import AgentEvent
from a3s_code.core.events.growing import GrowingDelta

_DELTA_LIMIT = 64 * 1024


class _Whole:
    """An event that is no delta."""

    __slots__ = ("_event", "size")

    def __init__(self, event: AgentEvent, size: int) -> None:
        self._event = event
        self.size = size

    @property
    def last(self) -> int:
        return self._event.sequence

    def event(self, after: int | None = None) -> AgentEvent | None:
        return self._event if after is None or self._event.sequence > after else None


class EventRecorder:
    """Keeps at most ``max_events`` records and ``max_bytes`` bytes; ``None`` keeps everything.

    ``event_count`` is how many records were ever made, kept or not (neighbouring deltas are one record).
    """

    def __init__(self, max_events: int | None = 2048, max_bytes: int | None = 8 * 1024 * 1024) -> None:
        self.event_count = 0
        self._max_events = max_events
        self._max_bytes = max_bytes
        self._delta_limit = _DELTA_LIMIT if max_bytes is None else min(_DELTA_LIMIT, max_bytes)
        self._kept: deque[GrowingDelta | _Whole] = deque()
        self._open: GrowingDelta | None = None
        self._bytes = 0
        self._lost_through: int | None = None

    def add(self, event: AgentEvent) -> None:
        growing = self._open
        if growing is not None and growing.takes(event):
            before = growing.size
            growing.add(event)
            self._bytes += growing.size - before
        else:
            self.event_count += 1
            record: GrowingDelta | _Whole
            if event.type in DELTA_FIELDS:
                record = self._open = GrowingDelta(event, self._delta_limit)
            else:
                record, self._open = _Whole(event, encoded_size(event.payload)), None
            if self._max_bytes is not None and record.size > self._max_bytes:
                self._open = None
                self._lost_through = event.sequence
                return
            self._kept.append(record)
            self._bytes += record.size
        self._shrink()

    def events(self, after: int | None = None) -> list[AgentEvent]:
        """What is kept of the events whose sequence is above ``after``, oldest first."""
        return list(self._after(after))

    def gap(self, after: int | None) -> bool:
        """Whether something after the cursor is no longer kept."""
        return self._lost_through is not None and (after is None or after < self._lost_through)

    def page(self, after_sequence: int | None = None, limit: int = 256) -> JsonObject:
        """``{"events", "next_sequence", "retention_gap"}`` (api.md, *Retention*).

        ``events`` are dicts as ``AgentEvent.to_dict``, at most ``limit``. ``next_sequence`` is the cursor for the next
        page: the last event's sequence, or the given cursor (0 for none) when there was nothing after it.
        """
        events: list[Json] = []
        cursor = after_sequence
        for event in self._after(after_sequence):
            if len(events) >= limit:
                break
            events.append(event.to_dict())
            cursor = event.sequence
        return {"events": events, "next_sequence": cursor or 0, "retention_gap": self.gap(after_sequence)}

    def _after(self, after: int | None) -> Iterator[AgentEvent]:
        newest_first: list[GrowingDelta | _Whole] = []
        for record in reversed(tuple(self._kept)):  # at once: other threads read while the run goes on
            if after is not None and record.last <= after:
                break
            newest_first.append(record)
        for record in reversed(newest_first):
            event = record.event(after)
            if event is not None:
                yield event

    def _shrink(self) -> None:
        kept = self._kept
        while kept and (
            (self._max_events is not None and len(kept) > self._max_events)
            or (self._max_bytes is not None and self._bytes > self._max_bytes)
        ):
            record = kept.popleft()
            self._bytes -= record.size
            self._lost_through = record.last
            if record is self._open:
                self._open = None
