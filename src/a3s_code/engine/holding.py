"""Who may write a session (durability.md, ``acquire_lease``). In: a store that fences. Out: an epoch for every write.

One rule: a session writes nothing before it has the lease, and nothing after it has lost it; while the store can't be
reached for so long that somebody else may have the lease, no further step is begun.
Known weakness: a call that is at work when the lease runs out goes on until that is known.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Final, Protocol, TypeVar

from a3s_code.engine.token import CancelToken
from a3s_code.errors import LeaseLost, SessionBusy, SessionClosed
from a3s_code.ports.clock import Clock
from a3s_code.ports.leases import TTL_MS, Kept, Leases
from a3s_code.ports.store import ControlRequest, Epoch, Lease, SessionStore

_LOOK_AGAIN_S: Final = 0.2
_PATIENCE_S: Final = TTL_MS / 1000 + 1
"""How long a lease is waited out that belongs to nobody we know to live."""

T = TypeVar("T")
RELEASE_S: Final = 5.0
"""How long a closing session waits for a store that doesn't answer: its lease runs out by itself."""

_log = logging.getLogger("a3s_code")


class Holder(Protocol):
    """A session, which is told on its home loop."""

    token: CancelToken

    def lost(self, error: LeaseLost) -> None: ...

    def asked(self, requests: Sequence[ControlRequest]) -> None: ...


class Holding:
    """The lease of one session, on its home loop. ``leases`` is ``None`` for a store that doesn't fence."""

    def __init__(self, session_id: str, store: SessionStore, leases: Leases | None, clock: Clock) -> None:
        self._session_id = session_id
        self._store = store
        self._leases = leases if store.capabilities().lease_fencing else None
        self._clock = clock
        self._kept: Kept | None = None
        self.error: LeaseLost | None = None

    @property
    def epoch(self) -> Epoch:
        """For every write; ``None`` for a store that doesn't fence. ``LeaseLost`` once it was lost, ``SessionClosed``
        once it was given back."""
        self.check()
        if self._leases is None:
            return None
        if self._kept is None:
            raise SessionClosed(f"Session '{self._session_id}' is closed")
        return self._kept.lease.epoch

    def check(self) -> None:
        """``LeaseLost`` once it was lost."""
        if self.error is not None:
            raise self.error

    async def taken(self, holder: Holder) -> bool:
        """Whether the lease was taken just now; ``False`` when it was held already, or when there is none to take.
        ``SessionBusy`` names who has it, unless that one's time runs out meanwhile."""
        self.check()
        if self._leases is None or self._kept is not None:
            return False
        name = self._leases.holder()
        waited_from = self._clock.monotonic()
        seen = 0
        while True:
            begun = self._clock.monotonic()
            try:
                lease = await self._store.acquire_lease(self._session_id, name, TTL_MS)
            except SessionBusy as busy:
                renewed = seen not in (0, busy.until_ms)
                if renewed or self._leases.is_ours(busy.holder) or begun - waited_from > _PATIENCE_S:
                    raise
                seen = busy.until_ms
                await holder.token.guard(self._clock.sleep(_LOOK_AGAIN_S))
                continue
            loop = asyncio.get_running_loop()
            lost, asked = partial(_there, loop, holder.lost), partial(_there, loop, holder.asked)
            self._kept = self._leases.keep(self._store, lease, begun, lost, asked)
            return True

    def is_sure(self) -> bool:
        return self._kept is None or self._kept.is_sure()

    async def made_sure(self, token: CancelToken, left: Callable[[], bool]) -> None:
        """Returns once the lease was renewed, or the run is ``left``; raises ``Interrupted`` when it ends meanwhile,
        also because the lease is lost."""
        while not self.is_sure() and not left():
            await token.guard(self._clock.sleep(_LOOK_AGAIN_S))

    def lose(self, error: LeaseLost) -> bool:
        """Nothing is written any more; ``False`` when that was known."""
        if self.error is not None or self._kept is None:
            return False
        self.error = error
        self._let_go()
        return True

    def release(self) -> Coroutine[None, None, None]:
        """Gives the lease back, so that another node need not wait. It is renewed no more from now on, also when the
        loop ends before it is given back."""
        return self._given_back(self._let_go())

    async def _given_back(self, lease: Lease | None) -> None:
        if lease is None:
            return
        try:
            async with asyncio.timeout(RELEASE_S):
                await self._store.release(lease)
        except Exception as error:  # noqa: BLE001  the store may be a host's own; the lease runs out by itself
            _log.warning("session %s: its lease was not given back: %s", self._session_id, error)

    @property
    def fences(self) -> bool:
        """Whether there is a lease to hold."""
        return self._leases is not None

    def is_held(self) -> bool:
        """Whether nothing has to be waited for before the session may write."""
        return self._leases is None or self._kept is not None

    def _let_go(self) -> Lease | None:
        kept, self._kept = self._kept, None
        if kept is None or self._leases is None:
            return None
        self._leases.let_go(kept)
        return kept.lease


def _there(loop: asyncio.AbstractEventLoop, tell: Callable[[T], None], what: T) -> None:
    """Tells it on the session's own loop; one that was closed has nobody to tell."""
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(tell, what)
