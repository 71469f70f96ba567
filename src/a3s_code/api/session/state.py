"""A session as a whole (durability.md, facts.md). In: a session. Out: a saved generation of it, a copy, a host's event.

One rule: what needs a store and has none says so.
Known weakness: none known.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from a3s_code.api.blocking import blocking, bridged
from a3s_code.api.session.detached import Detached
from a3s_code.core.content import Json
from a3s_code.core.project import published
from a3s_code.errors import CodeError, SessionConfigurationError

if TYPE_CHECKING:
    from a3s_code.api.session import Session


class State(Detached):
    @bridged
    async def save_async(self) -> None:
        """Saves the session as it stands, as one generation that ``agent.resume_session`` restores. Raises what the
        store raises, ``SESSION_BUSY`` while another session writes the log, and ``SessionConfigurationError`` without a
        ``session_store``."""
        self._engine.check_open()
        if self._engine.keeper is None:
            raise SessionConfigurationError("save requires a session_store on this session")
        await self._engine.hold()
        await self._engine.keeper.save()

    save = blocking(save_async)

    @bridged
    async def fork_async(self, at_seq: int | None = None, session_id: str | None = None) -> Session:
        """A new session with this one's options, whose log is a copy up to fact ``at_seq`` (all of it by default).
        This one stays as it is; a run that was open at that fact is open in the copy. ``StoreError`` when there is no
        such fact, or a log of the new id; ``SESSION_ERROR`` when the store knows that id."""
        if at_seq is not None and (isinstance(at_seq, bool) or not isinstance(at_seq, int) or at_seq < 1):
            raise CodeError(f"at_seq: expected the number of a fact, got {at_seq!r:.60}", "INVALID_REQUEST")
        engine = self._engine
        engine.check_open()
        options = self._options.merged({"session_id": session_id or engine.parts.env.new_id()})
        return await self._agent._fork(self, options, at_seq)

    fork = blocking(fork_async)

    @bridged
    async def publish_event_async(self, event_type: str, payload: Mapping[str, Json] | None = None) -> None:
        """Puts an event on the stream and the record of the run at work. ``passivation_requested`` and
        ``peer_invocation`` are checked, types that the catalogue doesn't have are sent as they are. ``INVALID_REQUEST``
        for a type that is the runtime's own; ``NO_ACTIVE_RUN`` when nobody could hear it."""
        event = published(event_type, {} if payload is None else payload)
        self._engine.check_open()
        run = self._engine.active
        if run is None:
            raise CodeError("publish_event: no run is at work", "NO_ACTIVE_RUN")
        run.emit(event)

    publish_event = blocking(publish_event_async)
