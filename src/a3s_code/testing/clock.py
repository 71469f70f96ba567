"""Time and ids for tests. In: nothing. Out: clocks and ids that are the same in every run.

One rule: nothing here waits for real time.
Known weakness: a ``JumpingClock`` that jumps lets a timeout win against work that needs real time; give it
``max_jump`` below that timeout and call ``advance`` when it should pass.
"""

from __future__ import annotations

import asyncio
import heapq
import math
from collections.abc import Generator, Iterable
from types import coroutine

from a3s_code.ports.clock import HostEnvConfig
from a3s_code.system.hostenv import ConfiguredEnv

START_MS = 1_700_000_000_000


@coroutine
def _let_others_run() -> Generator[None, None, None]:
    yield


class JumpingClock:
    """A ``Clock`` whose time moves only by sleeping and by ``advance``.

    A sleep of up to ``max_jump`` seconds lets the other tasks run once and jumps; a longer one waits until
    ``advance`` reaches it. ``sleeps`` records the seconds of every sleep, in order.
    """

    def __init__(self, now_ms: int = START_MS, *, max_jump: float = math.inf) -> None:
        self.sleeps: list[float] = []
        self._start_ms = now_ms
        self._passed = 0.0
        self._max_jump = max_jump
        self._waiting: list[tuple[float, int, asyncio.Future[None]]] = []

    def now_ms(self) -> int:
        return self._start_ms + round(self._passed * 1000)

    def monotonic(self) -> float:
        return self._passed

    async def sleep(self, seconds: float) -> None:
        self.sleeps.append(seconds)
        seconds = max(seconds, 0.0)
        if seconds <= self._max_jump:
            end = self._passed + seconds
            await _let_others_run()
            self._move(max(self._passed, end))  # sleeps side by side overlap, as real ones do
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (self._passed + seconds, len(self.sleeps), future))
        await future

    def advance(self, seconds: float) -> None:
        """Moves time and wakes whoever slept until then. Call it on the loop of the sleepers."""
        self._move(self._passed + seconds)

    def _move(self, to: float) -> None:
        self._passed = to
        while self._waiting and self._waiting[0][0] <= to:
            _, _, future = heapq.heappop(self._waiting)
            if not future.done():
                future.set_result(None)


class SequentialEntropy:
    """An ``Entropy`` that counts: ``id-1``, ``id-2``, …; ``jitters`` are given in turn and then again."""

    def __init__(self, prefix: str = "id", jitters: Iterable[float] = (0.5,)) -> None:
        self._prefix = prefix
        self._jitters = tuple(jitters)
        self._ids = 0
        self._jitter = 0

    def new_id(self) -> str:
        self._ids += 1
        return f"{self._prefix}-{self._ids}"

    def jitter(self) -> float:
        self._jitter += 1
        return self._jitters[(self._jitter - 1) % len(self._jitters)]


def fixed_time(now_ms: int = START_MS, prefix: str = "id") -> ConfiguredEnv:
    """A new ``HostEnv`` with one fixed time and ids ``<prefix>-1``, ``<prefix>-2``, …; its ``config`` is what
    ``opts.host_env`` takes."""
    return ConfiguredEnv(HostEnvConfig(prefix, now_ms), JumpingClock(now_ms), SequentialEntropy(prefix))
