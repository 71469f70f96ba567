"""Keeping this process's leases (durability.md). In: leases. Out: they are renewed, and what is posted to them is told.

One rule: a store has one thread here with a loop of its own, so that a session's busy loop loses no lease; all leases
of a store are renewed in one batch.
Known weakness: a store without ``watch`` is asked each second for what was posted to each session.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import os
import threading
from typing import Final

from a3s_code.errors import LeaseLost
from a3s_code.ports.clock import Clock
from a3s_code.ports.leases import TTL_MS, Asked, Kept, Lost
from a3s_code.ports.store import Lease, SessionStore
from a3s_code.ports.tasks import spawn
from a3s_code.stores.lease import holder_name

_RENEW_S: Final = TTL_MS / 4000
_log = logging.getLogger("a3s_code")


class KeptLease:
    """``asked`` and ``lost`` are called in the thread of its store."""

    def __init__(self, clock: Clock, lease: Lease, begun: float, lost: Lost, asked: Asked) -> None:
        self.lease = lease
        self.lost = lost
        self.asked = asked
        self._clock = clock
        self.renewed(begun)

    def renewed(self, begun: float) -> None:
        self._until = begun + TTL_MS / 1000

    def is_sure(self) -> bool:
        return self._clock.monotonic() < self._until


class Keepalive:
    """``ports.leases.Leases``; one for the process."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._guard = threading.Lock()
        self._keepers: dict[int, _Keeper] = {}
        self._holders: set[str] = set()
        self._pid = os.getpid()
        self._count = itertools.count(1)

    def holder(self) -> str:
        return holder_name(str(next(self._count)))

    def is_ours(self, holder: str) -> bool:
        return holder in self._holders

    def keep(self, store: SessionStore, lease: Lease, begun: float, lost: Lost, asked: Asked) -> KeptLease:
        kept = KeptLease(self._clock, lease, begun, lost, asked)
        with self._guard:
            if self._pid != os.getpid():  # a forked child has none of its parent's threads and leases
                self._keepers, self._holders, self._pid = {}, set(), os.getpid()
            self._holders.add(lease.holder)
            keeper = self._keepers.get(id(store))
            if keeper is None:
                keeper = self._keepers[id(store)] = _Keeper(store, self._clock)
            keeper.kept = [*keeper.kept, kept]
            if keeper.thread is None:
                keeper.thread = threading.Thread(target=self._work, args=(keeper,), name="a3s-code-leases", daemon=True)
                keeper.thread.start()
        return kept

    def let_go(self, kept: Kept) -> None:
        with self._guard:
            self._holders.discard(kept.lease.holder)
            for keeper in self._keepers.values():
                if any(each is kept for each in keeper.kept):
                    keeper.kept = [each for each in keeper.kept if each is not kept]
                    keeper.wake()
                    return

    def _work(self, keeper: _Keeper) -> None:
        """A store whose leases are let go within a second is never asked for anything here."""
        while True:
            if keeper.woken.wait(_RENEW_S):
                keeper.woken.clear()
            elif keeper.kept:
                try:
                    asyncio.run(keeper.renewing())
                except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001  a host's own store may raise anything; it is tried again
                    _log.warning("leases are not renewed: %s: %s", type(error).__name__, error)
            with self._guard:
                if not keeper.kept:
                    self._keepers.pop(id(keeper.store), None)
                    return


class _Keeper:
    """The leases of one store. ``kept`` is replaced, never changed in place."""

    def __init__(self, store: SessionStore, clock: Clock) -> None:
        self.store = store
        self.kept: list[KeptLease] = []
        self.thread: threading.Thread | None = None
        self.woken = threading.Event()
        self._clock = clock
        self._loop: asyncio.AbstractEventLoop | None = None
        self._empty = asyncio.Event()
        self._hears = False

    def wake(self) -> None:
        """Ends the thread soon if nothing is left."""
        if self.kept:
            return
        self.woken.set()
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # it was closed in between
                self._loop.call_soon_threadsafe(self._empty.set)

    async def renewing(self) -> None:
        """Until nothing is kept any more."""
        self._loop, self._empty = asyncio.get_running_loop(), asyncio.Event()
        watching = self.store.capabilities().watch
        listener = spawn(self._listen(), "watching a session store") if watching else None
        settled = False
        try:
            while self.kept:
                await self._renew(self.kept)
                heard = self._hears
                if not (heard and settled):  # what was posted before the watch began is told by nobody
                    await asyncio.gather(*(self._take(kept) for kept in self.kept))
                settled = heard
                await _either(self._empty, _RENEW_S)
                self._empty.clear()  # somebody may have come after the last one had gone
        finally:
            self._loop = None
            if listener is not None:
                listener.cancel()
                await asyncio.wait([listener])

    async def _renew(self, kept: list[KeptLease]) -> None:
        begun = self._clock.monotonic()
        try:
            async with asyncio.timeout(TTL_MS / 1000):
                renewed = await self.store.renew([each.lease for each in kept], TTL_MS)
            pairs = list(zip(kept, renewed, strict=True))
        except Exception as error:  # noqa: BLE001  a host's own store may raise anything; the leases run out by themselves
            _log.warning("leases could not be renewed: %s: %s", type(error).__name__, error)
            return
        for each, lease in pairs:
            if lease is None:
                each.lost(LeaseLost(f"the lease of session {each.lease.session_id!r} is lost: somebody else took it"))
            else:
                each.renewed(begun)

    async def _listen(self) -> None:
        """Takes what is posted as it is told of; a watch that ends is begun anew with the next renewal."""
        while True:
            try:
                async for event in self.store.watch():
                    self._hears = event.kind != "gap"
                    if event.kind == "control.posted":
                        for kept in self.kept:
                            if kept.lease.session_id == event.session_id:
                                await self._take(kept)
            except Exception as error:  # noqa: BLE001  the same
                _log.warning("a session store can't be watched: %s: %s", type(error).__name__, error)
            self._hears = False
            await self._clock.sleep(_RENEW_S)

    async def _take(self, kept: KeptLease) -> None:
        try:
            async with asyncio.timeout(TTL_MS / 1000):
                requests = await self.store.take_control(kept.lease.session_id, kept.lease.epoch)
        except LeaseLost as error:
            kept.lost(error)
        except Exception as error:  # noqa: BLE001  the same
            _log.warning("a control inbox can't be read: %s: %s", type(error).__name__, error)
        else:
            if requests:
                kept.asked(requests)


async def _either(event: asyncio.Event, seconds: float) -> None:
    try:
        await asyncio.wait_for(event.wait(), seconds)
    except TimeoutError:
        return
