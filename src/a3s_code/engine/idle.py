"""Noticing silence. In: signs of life. Out: ``Silent`` once there were none for too long.

One rule: a sign of life costs one look at the loop's clock; the timer is only set anew when it fires.
Known weakness: a loop that is blocked by its host can't tell its own silence from the model's.
"""

from __future__ import annotations

import asyncio
from typing import Any


class Silent(Exception):
    """The guarded work gave no sign of life for as long as it may."""


class Watchdog:
    """A context manager around work of the present task: raises ``Silent`` out of it after ``limit_ms`` without
    ``touch``; between ``hold`` and the next ``touch`` silence is somebody else's."""

    def __init__(self, limit_ms: int) -> None:
        self._limit_ms = limit_ms
        self._expired = False
        self._held = False
        self._limit_s = limit_ms / 1000
        self._loop = asyncio.get_running_loop()
        self._task: asyncio.Task[Any] | None = asyncio.current_task()
        self._seen = self._loop.time()
        self._timer: asyncio.TimerHandle | None = None

    def touch(self) -> None:
        self._seen = self._loop.time()
        self._held = False

    def hold(self) -> None:
        self._held = True

    def __enter__(self) -> Watchdog:
        self._timer = self._loop.call_later(self._limit_s, self._look)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._expired and self._task is not None:
            self._task.uncancel()
            if kind is asyncio.CancelledError:
                raise Silent(f"silent for {self._limit_ms} ms") from None

    def _look(self) -> None:
        left = self._limit_s if self._held else self._seen + self._limit_s - self._loop.time()
        if left > 0:
            self._timer = self._loop.call_later(left, self._look)
        elif self._task is not None:
            self._expired = True
            self._task.cancel()
