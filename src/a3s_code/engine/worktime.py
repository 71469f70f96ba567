"""How long a run has worked. In: starts and pauses. Out: one call when the limit is reached.

One rule: time spent parked doesn't count.
Known weakness: a loop that is blocked by its host is noticed late.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from a3s_code.ports.clock import Clock


class WorkTime:
    """``limit_ms`` of ``None`` never ends. Starts paused."""

    def __init__(self, limit_ms: int | None, clock: Clock, on_limit: Callable[[], None]) -> None:
        self._left_s = None if limit_ms is None else limit_ms / 1000
        self._clock = clock
        self._on_limit = on_limit
        self._timer: asyncio.TimerHandle | None = None
        self._since = 0.0

    def start(self) -> None:
        if self._left_s is None or self._timer is not None:
            return
        self._since = self._clock.monotonic()
        self._timer = asyncio.get_running_loop().call_later(max(0.0, self._left_s), self._on_limit)

    def pause(self) -> None:
        if self._timer is None or self._left_s is None:
            return
        self._timer.cancel()
        self._timer = None
        self._left_s -= self._clock.monotonic() - self._since
