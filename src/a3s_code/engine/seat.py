"""A session's place among those that may write it. In: a call that is about to write. Out: lease, log and inbox.

One rule: who takes the lease takes in what was posted before it does anything else; who loses it writes nothing more.
Known weakness: none known.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from a3s_code.engine.inbox import Inbox
from a3s_code.engine.persistence import Persistence
from a3s_code.errors import LeaseLost, SessionBusy
from a3s_code.ports.store import ControlRequest
from a3s_code.ports.tasks import spawn

if TYPE_CHECKING:
    from a3s_code.engine.session import EngineSession


class Seat:
    """One a session with a store; a ``holding.Holder``."""

    def __init__(self, session: EngineSession) -> None:
        self._session = session
        self.token = session.token
        self.keeper = Persistence(
            session.parts, session.writer, session.book, session.kernel.results.artifacts, holder=self
        )
        self.inbox = Inbox(session, self.keeper)

    async def taken(self, *, resuming: bool) -> None:
        """Has the lease. With ``resuming`` what was posted for a run at work waits for ``inbox.deliver``."""
        if await self.keeper.hold():
            taking = spawn(self.inbox.taken_over(resuming=resuming), "taking over an inbox")
            await asyncio.shield(taking)  # a caller that gives up must not leave it half read

    async def is_alone(self) -> bool:
        """Whether nobody is at work on the session, here or elsewhere: then this session has its lease."""
        if self._session.busy or not self.keeper.holding.fences:
            return False
        try:
            await self._session.hold()
        except SessionBusy:
            return False
        return True

    def asked(self, requests: Sequence[ControlRequest]) -> None:
        self.inbox.add(requests)

    def lost(self, error: LeaseLost) -> None:
        """Another node has the session by now: the run at work ends, and its log stays as it is."""
        if not self.keeper.holding.lose(error):
            return
        self._session.writer.refuse(error)
        run = self._session.active
        if run is not None:
            run.left = error
            run.token.cancel("the lease was lost")
