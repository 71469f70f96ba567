"""Threads for blocking work. In: a function. Out: its result, awaited on whatever loop asks.

One rule: nothing is started before it is needed, and a forked child starts anew.
Known weakness: cancelling the wait doesn't stop the work: what it writes may be there or not.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")


class Threads:
    def __init__(self, count: int, name: str) -> None:
        self._count = count
        self._name = name
        self._guard = threading.Lock()
        self._pool: ThreadPoolExecutor | None = None
        self._pid = 0

    async def run(self, work: Callable[..., T], *args: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._started(), work, *args)

    def _started(self) -> ThreadPoolExecutor:
        with self._guard:
            if self._pool is None or self._pid != os.getpid():
                self._pool, self._pid = ThreadPoolExecutor(self._count, self._name), os.getpid()
            return self._pool

    async def close(self) -> None:
        """Returns once what was begun has ended and the threads are gone."""
        with self._guard:
            pool, self._pool = self._pool, None
        if pool is not None and self._pid == os.getpid():
            await asyncio.to_thread(pool.shutdown)
