"""Group commit. In: descriptors that must be on the disk. Out: futures that resolve when they are.

One rule: all that wait at one moment share one ``fdatasync`` a descriptor, done in one worker thread, and the loop is
woken once. Nothing is started before it is needed; the thread ends when it is idle.
Known weakness: the descriptors of one batch are synced one after the other.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import stat
import threading
import weakref
from queue import Empty, SimpleQueue
from typing import NamedTuple

from a3s_code.stores.disk import Disk

_all: weakref.WeakSet[Syncer] = weakref.WeakSet()


class _Waiting(NamedTuple):
    disk: Disk
    fd: int
    future: asyncio.Future[None]
    loop: asyncio.AbstractEventLoop


class Syncer:
    """One for all sessions of a process; may be used from any thread and loop."""

    def __init__(self, idle_seconds: float = 10.0) -> None:
        self._idle_seconds = idle_seconds
        self._reset()
        _all.add(self)

    def _reset(self) -> None:
        self._guard = threading.Lock()
        self._queue: SimpleQueue[_Waiting] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._in_use: dict[int, int] = {}
        self._to_close: dict[int, Disk] = {}

    def submit(self, disk: Disk, fd: int) -> asyncio.Future[None]:
        """A future of the running loop: done when all that was written to ``fd`` before is on the disk, or with the
        ``OSError`` that it met."""
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        with self._guard:
            self._in_use[fd] = self._in_use.get(fd, 0) + 1
            self._queue.put(_Waiting(disk, fd, future, loop))
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="a3s-code-sync", daemon=True)
                self._thread.start()
        return future

    def close(self, disk: Disk, fd: int) -> None:
        """Closes ``fd`` once nobody waits for it."""
        with self._guard:
            if fd in self._in_use:
                self._to_close[fd] = disk
                return
        disk.close(fd)

    def _work(self) -> None:
        queue = self._queue
        while True:
            try:
                batch = [queue.get(timeout=self._idle_seconds)]
            except Empty:
                with self._guard:
                    if queue.empty():
                        self._thread = None
                        return
                continue
            with contextlib.suppress(Empty):
                while True:
                    batch.append(queue.get_nowait())
            self._commit(batch)

    def _commit(self, batch: list[_Waiting]) -> None:
        outcome: dict[int, OSError | None] = {}
        by_loop: dict[asyncio.AbstractEventLoop, list[tuple[asyncio.Future[None], OSError | None]]] = {}
        for waiting in batch:
            fd = waiting.fd
            if fd not in outcome:
                outcome[fd] = _sync(waiting.disk, fd)
            by_loop.setdefault(waiting.loop, []).append((waiting.future, outcome[fd]))
        self._let_go(batch)  # first, so that who was woken can close at once
        for loop, settled in by_loop.items():
            with contextlib.suppress(RuntimeError):  # the loop was closed: nobody waits any more
                loop.call_soon_threadsafe(_resolve, settled)

    def _let_go(self, batch: list[_Waiting]) -> None:
        with self._guard:
            for waiting in batch:
                fd = waiting.fd
                self._in_use[fd] -= 1
                if self._in_use[fd] == 0:
                    del self._in_use[fd]
                    if fd in self._to_close:
                        self._to_close.pop(fd).close(fd)


def _sync(disk: Disk, fd: int) -> OSError | None:
    try:
        disk.fdatasync(fd)
    except OSError as error:
        if error.errno == errno.EINVAL and stat.S_ISDIR(os.fstat(fd).st_mode):
            return None  # some file systems have no sync for directories
        return error
    return None


def _resolve(settled: list[tuple[asyncio.Future[None], OSError | None]]) -> None:
    for future, error in settled:
        if future.done():
            continue
        if error is None:
            future.set_result(None)
        else:
            future.set_exception(error)


def _after_fork() -> None:
    """A child has neither the thread nor those who wait."""
    for syncer in _all:
        syncer._reset()


os.register_at_fork(after_in_child=_after_fork)
