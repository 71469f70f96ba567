"""The real clock and real chance. In: nothing. Out: ports.clock.Clock and ports.clock.Entropy.

One rule: nothing but this package reads time or makes random values.
Known weakness: ``now_ms`` may step back when the machine's clock is set.
"""

from __future__ import annotations

import asyncio
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
        """A version 4 UUID as 32 hexadecimal digits."""
        digits = os.urandom(16).hex()
        return f"{digits[:12]}4{digits[13:16]}{'89ab'[int(digits[16], 16) & 3]}{digits[17:]}"

    def jitter(self) -> float:
        return (int.from_bytes(os.urandom(7)) >> 3) * 2.0**-53
