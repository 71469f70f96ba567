"""The events of one run, as an iterator in both faces. In: a subscription. Out: events, the terminal one last.

One rule: the terminal event is given only after the run's gate is free, so whoever has it can start the next call.
Known weakness: events that were fetched but not yet given are lost when the iterator is closed.
"""

from __future__ import annotations

import asyncio
import contextlib
import weakref
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import Any

from a3s_code.api.blocking import Home
from a3s_code.core.events.envelope import AgentEvent
from a3s_code.engine.fanout import Subscription
from a3s_code.errors import SessionClosed


class EventStream:
    """An iterator and an async iterator of ``AgentEvent``; works from any thread and any event loop.

    It ends after exactly one terminal event (``agent_end`` or ``error``). ``close()``, or dropping it, interrupts the
    run. Neighbouring deltas come merged when the reader is slow; a reader that stops makes the run wait.

    ``interrupt`` is called on the home loop, at most once, and must not wait; ``settled`` is a future or task of that
    loop which is done once the gate is free.
    """

    def __init__(
        self,
        home: Home,
        subscription: Subscription,
        interrupt: Callable[[], object],
        settled: asyncio.Future[Any],
    ) -> None:
        self._home = home
        self._subscription = subscription
        self._settled = settled
        self._batch: deque[AgentEvent] = deque()
        self._terminal: AgentEvent | None = None
        self._ended = False
        self._dropped = weakref.finalize(self, _drop, home, subscription, interrupt)
        self._dropped.atexit = False

    def __iter__(self) -> EventStream:
        return self

    def __next__(self) -> AgentEvent:
        if self._batch:
            return self._batch.popleft()
        return self._refill()

    def __aiter__(self) -> EventStream:
        return self

    async def __anext__(self) -> AgentEvent:
        if self._batch:
            return self._batch.popleft()
        if self._terminal is None and not self._ended:
            self._accept(await self._subscription.next_batch())
            if self._batch:
                return self._batch.popleft()
        if self._terminal is not None:
            with contextlib.suppress(SessionClosed):  # the agent was closed: there is no gate to wait for
                await self._home.bridge(self._wait_settled, name="stream")
        event = self._last()
        if event is None:
            raise StopAsyncIteration
        return event

    def close(self) -> None:
        """Interrupts the run and waits until the session can be used again; on the home loop it can't wait (use
        ``close_async`` there). Idempotent; does nothing to a run that has ended."""
        self._give_up()
        with contextlib.suppress(Exception):  # a place that can't wait, or a home that has ended: nothing to wait for
            self._home.run(self._wait_settled, name="close")

    async def close_async(self) -> None:
        """``close``, awaitable on any loop."""
        self._give_up()
        if not self._home.loop.is_closed():
            await self._home.bridge(self._wait_settled, name="close")

    aclose = close_async

    def __enter__(self) -> EventStream:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> EventStream:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close_async()

    def _refill(self) -> AgentEvent:
        if self._terminal is None and not self._ended:
            self._accept(self._next_batch())
            if self._batch:
                return self._batch.popleft()
        if self._terminal is not None:
            with contextlib.suppress(SessionClosed):  # the agent was closed: there is no gate to wait for
                self._home.run(self._wait_settled, name="stream")
        event = self._last()
        if event is None:
            raise StopIteration
        return event

    def _next_batch(self) -> list[AgentEvent]:
        try:
            self._home.check_blocking("stream", "async for event in stream")
        except SessionClosed:
            return self._subscription.take()
        try:
            return self._subscription.next_batch_blocking()
        except KeyboardInterrupt:
            self.close()
            raise

    def _accept(self, batch: list[AgentEvent]) -> None:
        """Keeps the terminal event apart: it waits for the gate."""
        if not batch:
            self._ended = True
        elif batch[-1].is_terminal:
            self._terminal = batch.pop()
        self._batch.extend(batch)

    def _last(self) -> AgentEvent | None:
        event, self._terminal = self._terminal, None
        if event is not None or self._ended:
            self._ended = True
            self._dropped.detach()
        return event

    def _give_up(self) -> None:
        self._ended = True
        self._terminal = None
        self._batch.clear()
        self._dropped()

    async def _wait_settled(self) -> None:
        """A failed run is told by its terminal event, not from here."""
        if not self._settled.done():
            await asyncio.wait([self._settled])


def _drop(home: Home, subscription: Subscription, interrupt: Callable[[], object]) -> None:
    """Runs in whatever thread drops the stream, perhaps in the middle of anything: it only leaves word at home."""

    def let_go() -> None:
        subscription.close()
        interrupt()

    home.later(let_go)
