"""The real clock and real chance. In: nothing. Out: ports.clock.Clock and ports.clock.Entropy.

One rule: nothing but this package reads time or makes random values.
Known weakness: ``now_ms`` may step back when the machine's clock is set.
"""

from __future__ import annotations

import asyncio
import base64
import os
import time


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
        """96 random bits as 20 letters and digits: short, as every fact carries two of them."""
        return base64.b32encode(os.urandom(12))[:20].decode().lower()

    def jitter(self) -> float:
        return (int.from_bytes(os.urandom(7)) >> 3) * 2.0**-53
