"""Calling what a host gave (api.md, *Two faces*). In: plain or coroutine functions. Out: their results, awaited.

One rule: a plain function runs in a worker thread, a coroutine on the loop that was running when it was given, else
on the home loop; what the function raises, ``SystemExit`` included, reaches the caller as an ``Exception``.
Known weakness: a coroutine function handed over inside a plain wrapper (a lambda) is only known after its first call.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
import weakref
from collections import Counter
from collections.abc import Callable, Coroutine
from types import FunctionType
from typing import Any, NamedTuple

from a3s_code.api.loops import Call, Calls, await_on, guarded
from a3s_code.api.workers import ABANDONED_LIMIT, Workers, describe, key_of, not_called
from a3s_code.errors import CodeError
from a3s_code.ports.callbacks import NoAnswer
from a3s_code.ports.tasks import spawn

HOST_THREADS = 64
OWN_THREADS = 16


class _Given(NamedTuple):
    """``keep`` makes the id stay valid: a weak reference, or the object itself where it can't be weakly held."""

    keep: object
    loop: weakref.ref[asyncio.AbstractEventLoop]
    coroutine: bool


class HostCallbacks:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.blocked: set[asyncio.AbstractEventLoop] = set()
        self._home = loop
        self._lock = threading.RLock()  # reentrant: a weak reference may call back while it is held
        self._given: dict[int, _Given] = {}
        self._host = Workers(HOST_THREADS, "a3s-code-callback")
        self._own = Workers(OWN_THREADS, "a3s-code-worker")
        self._left: Counter[tuple[int, int]] = Counter()

    def adopt(self, given: object) -> None:
        """Remembers the running loop for ``given``: a function, or an object with callbacks as its methods."""
        loop = asyncio._get_running_loop()
        if loop is None or loop is self._home:
            return
        owner = getattr(given, "__self__", given)
        key = id(owner)
        try:
            keep: object = weakref.ref(owner, lambda _: self._forget(key))
        except TypeError:
            keep = owner
        with self._lock:
            self._given[key] = _Given(keep, weakref.ref(loop), _has_coroutines(given))

    def release(self, given: object) -> None:
        self._forget(id(getattr(given, "__self__", given)))

    def belong_to(self, loop: asyncio.AbstractEventLoop) -> bool:
        """Whether a coroutine callback has to run on ``loop``."""
        with self._lock:
            return any(given.coroutine and given.loop() is loop for given in self._given.values())

    async def call_host(self, fn: Callable[..., Any], *args: Any) -> Any:
        if is_coroutine_function(fn):
            return await self._await_coroutine(fn, lambda: guarded(fn(*args)))
        result = await self._host.run(fn, *args)
        if inspect.isawaitable(result):
            if inspect.iscoroutine(result) and self._loop_of(fn) in self.blocked:
                result.close()
            return await self._await_coroutine(fn, lambda: guarded(result))
        return result

    async def call_within(self, seconds: float, fn: Callable[..., Any], *args: Any) -> Any:
        if is_coroutine_function(fn):
            return await self._patiently(seconds, fn, self.call_host(fn, *args))
        try:
            async with asyncio.timeout(seconds) as limit:
                result = await self._host.run(fn, *args)
        except TimeoutError:
            if limit.expired():
                raise _no_answer(fn, seconds) from None
            raise
        if not inspect.isawaitable(result):
            return result
        return await self._patiently(seconds, fn, self._await_coroutine(fn, lambda: guarded(result)))

    def abandoned(self, fn: Callable[..., Any]) -> int:
        return self._host.abandoned(fn) + self._left[key_of(fn)]

    async def _patiently(self, seconds: float, fn: Callable[..., Any], work: Coroutine[Any, Any, Any]) -> Any:
        """Awaits a coroutine that may not end when it is cancelled: it is left behind then."""
        key = key_of(fn)
        if self._left[key] >= ABANDONED_LIMIT:
            work.close()
            raise not_called(fn)
        task = spawn(work, f"callback {describe(fn)}")
        try:
            await asyncio.wait([task], timeout=seconds)
        finally:
            if not task.done():
                self._left[key] += 1
                task.add_done_callback(lambda _: self._left.subtract([key]))
                task.cancel()
        if not task.done():
            raise _no_answer(fn, seconds)
        return task.result()

    async def in_thread(self, fn: Callable[..., Any], *args: Any) -> Any:
        return await self._own.run(fn, *args)

    def close(self) -> None:
        self._host.close()
        self._own.close()

    async def _await_coroutine(self, fn: Callable[..., Any], work: Callable[[], Any]) -> Any:
        loop = self._loop_of(fn)
        if loop is asyncio.get_running_loop():
            return await work()
        if loop in self.blocked:
            raise CodeError(
                f"{describe(fn)} can't run: its event loop is blocked by a blocking call; use the _async twin there",
                "INVALID_REQUEST",
            )
        return await await_on(Calls(loop), Call(work, describe(fn)))

    def _loop_of(self, fn: object) -> asyncio.AbstractEventLoop:
        if not self._given:
            return self._home
        with self._lock:
            given = self._given.get(id(fn)) or self._given.get(id(getattr(fn, "__self__", fn)))
        loop = given.loop() if given is not None else None
        return loop if loop is not None and loop.is_running() else self._home

    def _forget(self, key: int) -> None:
        with self._lock:
            self._given.pop(key, None)


def _no_answer(fn: object, seconds: float) -> NoAnswer:
    return NoAnswer(f"{describe(fn)} gave no answer within {round(seconds * 1000)} ms")


def is_coroutine_function(fn: object) -> bool:
    if type(fn) is FunctionType and not hasattr(fn, "_is_coroutine_mark"):  # asked at every call
        return fn.__code__.co_flags & inspect.CO_COROUTINE != 0
    return inspect.iscoroutinefunction(fn) or inspect.iscoroutinefunction(getattr(fn, "__call__", None))  # noqa: B004  asked is whether it is one, not whether there is one


def _has_coroutines(given: object) -> bool:
    if is_coroutine_function(given):
        return True
    kind = type(given)
    names = (name for name in dir(kind) if not name.startswith("_"))
    return any(inspect.iscoroutinefunction(inspect.getattr_static(kind, name)) for name in names)
