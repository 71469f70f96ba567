"""Time and identity. In: nothing. Out: the clock, waits and ids that a session uses.

One rule: whatever a session records takes its time and ids from here, so that a fixed one gives the same bytes.
Known weakness: waits and deadlines keep to real time even when the recorded time is fixed.
"""

from __future__ import annotations

from typing import Protocol


class Clock(Protocol):
    def now_ms(self) -> int:
        """Unix time in milliseconds, for records."""

    def monotonic(self) -> float:
        """Seconds that only grow, for deadlines."""

    async def sleep(self, seconds: float) -> None:
        """Waits; ends early with ``CancelledError`` when the task is cancelled."""


class Entropy(Protocol):
    def new_id(self) -> str:
        """An id that was never given before."""

    def jitter(self) -> float:
        """A number in [0, 1) to spread retries."""


class HostEnv(Protocol):
    """What a session records time and ids with (``HostEnvConfig`` chooses it)."""

    def now_ms(self) -> int: ...
    def new_id(self) -> str: ...
