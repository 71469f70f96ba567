"""Keeping a session (durability.md). In: a session with a store. Out: a saved generation of it.

One rule: what needs a store and has none says so.
Known weakness: none known.
"""

from __future__ import annotations

from a3s_code.api.blocking import blocking, bridged
from a3s_code.api.session.detached import Detached
from a3s_code.errors import SessionConfigurationError


class State(Detached):
    @bridged
    async def save_async(self) -> None:
        """Saves the session as it stands, as one generation that ``agent.resume_session`` restores. Raises what the
        store raises, ``SESSION_BUSY`` while another session writes the log, and ``SessionConfigurationError`` without a
        ``session_store``."""
        self._engine.check_open()
        if self._engine.keeper is None:
            raise SessionConfigurationError("save requires a session_store on this session")
        await self._engine.ready()
        await self._engine.keeper.save()

    save = blocking(save_async)
