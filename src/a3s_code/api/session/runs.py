"""What happened in a session. In: run ids and cursors. Out: records and events, as dicts, oldest first.

One rule: an unknown id gives ``None``, ``[]`` or ``False``; nothing here waits.
Known weakness: without a session store the events of runs from before a restart are gone; their records are not.
"""

from __future__ import annotations

from a3s_code.api.session.conversation import Conversation
from a3s_code.core.content import JsonObject
from a3s_code.errors import CodeError


class Runs(Conversation):
    def runs(self) -> list[JsonObject]:
        return [record.snapshot() for record in self._engine.records()]

    def run_snapshot(self, run_id: str) -> JsonObject | None:
        record = self._engine.record(run_id)
        return record.snapshot() if record else None

    def run_events(self, run_id: str) -> list[JsonObject]:
        """What is kept of the run's events; neighbouring deltas are one."""
        record = self._engine.record(run_id)
        return [event.to_dict() for event in record.recorder.events()] if record else []

    def run_event_page(self, run_id: str, after_sequence: int | None = None, limit: int = 256) -> JsonObject:
        """``{"events", "next_sequence", "retention_gap"}``; ``limit`` is 1 or more."""
        if after_sequence is not None and not isinstance(after_sequence, int):
            raise CodeError(f"after_sequence: expected a number or None, got {after_sequence!r:.60}", "INVALID_REQUEST")
        if not isinstance(limit, int) or limit < 1:
            raise CodeError(f"limit: expected 1 or more, got {limit!r:.60}", "INVALID_REQUEST")
        record = self._engine.record(run_id)
        if record is None:
            return {"events": [], "next_sequence": after_sequence or 0, "retention_gap": False}
        return record.recorder.page(after_sequence, limit)

    def current_run(self) -> JsonObject | None:
        """The run at work, else the last one."""
        active = self._engine.active
        records = [active.record] if active else self._engine.records()[-1:]
        return records[0].snapshot() if records else None

    def active_tools(self) -> list[JsonObject]:
        """Calls that are running now."""
        return [
            {
                "invocation_id": inv.id,
                "tool_name": inv.name,
                "origin": inv.origin,
                "run_id": inv.run_id or None,
                "started_at_ms": inv.started_at_ms,
            }
            for inv in list(self._engine.kernel.active.values())
        ]

    def trace_events(self) -> list[JsonObject]:
        """One entry a model or tool call: ``type``, ``name``, ``outcome``, ``started_ms``, ``took_ms``, ``run_id``."""
        return list(self._engine.book.traces)
