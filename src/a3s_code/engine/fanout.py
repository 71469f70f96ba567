"""One run's events to all their readers. In: events in order, on the home loop. Out: batches, on any thread or loop.

One rule: every reader gets every event once and exactly one terminal event, its last; deltas may come merged.
Known weakness: a tool's output that nobody waits for (``emit`` can't) is left out, with a mark in its place, for a
reader that is more than 4,096 events or 16 MiB behind; the tool's result holds what counts.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import TypeAlias

from a3s_code.core.events.catalogue import DELTA_FIELDS, TERMINAL_TYPES, EventType
from a3s_code.core.events.envelope import AgentEvent, with_text
from a3s_code.core.events.growing import GrowingDelta, delta_bytes
from a3s_code.engine.recorder import EventRecorder

Waker: TypeAlias = Callable[[], None]

MERGE_FROM = 256
FULL_EVENTS = MERGE_FROM + 1024
FULL_BYTES = 4 * 1024 * 1024
HARD_EVENTS = 4096
HARD_BYTES = 16 * 1024 * 1024
DELTA_LIMIT = 64 * 1024
_NOBODY: list[Waker] = []
OMITTED = "\n[… output left out of this stream: its reader is too slow …]\n"


class Subscription:
    """One reader's place in a run. ``gap`` says that events after its starting cursor were no longer kept.

    ``take`` and the two ``next_batch`` may be called from any thread or loop; an empty batch is the end.
    """

    def __init__(self, fanout: Fanout, backlog: list[AgentEvent], *, gap: bool, ended: bool) -> None:
        self.gap = gap
        self._fanout = fanout
        self._lock = threading.RLock()  # reentrant: a finaliser that runs inside may close this very subscription
        self._buffer: list[AgentEvent | GrowingDelta] = list(backlog)
        self._bytes = 0
        self._omitting = False
        self._ended = ended
        self._wakers: list[Waker] = []

    @property
    def full(self) -> bool:
        """So far behind that the run should wait."""
        return len(self._buffer) > FULL_EVENTS or self._bytes > FULL_BYTES

    def push(self, event: AgentEvent) -> None:
        """Called by the fan-out, on the home loop."""
        with self._lock:
            if self._ended:
                return
            if event.type in DELTA_FIELDS:
                self._push_delta(event)
            else:
                self._buffer.append(event)
                self._ended = event.type in TERMINAL_TYPES
            wakers = _NOBODY
            if self._wakers:
                wakers, self._wakers = self._wakers, []
        for wake in wakers:
            wake()

    def _push_delta(self, event: AgentEvent) -> None:
        buffer = self._buffer
        if event.type == EventType.TOOL_OUTPUT_DELTA and (
            self._omitting or len(buffer) > HARD_EVENTS or self._bytes > HARD_BYTES
        ):
            if not self._omitting:
                buffer.append(with_text(event, OMITTED))
            self._omitting = True
            return
        self._bytes += delta_bytes(event)
        if len(buffer) < MERGE_FROM:
            buffer.append(event)
            return
        last = buffer[-1]
        if isinstance(last, GrowingDelta) and last.takes(event):
            last.add(event)
        else:
            buffer.append(GrowingDelta(event, DELTA_LIMIT))

    def take(self) -> list[AgentEvent]:
        """Everything that waits, without waiting."""
        with self._lock:
            taken, self._buffer = self._buffer, []
            self._bytes = 0
            self._omitting = False
        self._fanout.eased()
        return [e for item in taken if (e := item.event() if isinstance(item, GrowingDelta) else item) is not None]

    @property
    def ended(self) -> bool:
        """Whether nothing will come any more."""
        return self._ended and not self._buffer

    async def next_batch(self) -> list[AgentEvent]:
        """Waits until there is something, on whatever loop is running. Empty at the end."""
        loop = asyncio.get_running_loop()
        while not (batch := self.take()) and not self.ended:
            future: asyncio.Future[None] = loop.create_future()
            wake = _loop_waker(loop, future)
            if self._watch(wake):
                try:
                    await future
                finally:
                    self._forget(wake)
        return batch

    def next_batch_blocking(self) -> list[AgentEvent]:
        """The same for a thread; a signal handler may interrupt the wait."""
        while not (batch := self.take()) and not self.ended:
            signal = threading.Lock()
            signal.acquire()
            wake = signal.release
            if self._watch(wake):
                try:
                    signal.acquire()
                finally:
                    self._forget(wake)
        return batch

    def close(self) -> None:
        """Gives the place up: what waits is dropped, whoever waits gets the end. Safe from any thread."""
        with self._lock:
            self._ended = True
            self._buffer = []
            self._bytes = 0
            wakers, self._wakers = self._wakers, []
        self._fanout.detach(self)
        for wake in wakers:
            wake()

    def end(self) -> None:
        """Nothing more will come; what waits can still be read."""
        with self._lock:
            self._ended = True
            wakers, self._wakers = self._wakers, []
        for wake in wakers:
            wake()

    def _watch(self, wake: Waker) -> bool:
        with self._lock:
            if self._buffer or self._ended:
                return False
            self._wakers.append(wake)
            return True

    def _forget(self, wake: Waker) -> None:
        with self._lock:
            if wake in self._wakers:
                self._wakers.remove(wake)


class Fanout:
    """Broadcasts one run. ``publish`` never waits; a producer that can calls ``flow`` when ``congested`` is set."""

    def __init__(self, recorder: EventRecorder) -> None:
        self.recorder = recorder
        self.congested = False
        self.terminal: AgentEvent | None = None
        self._over = False
        self._lock = threading.RLock()
        self._readers: tuple[Subscription, ...] = ()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiting: list[asyncio.Future[None]] = []

    def publish(self, event: AgentEvent) -> bool:
        """Gives ``event`` to every reader. After the terminal event nothing is published any more: ``False``."""
        if self._over:
            return False
        self.recorder.add(event)
        if event.type in TERMINAL_TYPES:
            self.terminal = event
            self._over = True
        for reader in self._readers:
            reader.push(event)
            if reader.full:
                self.congested = True
        if self._over:
            self._readers = ()
            self.eased()
        return True

    @property
    def has_readers(self) -> bool:
        return bool(self._readers)

    def tell(self, event: AgentEvent) -> None:
        """Gives an event that is not kept to whoever reads now."""
        for reader in self._readers:
            reader.push(event)

    def end(self) -> None:
        """Ends all readers of a run that goes without a terminal event (its session was closed under it)."""
        self._over = True
        readers, self._readers = self._readers, ()
        for reader in readers:
            reader.end()
        self.eased()

    def subscribe(self, after: int | None = None) -> Subscription:
        """A reader of what comes now; with ``after``, of what is kept above that sequence first. Home loop only.

        A reader who comes after the end gets what is kept; without a cursor, only the terminal event.
        """
        if after is None:
            backlog = [self.terminal] if self.terminal is not None else []
            return self._attach(backlog, gap=False)
        backlog = self.recorder.events(after)
        last = self.terminal
        if last is not None and last.sequence > after and (not backlog or backlog[-1].type not in TERMINAL_TYPES):
            backlog.append(last)
        return self._attach(backlog, gap=self.recorder.gap(after))

    def _attach(self, backlog: list[AgentEvent], *, gap: bool) -> Subscription:
        reader = Subscription(self, backlog, gap=gap, ended=self._over)
        if not self._over:
            with self._lock:
                self._readers = (*self._readers, reader)
        return reader

    def detach(self, reader: Subscription) -> None:
        """Safe from any thread; a producer that waited for this reader goes on."""
        with self._lock:
            self._readers = tuple(other for other in self._readers if other is not reader)
        self.eased()

    async def flow(self) -> None:
        """Waits while a reader is too far behind: over 1,024 events that can't be merged, or 4 MiB of text."""
        self._loop = asyncio.get_running_loop()
        while self.congested:
            if not any(reader.full for reader in self._readers):
                self.congested = False
                return
            waiter: asyncio.Future[None] = self._loop.create_future()
            self._waiting.append(waiter)
            await waiter

    def eased(self) -> None:
        """A reader took its batch or went away. Safe from any thread."""
        if self.congested and self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the home loop is closed: nobody waits any more
                self._loop.call_soon_threadsafe(self._release)

    def _release(self) -> None:
        waiting, self._waiting = self._waiting, []
        for waiter in waiting:
            if not waiter.done():
                waiter.set_result(None)


def _loop_waker(loop: asyncio.AbstractEventLoop, future: asyncio.Future[None]) -> Waker:
    def resolve() -> None:
        if not future.done():
            future.set_result(None)

    def wake() -> None:
        if asyncio._get_running_loop() is loop:
            resolve()
        else:
            with contextlib.suppress(RuntimeError):  # the reader's loop is closed: nobody waits any more
                loop.call_soon_threadsafe(resolve)

    return wake
