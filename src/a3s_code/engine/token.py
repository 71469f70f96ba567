"""Cooperative cancellation. In: a request to stop. Out: the work at hand ends, and its owner learns why.

One rule: a token fires once and never unfires; what was started under it ends before ``guard`` returns.
Known weakness: work that swallows ``CancelledError`` ends when it likes; tools get a deadline for that, models don't.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator
from types import coroutine
from typing import Any, TypeVar
from weakref import WeakSet

T = TypeVar("T")


@coroutine
def _let_the_cancel_arrive() -> Generator[None, None, None]:
    """Work that fired its own token and then ended without waiting has its cancellation still before it."""
    yield


class Interrupted(Exception):
    """The guarded work was stopped by its token."""


class CancelToken:
    """Lives on the home loop; ``cancel`` must be called there. ``reason`` is what the first cancel said."""

    def __init__(self) -> None:
        self.reason = ""
        self._cancelled = False
        self._event: asyncio.Event | None = None
        self._children: WeakSet[CancelToken] = WeakSet()
        self._callbacks: list[Callable[[], object]] = []

    def child(self) -> CancelToken:
        token = CancelToken()
        self._children.add(token)
        if self._cancelled:
            token.cancel(self.reason)
        return token

    def cancel(self, reason: str = "") -> bool:
        """False when it had been cancelled before."""
        if self._cancelled:
            return False
        self._cancelled, self.reason = True, reason
        if self._event is not None:
            self._event.set()
        for callback in list(self._callbacks):
            callback()
        for token in list(self._children):
            token.cancel(reason)
        return True

    def is_cancelled(self) -> bool:
        return self._cancelled

    @property
    def event(self) -> asyncio.Event:
        """Set once the token is cancelled."""
        if self._event is None:
            self._event = asyncio.Event()
            if self._cancelled:
                self._event.set()
        return self._event

    async def wait_async(self) -> None:
        await self.event.wait()

    def on_cancel(self, callback: Callable[[], object]) -> None:
        """Calls ``callback`` when the token fires; at once if it has."""
        if self._cancelled:
            callback()
        else:
            self._callbacks.append(callback)

    def off_cancel(self, callback: Callable[[], object]) -> None:
        """Takes back what ``on_cancel`` was given."""
        if callback in self._callbacks:
            self._callbacks.remove(callback)

    async def guard(self, work: Coroutine[Any, Any, T]) -> T:
        """Awaits ``work`` in the present task; raises ``Interrupted`` once it has ended because the token fired.
        Several tasks may do so at once."""
        if self._cancelled:
            work.close()
            raise Interrupted(self.reason)
        task = asyncio.current_task()
        assert task is not None
        self._callbacks.append(task.cancel)
        try:
            result = await work
            if self.is_cancelled():
                await _let_the_cancel_arrive()
            return result
        except asyncio.CancelledError:
            if not self.is_cancelled():
                raise
            raise Interrupted(self.reason) from None
        finally:
            self.off_cancel(task.cancel)
            if self.is_cancelled():
                task.uncancel()
