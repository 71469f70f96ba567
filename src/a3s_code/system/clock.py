"""The real clock and real chance. In: nothing. Out: ports.clock.Clock and ports.clock.Entropy.

One rule: nothing but this package reads time or makes random values.
Known weakness: ``now_ms`` may step back when the machine's clock is set.
"""

from __future__ import annotations

import asyncio
import os
import time
from typing import Final

_LETTERS: Final = b"abcdefghijklmnopqrstuvwxyz234567" * 8
"""A letter for each byte; each stands for eight, so five bits of chance are in it."""


class SystemClock:
    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class SystemEntropy:
    """Asks the operating system each time, so a forked child never repeats its parent's ids."""

    def new_id(self) -> str:
        """80 random bits as 16 letters and digits: short and made fast, as every fact carries two of them."""
        return os.urandom(16).translate(_LETTERS).decode()

    def jitter(self) -> float:
        return (int.from_bytes(os.urandom(7)) >> 3) * 2.0**-53
