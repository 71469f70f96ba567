"""Time and identity. In: nothing. Out: the clock, waits and ids that a session uses.

One rule: whatever a session records takes its time and ids from here, so that a fixed one gives the same bytes.
Known weakness: waits and deadlines keep to real time even when the recorded time is fixed.
"""

from __future__ import annotations

import threading
from typing import Protocol

from a3s_code.errors import SessionConfigurationError


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

    @property
    def fixed(self) -> bool:
        """Whether ids or times are chosen by the host, so that two runs over the same inputs write the same bytes."""

    def seen(self, name: str) -> None:
        """Tells of an id that an existing log holds, so that it is not given again."""

    def now_ms(self) -> int: ...
    def new_id(self) -> str: ...


class HostEnvConfig:
    """Fixes what a session records (api.md): ids ``<prefix>-1``, ``<prefix>-2``, … in order of use, counted here, and
    one time. Each is independent; ``None`` leaves it to chance or the clock. May be shared between threads.
    ``SessionConfigurationError`` names a field of a wrong type or range."""

    def __init__(self, sequential_id_prefix: str | None = None, fixed_time_ms: int | None = None) -> None:
        if sequential_id_prefix is not None and (not isinstance(sequential_id_prefix, str) or not sequential_id_prefix):
            raise SessionConfigurationError("host_env.sequential_id_prefix must be a text that is not empty")
        if fixed_time_ms is not None and (type(fixed_time_ms) is not int or fixed_time_ms < 0):
            raise SessionConfigurationError("host_env.fixed_time_ms must be milliseconds since 1970, not negative")
        self.sequential_id_prefix = sequential_id_prefix
        self.fixed_time_ms = fixed_time_ms
        self._given = 0
        self._guard = threading.Lock()

    def next_id(self) -> str:
        """The next id; only with a prefix."""
        with self._guard:
            self._given += 1
            return f"{self.sequential_id_prefix}-{self._given}"

    def resume_from(self, highest: int) -> None:
        """Has the count go on from ``highest`` if it is not there yet, for a log that exists."""
        with self._guard:
            self._given = max(self._given, highest)

    def number_of(self, name: str) -> int:
        """The number of an id of this prefix; 0 for any other id."""
        prefix, _, number = name.rpartition("-")
        ours = prefix == self.sequential_id_prefix and number.isascii() and number.isdigit()
        return int(number) if ours and len(number) < 19 else 0

    def __repr__(self) -> str:
        return f"HostEnvConfig({self.sequential_id_prefix!r}, {self.fixed_time_ms!r})"
