"""Watching one process's commits. In: events, from any thread. Out: the same events, on any loop that watches.

One rule: a watcher gets every event that is kept behind its cursor, in order, and is told of a gap.
Known weakness: the newest 10,000 events are kept; who is further behind sees a ``gap``.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import AsyncIterator
from typing import Final

from a3s_code.errors import CodeError
from a3s_code.ports.store import StoreEvent

KEPT: Final = 10_000


class Bell:
    """Wakes those who wait, each on its own loop."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._waiting: list[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]] = []

    def waiter(self) -> asyncio.Future[None]:
        """Done at the next ``ring``. Take it before looking whether there is something."""
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        with self._guard:
            self._waiting = [(at, each) for at, each in self._waiting if not (at.is_closed() or each.cancelled())]
            self._waiting.append((loop, future))
        return future

    def ring(self) -> None:
        """From any thread."""
        with self._guard:
            waiting, self._waiting = self._waiting, []
        for loop, future in waiting:
            with contextlib.suppress(RuntimeError):  # the loop was closed: nobody waits any more
                loop.call_soon_threadsafe(_resolve, future)


class Journal:
    """The events of a store in memory."""

    def __init__(self) -> None:
        self._bell = Bell()
        self._events: deque[StoreEvent] = deque(maxlen=KEPT)
        self._last = 0

    def add(self, kind: str, session_id: str, ref: str) -> None:
        """Under the store's lock."""
        self._last += 1
        self._events.append(StoreEvent(str(self._last), kind, session_id, ref))
        self._bell.ring()

    async def watch(self, after: str | None) -> AsyncIterator[StoreEvent]:
        at = self._last if after is None else cursor_number(after)
        while True:
            rung = self._bell.waiter()
            first = self._last - len(self._events)
            if at < first:
                at = first
                yield StoreEvent(str(at), "gap")
            for event in list(self._events)[max(0, at - first) :]:
                at = int(event.cursor)
                yield event
            await rung


def cursor_number(cursor: str) -> int:
    """``INVALID_REQUEST`` for what no event named."""
    if not (cursor.isascii() and cursor.isdigit() and len(cursor) < 19):
        raise CodeError(f"{cursor!r} is no cursor of this store", "INVALID_REQUEST")
    return int(cursor)


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
