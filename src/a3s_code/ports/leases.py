"""The leases of a process (durability.md). In: a lease that a session took. Out: it is renewed until it is let go.

One rule: what is told here is told from another thread: ``lost`` and ``asked`` only pass it on to their own loop.
Known weakness: none known.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Protocol

from a3s_code.errors import LeaseLost
from a3s_code.ports.store import ControlRequest, Lease, SessionStore

TTL_MS: Final = 4000
"""How long a lease is good without being renewed; it is renewed four times in that time."""

Lost = Callable[[LeaseLost], None]
Asked = Callable[[Sequence[ControlRequest]], None]


class Kept(Protocol):
    @property
    def lease(self) -> Lease: ...

    def is_sure(self) -> bool:
        """Whether nobody else can have the lease yet: its last renewal was begun less than its time ago."""


class Leases(Protocol):
    def holder(self) -> str:
        """A new name to take a lease under, which says the process."""

    def is_ours(self, holder: str) -> bool:
        """Whether a session of this process has a lease under this name, and has it renewed."""

    def keep(self, store: SessionStore, lease: Lease, begun: float, lost: Lost, asked: Asked) -> Kept:
        """Renews ``lease``, which was asked for at ``begun`` (monotonic seconds), each second. ``lost`` is told why,
        once, when somebody else has it; ``asked`` gets what is posted to the session's control inbox."""

    def let_go(self, kept: Kept) -> None:
        """Renews it no more; it isn't given back to the store."""
