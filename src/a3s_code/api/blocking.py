"""An agent's event loop, and the blocking face over it (api.md, *Two faces*). In: coroutines. Out: their results.

One rule: a blocking call that could never return raises ``INVALID_REQUEST`` at once and names its ``_async`` twin.
Known weakness: two agents that block each other's loops from coroutine callbacks are not found out.
"""

from __future__ import annotations

import asyncio
import functools
import os
import threading
import weakref
from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from a3s_code.api.callbacks import HostCallbacks
from a3s_code.api.loops import Call, Calls, Work, await_on
from a3s_code.errors import CodeError, SessionClosed

T = TypeVar("T")
P = ParamSpec("P")

_GRACE_SECONDS = 5.0


class Home:
    """The loop that an agent and its sessions live on; see ``current`` and ``private``. A ``ports.Callbacks``."""

    def __init__(self, loop: asyncio.AbstractEventLoop, calls: Calls, thread: threading.Thread | None) -> None:
        self.loop = loop
        self._calls = calls
        self._thread = thread
        self._pid = os.getpid()
        self._closed = False
        self._callbacks = HostCallbacks(loop)
        self._finalizer = weakref.finalize(self, _stop, loop, self._pid) if thread is not None else None

    @classmethod
    def current(cls) -> Home:
        """The running loop becomes the home: no thread, no hop."""
        loop = asyncio.get_running_loop()
        return cls(loop, Calls(loop), None)

    @classmethod
    def private(cls) -> Home:
        """A daemon thread ``a3s-code`` with a loop of its own; ended by ``close``, or when the home is dropped."""
        loop = asyncio.new_event_loop()
        calls = Calls(loop)
        thread = threading.Thread(target=_serve, args=(loop, calls), name="a3s-code", daemon=True)
        thread.start()
        return cls(loop, calls, thread)

    @property
    def is_private(self) -> bool:
        return self._thread is not None

    def here(self) -> bool:
        """Whether the caller runs on the home loop."""
        return asyncio._get_running_loop() is self.loop

    def check_alive(self, name: str = "this operation") -> None:
        """Raises when nothing can run on this home any more, or not in this process."""
        if os.getpid() != self._pid:
            raise CodeError(
                f"{name}: this agent belongs to process {self._pid}; a forked child has to create its own",
                "INVALID_REQUEST",
            )
        if self._closed or self.loop.is_closed():
            raise SessionClosed(f"{name}: the agent was closed, or the event loop it lives on has ended")

    def check_blocking(self, name: str, instead: str = "") -> None:
        """Raises when a blocking call from here could never return. ``instead`` is what to use (the twin)."""
        self.check_alive(name)
        running = asyncio._get_running_loop()
        if running is self.loop:
            raise _use_twin(name, instead, "it would wait for the event loop that it is called on")
        if running is not None and self._callbacks.belong_to(running):
            raise _use_twin(name, instead, "a coroutine callback of this agent runs on the event loop it would block")
        if self._thread is None and not self.loop.is_running():
            raise _use_twin(name, instead, "the event loop that this agent lives on is not running")

    def run(self, work: Work[T], *, name: str = "call", on_interrupt: Callable[[], object] | None = None) -> T:
        """Runs ``work()`` on the home loop and waits for it in this thread.

        At Ctrl-C ``on_interrupt`` is called on the home loop (by default the work is cancelled), the end of the work
        is awaited, and ``KeyboardInterrupt`` raised; a second Ctrl-C doesn't wait.
        """
        self.check_blocking(name)
        call = Call(work, name)
        running = asyncio._get_running_loop()
        if running is not None:
            self._callbacks.blocked.add(running)
        try:
            self._calls.submit(call)
            return call.outcome.result()
        except KeyboardInterrupt:
            if not call.outcome.done():
                self._calls.later(on_interrupt or call.cancel)
                call.outcome.exception()
            raise
        finally:
            if running is not None:
                self._callbacks.blocked.discard(running)

    async def bridge(self, work: Work[T], *, name: str = "call") -> T:
        """Awaits ``work()`` on the home loop from whatever loop is running; cancelling passes through."""
        if asyncio.get_running_loop() is self.loop:
            return await work()
        self.check_alive(name)
        return await await_on(self._calls, Call(work, name))

    def later(self, do: Callable[[], object]) -> None:
        """Calls ``do`` on the home loop soon, from any thread, without waiting; nothing in a forked child."""
        if os.getpid() == self._pid:
            self._calls.later(do)

    def adopt(self, given: object) -> None:
        """Remembers on which loop a callback, or an object with callbacks, was given; to be called while giving."""
        self._callbacks.adopt(given)

    def release(self, given: object) -> None:
        """Forgets what ``adopt`` remembered."""
        self._callbacks.release(given)

    async def call_host(self, fn: Callable[..., Any], *args: Any) -> Any:
        """Calls what the host gave: a plain function in a worker thread, a coroutine function on the loop that ran
        when it was given (``adopt``), else here."""
        return await self._callbacks.call_host(fn, *args)

    async def call_within(self, seconds: float, fn: Callable[..., Any], *args: Any) -> Any:
        """The same; ``NoAnswer`` after ``seconds``, whatever the function does."""
        return await self._callbacks.call_within(seconds, fn, *args)

    def abandoned(self, fn: Callable[..., Any]) -> int:
        """How many calls of ``fn`` were abandoned and have not ended since."""
        return self._callbacks.abandoned(fn)

    async def in_thread(self, fn: Callable[..., Any], *args: Any) -> Any:
        """Our own blocking code, in worker threads that host code can't use up."""
        return await self._callbacks.in_thread(fn, *args)

    def end_workers(self) -> None:
        """Ends the threads that wait for callbacks and blocking work; a busy one ends with its call."""
        self._callbacks.close()

    def close(self) -> None:
        """Ends the private thread, cancelling what is left on it, and the idle workers. Idempotent, any thread.

        A home that is somebody else's loop goes on; only new calls are refused.
        """
        self._closed = True
        if os.getpid() != self._pid:
            return
        self._callbacks.close()
        if self._finalizer is not None:
            self._finalizer()
        if self._thread is not None and threading.current_thread() is not self._thread:
            self._thread.join()


class HasHome(Protocol):
    @property
    def _home(self) -> Home: ...


S = TypeVar("S", bound=HasHome)


def blocking(
    method: Callable[Concatenate[S, P], Coroutine[Any, Any, T]],
    on_interrupt: Callable[[S], object] | None = None,
) -> Callable[Concatenate[S, P], T]:
    """The blocking face of ``name_async``, in a class body: ``send = blocking(send_async)``.

    Same parameters, docstring and types. ``on_interrupt`` gets the object at Ctrl-C, on the home loop.
    """
    name = method.__name__.removesuffix("_async")

    @functools.wraps(method)
    def call(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        stop = None if on_interrupt is None else functools.partial(on_interrupt, self)
        return self._home.run(lambda: method(self, *args, **kwargs), name=name, on_interrupt=stop)

    call.__name__ = name
    call.__qualname__ = method.__qualname__.removesuffix("_async")
    return call


def bridged(
    method: Callable[Concatenate[S, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[S, P], Coroutine[Any, Any, T]]:
    """Makes an ``_async`` method awaitable on any loop; on the home loop it is the method itself."""

    @functools.wraps(method)
    async def call(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        home = self._home
        if home.here():
            return await method(self, *args, **kwargs)
        return await home.bridge(lambda: method(self, *args, **kwargs), name=method.__name__)

    return call


def _serve(loop: asyncio.AbstractEventLoop, calls: Calls) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
        tasks = asyncio.all_tasks(loop)
        for task in tasks:
            task.cancel()
        if tasks:
            loop.run_until_complete(asyncio.wait(tasks, timeout=_GRACE_SECONDS))
        loop.run_until_complete(loop.shutdown_asyncgens())
    finally:
        loop.close()
        calls.end()


def _stop(loop: asyncio.AbstractEventLoop, pid: int) -> None:
    if os.getpid() == pid and not loop.is_closed():
        loop.call_soon_threadsafe(loop.stop)


def _use_twin(name: str, instead: str, why: str) -> CodeError:
    twin = instead or f"await {name}_async(...)"
    return CodeError(f"{name}() can't be used here: {why}. Use `{twin}`.", "INVALID_REQUEST")
