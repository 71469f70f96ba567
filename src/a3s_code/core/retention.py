"""How much of the past is kept (api.md, *Retention*). In: nothing. Out: SessionRetentionLimits.

One rule: reaching a limit drops the oldest and is never an error.
Known weakness: none known.
"""

from __future__ import annotations

from typing import Annotated, TypeAlias

import msgspec

_Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]


class SessionRetentionLimits(msgspec.Struct, frozen=True):
    """Counts, and bytes for ``max_event_bytes_per_run``. ``unbounded`` lifts them all."""

    max_runs_retained: _Count = 64
    max_events_per_run: _Count = 2048
    max_event_bytes_per_run: _Count = 8 * 1024 * 1024
    max_trace_events: _Count = 8192
    max_terminal_subagent_tasks: _Count = 512
    unbounded: bool = False
