"""Worker threads for code that blocks. In: a plain function. Out: its result, awaited on any loop.

One rule: threads are daemons and capped; one that outlives its caller's patience is written off, so that stuck code
takes no place from the rest and never holds up the end of the program.
Known weakness: a thread can't be stopped; written-off ones live until their function returns.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import queue
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

from a3s_code.errors import CodeError

ABANDONED_LIMIT = 4
_IDLE_SECONDS = 10.0


class _Job:
    """One call on its way through a thread. ``state`` is guarded by the pool's lock."""

    __slots__ = ("args", "context", "fn", "future", "key", "loop", "state")

    def __init__(self, fn: Callable[..., Any], args: tuple[Any, ...], future: asyncio.Future[Any]) -> None:
        self.fn = fn
        self.args = args
        self.future = future
        self.loop = future.get_loop()
        self.context = contextvars.copy_context()
        self.key = key_of(fn)
        self.state = "waiting"

    def call(self) -> None:
        try:
            result, error = self.context.run(self.fn, *self.args), None
        except BaseException as raised:  # noqa: BLE001  whatever host code raises belongs to its caller, not to us
            result, error = None, as_exception(raised)
        with contextlib.suppress(RuntimeError):  # the caller's loop is closed: nobody waits for this answer
            self.loop.call_soon_threadsafe(self._settle, result, error)

    def _settle(self, result: object, error: Exception | None) -> None:
        if self.future.done():
            return
        if error is not None:
            self.future.set_exception(error)
        else:
            self.future.set_result(result)


class Workers:
    """At most ``cap`` threads, started when needed, ended when idle; further calls wait for one."""

    def __init__(self, cap: int, name: str) -> None:
        self._cap = cap
        self._name = name
        self._lock = threading.Lock()
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._threads: set[threading.Thread] = set()
        self._idle = 0
        self._runners: dict[_Job, threading.Thread] = {}
        self._abandoned: Counter[tuple[int, int]] = Counter()

    async def run(self, fn: Callable[..., Any], *args: Any) -> Any:
        """``fn(*args)`` in a thread. Cancelling the wait abandons the call: its late answer is discarded.

        While four calls of one function are abandoned, further ones fail at once (``INTERNAL_ERROR``).
        """
        job = _Job(fn, args, asyncio.get_running_loop().create_future())
        with self._lock:
            if self._abandoned[job.key] >= ABANDONED_LIMIT:
                raise not_called(fn)
            self._jobs.put(job)
            if self._idle < self._jobs.qsize() and len(self._threads) < self._cap:
                self._start()
        try:
            return await job.future
        except asyncio.CancelledError:
            self._abandon(job)
            raise

    def abandoned(self, fn: Callable[..., Any]) -> int:
        """How many calls of ``fn`` were abandoned and are running still."""
        with self._lock:
            return self._abandoned[key_of(fn)]

    def close(self) -> None:
        """Ends the idle threads; busy ones end with their call."""
        with self._lock:
            threads, busy = list(self._threads), set(self._runners.values())
        for _ in threads:
            self._jobs.put(None)
        for thread in threads:
            if thread not in busy:
                thread.join(0.2)

    def _start(self) -> None:
        thread = threading.Thread(target=self._work, name=self._name, daemon=True)
        self._threads.add(thread)
        thread.start()

    def _abandon(self, job: _Job) -> None:
        """Writes the thread off, so that another may take its place."""
        with self._lock:
            if job.state == "running":
                self._abandoned[job.key] += 1
                self._threads.discard(self._runners.pop(job))
            job.state = "abandoned"

    def _work(self) -> None:
        me = threading.current_thread()
        while (job := self._next()) is not None:
            with self._lock:
                if job.state == "abandoned":
                    continue
                job.state = "running"
                self._runners[job] = me
            job.call()
            with self._lock:
                if job.state == "abandoned":
                    self._abandoned[job.key] -= 1
                    return
                del self._runners[job]
            del job
        with self._lock:
            self._threads.discard(me)

    def _next(self) -> _Job | None:
        with self._lock:
            self._idle += 1
        try:
            return self._jobs.get(timeout=_IDLE_SECONDS)
        except queue.Empty:
            return None
        finally:
            with self._lock:
                self._idle -= 1


def as_exception(raised: BaseException) -> Exception:
    """What may travel through an event loop: ``SystemExit`` and its like would end the loop itself."""
    if isinstance(raised, Exception) and not isinstance(raised, StopIteration):
        return raised
    error = RuntimeError(f"host code raised {type(raised).__name__}: {raised}")
    error.__cause__ = raised
    return error


def key_of(fn: object) -> tuple[int, int]:
    """What tells one callback from another: bound methods are made anew each time they are looked up."""
    return id(getattr(fn, "__self__", None)), id(getattr(fn, "__func__", fn))


def not_called(fn: object) -> CodeError:
    return CodeError(f"{describe(fn)} is not called: {ABANDONED_LIMIT} earlier calls never returned")


def describe(fn: object) -> str:
    return str(getattr(fn, "__qualname__", type(fn).__qualname__))
