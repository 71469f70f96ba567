"""Work handed to another event loop. In: a loop and a coroutine. Out: its result, in a thread or on another loop.

One rule: cancelling the wait cancels the work and returns only when that has ended; a second cancel leaves at once.
Known weakness: a loop that stops for good without cancelling its tasks leaves its callers waiting.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import threading
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future
from typing import Any, Generic, TypeAlias, TypeVar

from a3s_code.api.workers import as_exception
from a3s_code.errors import SessionClosed
from a3s_code.ports.tasks import spawn

T = TypeVar("T")
Work: TypeAlias = Callable[[], Coroutine[Any, Any, T]]


class Call(Generic[T]):
    """One coroutine on its way through another loop. ``outcome`` gets its result, whatever happens."""

    def __init__(self, work: Work[T], name: str) -> None:
        self.name = name
        self.outcome: Future[T] = Future()
        self._work = work
        self._task: asyncio.Task[T] | None = None

    def start(self) -> None:
        """On the target loop."""
        try:
            work = self._work()
        except Exception as error:  # noqa: BLE001  wrong arguments, say: the caller gets it, as from a plain call
            self.outcome.set_exception(error)
            return
        self._task = spawn(work, f"a3s-code {self.name}")
        self._task.add_done_callback(self._ended)

    def cancel(self) -> None:
        """On the target loop."""
        if self._task is not None:
            self._task.cancel()

    def abort(self) -> None:
        """The loop ended under the call."""
        self.outcome.set_exception(_ended_under(self.name))

    def _ended(self, task: asyncio.Task[T]) -> None:
        if task.cancelled():
            self.abort()
        elif (error := task.exception()) is not None:
            self.outcome.set_exception(error)
        else:
            self.outcome.set_result(task.result())


class Calls:
    """Everything at work on one loop, so that nobody waits for a loop that is gone."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._lock = threading.Lock()
        self._open: set[Call[Any]] = set()
        self._over = False

    def submit(self, call: Call[Any]) -> None:
        """Raises ``SessionClosed`` when the loop is gone."""
        with self._lock:
            if self._over:
                raise _ended_under(call.name)
            self._open.add(call)
        call.outcome.add_done_callback(lambda _: self._discard(call))
        try:
            self._loop.call_soon_threadsafe(call.start, context=contextvars.copy_context())
        except RuntimeError:
            self._discard(call)
            raise _ended_under(call.name) from None

    def later(self, do: Callable[[], object]) -> None:
        """Calls ``do`` on the loop soon; does nothing when that is gone."""
        with contextlib.suppress(RuntimeError):  # closed
            self._loop.call_soon_threadsafe(do)

    def end(self) -> None:
        """In the loop's own thread, once the loop is closed."""
        with self._lock:
            self._over = True
            calls = list(self._open)
        for call in calls:
            if not call.outcome.done():
                call.abort()

    def _discard(self, call: Call[Any]) -> None:
        with self._lock:
            self._open.discard(call)


async def await_on(calls: Calls, call: Call[T]) -> T:
    """Awaits ``call`` from a loop other than the one it runs on."""
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[None] = loop.create_future()

    def resolve() -> None:
        if not ended.done():
            ended.set_result(None)

    def tell(_: Future[T]) -> None:
        with contextlib.suppress(RuntimeError):  # the waiting loop is closed
            loop.call_soon_threadsafe(resolve)

    calls.submit(call)
    call.outcome.add_done_callback(tell)
    try:
        await asyncio.shield(ended)
    except asyncio.CancelledError:
        calls.later(call.cancel)
        await asyncio.wait([ended])
        raise
    return call.outcome.result()


async def guarded(awaitable: Awaitable[T]) -> T:
    """Host code on a loop: what would end the loop, or look like our own cancellation, becomes a plain error."""
    try:
        return await awaitable
    except asyncio.CancelledError as raised:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        raise as_exception(raised) from None
    except BaseException as raised:  # noqa: BLE001  whatever host code raises belongs to its caller, not to the loop
        raise as_exception(raised) from None


def _ended_under(name: str) -> SessionClosed:
    return SessionClosed(f"{name} can't finish: the agent was closed, or the event loop it lives on has ended")
