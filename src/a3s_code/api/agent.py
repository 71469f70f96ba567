"""An agent: configuration, providers and live sessions. In: ACL text, a path or a mapping. Out: sessions.

One rule: an agent and its sessions live on one event loop, its home.
Known weakness: a session dropped without ``close()`` is only cleaned up when Python collects it.
"""

from __future__ import annotations

import logging
import os
import threading
import weakref
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any

from a3s_code.api.blocking import Home, blocking, bridged
from a3s_code.api.options import SessionOptions
from a3s_code.api.posting import post, request_of
from a3s_code.api.session import Session
from a3s_code.api.session.core import SessionCore
from a3s_code.api.storing import resumed, store_of
from a3s_code.api.wiring import Shared, build, fork_log
from a3s_code.config.load import config_from_mapping, load_config
from a3s_code.config.model import CodeConfig
from a3s_code.core.content import JsonObject
from a3s_code.engine.session import EngineSession
from a3s_code.engine.stored import stored_session
from a3s_code.errors import CodeError, SessionClosed, SessionConfigurationError
from a3s_code.ports.store import SessionStore

if TYPE_CHECKING:
    from a3s_code.api.retention import Retention

_log = logging.getLogger("a3s_code")
Source = str | os.PathLike[str]
Config = Mapping[str, Any] | CodeConfig


class Agent:
    """``Agent.create(...)`` or ``await Agent.create_async(...)``; a context manager in both faces. See api.md."""

    def __init__(self, config: CodeConfig, home: Home) -> None:
        self._home = home
        self._shared = Shared(config, home, os.environ)
        self._live: dict[int, weakref.ref[Session]] = {}
        self._lock = threading.Lock()
        self._closed = False

    @classmethod
    def create(cls, source: Source) -> Agent:
        """An agent with a private loop thread. ``source`` is ACL text, or the path of an ``.acl`` file (a ``Path``, or
        one line ending in ``.acl``). ``ConfigError`` names file, line and column."""
        return cls(load_config(source, environ=os.environ), Home.private())

    @classmethod
    async def create_async(cls, source: Source) -> Agent:
        """The same with the caller's loop as its home: no thread, no hop."""
        return cls(load_config(source, environ=os.environ), Home.current())

    @classmethod
    def create_from_config(cls, config: Config) -> Agent:
        """Like ``create``, from a mapping of the form in providers.md, or a ``CodeConfig``."""
        return cls(config_from_mapping(config, environ=os.environ), Home.private())

    @classmethod
    async def create_from_config_async(cls, config: Config) -> Agent:
        """The same with the caller's loop as its home."""
        return cls(config_from_mapping(config, environ=os.environ), Home.current())

    def session(
        self, workspace: Source, options: SessionOptions | Mapping[str, Any] | None = None, **overrides: Any
    ) -> Session:
        """A session on ``workspace``; ``overrides`` are options and win. A ``session_id`` whose log is in the workspace
        goes on from there, and one that its store knows as by ``resume_session``. ``SessionConfigurationError`` names
        the option, before any I/O."""
        self._home.check_blocking("session")
        given = self._given(options, overrides)
        if self._to_look_up(given) is None:
            return self._session(workspace, given)
        return self._home.run(lambda: self._continued(workspace, given), name="session")

    async def session_async(
        self, workspace: Source, options: SessionOptions | Mapping[str, Any] | None = None, **overrides: Any
    ) -> Session:
        """The same on any loop; only a look into a store waits."""
        self._home.check_alive("session_async")
        given = self._given(options, overrides)
        if self._to_look_up(given) is None:
            return self._session(workspace, given)
        return await self._home.bridge(lambda: self._continued(workspace, given), name="session_async")

    @bridged
    async def resume_session_async(
        self, /, session_id: str, options: SessionOptions | Mapping[str, Any] | None = None, **overrides: Any
    ) -> Session:
        """The session that was saved under this id, on the workspace it had. Options that are given win, the others
        come from what was saved; code (tools, hooks, guards) has to be given again. ``SESSION_ERROR`` for an id that
        the store doesn't know."""
        given = self._given(options, {**overrides, "session_id": session_id})
        store = self._to_look_up(given)
        if store is None:
            raise SessionConfigurationError("session option 'session_store': resume_session needs a store to read")
        snapshot, last = await stored_session(store, session_id)
        stored = snapshot or last
        if stored is None:
            raise CodeError(f"no saved session '{session_id}' in the session store", "SESSION_ERROR")
        session = self._session(stored.workspace, resumed(given, stored))
        await session._restore(snapshot, last)
        return session

    resume_session = blocking(resume_session_async)

    @bridged
    async def replace_session_async(
        self, /, session: Session, options: SessionOptions | Mapping[str, Any] | None = None, **overrides: Any
    ) -> Session:
        """The idle ``session``, saved and set up anew under its id with ``options``; what they leave unset stays as it
        is. When that fails ``session`` stays live, else it is closed. ``SESSION_BUSY`` while it works."""
        given = self._given(options, overrides)
        if given.session_id not in (None, session.session_id):
            raise SessionConfigurationError("session option 'session_id': replace_session keeps the session's id")
        keeper = session._engine.keeper
        if keeper is None:
            raise SessionConfigurationError("replace_session requires a session_store on this session")
        wanted = {name: value for name, value in given.given().items() if value is not None or name != "session_store"}
        with session._engine.held("replace_session"):
            await session._engine.hold()
            snapshot = await keeper.take()
            await keeper.store.save_snapshot(snapshot, keeper.holding.epoch)
            replacing = self._session(
                session.workspace, session._options.merged({**wanted, "session_id": session.session_id})
            )
            await replacing._restore(snapshot)
        await session._end("replaced")
        return replacing

    replace_session = blocking(replace_session_async)

    @bridged
    async def post_control_async(
        self,
        session_id: str,
        request: Mapping[str, Any],
        *,
        session_store: SessionStore | None = None,
        wait_ms: int = 0,
    ) -> JsonObject:
        """Asks something of a session, whichever process or node holds it; nothing here has to know where that is.

        ``request``: ``kind`` and what the method of that name takes: ``confirm`` (``tool_id``, ``approved``,
        ``reason``), ``answer`` (``tool_id``, ``answer``), ``steer`` (``text``, ``options``), ``interrupt``
        (``options``) or ``passivate`` (``deadline_ms``); with a ``request_id`` the same request can be posted again.
        Gives the receipt (api.md, *Run control*) with the holder's ``detail``; its state is ``posted`` while nobody has
        answered within ``wait_ms``. Without a holder an answer is kept until the session's next ``send`` or
        ``resume_run``; a steer and an interrupt are for a run at work, or the one that is resumed.
        ``INVALID_REQUEST``, ``DUPLICATE_REQUEST``, ``QUEUE_FULL`` (64 wait), ``StoreError``."""
        store = store_of(self._shared.config, self._shared.store, SessionOptions(session_store=session_store))
        if store is None:
            raise SessionConfigurationError("post_control requires a session_store, which the session has too")
        if isinstance(wait_ms, bool) or not isinstance(wait_ms, int) or wait_ms < 0:
            raise CodeError(f"wait_ms: expected milliseconds, 0 or more, got {wait_ms!r:.60}", "INVALID_REQUEST")
        asked = request_of(request, self._shared.entropy.new_id(), self._shared.clock.now_ms())
        return await post(store, session_id, asked, wait_ms, self._shared.clock)

    post_control = blocking(post_control_async)

    def list_sessions(self) -> list[str]:
        """The ids of live sessions, sorted, each once."""
        return sorted({session.session_id for session in self._sessions()})

    @bridged
    async def close_session_async(self, session_id: str) -> bool:
        """Closes whatever is live under the id; true if anything was."""
        found = [session for session in self._sessions() if session.session_id == session_id]
        for session in found:
            await session.close_async()
        return bool(found)

    close_session = blocking(close_session_async)

    @bridged
    async def delete_session_async(
        self,
        session_id: str,
        *,
        workspace: Source | None = None,
        session_store: SessionStore | None = None,
        force: bool = False,
    ) -> bool:
        """Deletes what the store (the agent's, unless given) keeps of a session, and its log in ``workspace`` or, left
        out, in the workspace it was saved with, if that is a directory here; whether there was anything.
        ``SESSION_BUSY`` while the session is live here or somebody works on it and, without ``force``, while a run of
        it is open, which it names; ``force`` deletes damaged sessions too."""
        return await self._retention(session_store).delete(session_id, workspace, force=force)

    delete_session = blocking(delete_session_async)

    @bridged
    async def prune_sessions_async(
        self,
        *,
        max_age_ms: int | None = None,
        max_sessions: int | None = None,
        max_bytes: int | None = None,
        tenant_id: str | None = None,
        session_store: SessionStore | None = None,
        dry_run: bool = False,
    ) -> list[JsonObject]:
        """Deletes saved sessions (of a tenant), the one saved longest ago first, until the limits hold; ``dry_run``
        only says what would go. One dict for each session that a limit wanted gone: ``session_id``, ``tenant_id``,
        ``saved_ms``, ``stored_bytes``, ``limit``, ``deleted`` and, for one that stays, ``reason`` (``live``, ``held``,
        ``open_run``, ``unsaved``, ``failed``) and ``detail``."""
        from a3s_code.api.retention import Limits  # few programs delete sessions

        limits = Limits(max_age_ms, max_sessions, max_bytes)
        return await self._retention(session_store).prune(limits, tenant_id, dry_run=dry_run)

    prune_sessions = blocking(prune_sessions_async)

    def is_closed(self) -> bool:
        """Whether ``close`` has begun."""
        return self._closed

    @bridged
    async def close_async(self) -> None:
        """Closes every session and the connections. Idempotent; afterwards opening is ``SessionClosed``."""
        self._closed = True
        for session in self._sessions():
            await session._end("agent_closed")
        await self._shared.aclose()
        self._home.end_workers()

    def close(self) -> None:
        """``close_async``, and the end of the private loop thread."""
        if not self._closed:
            self._home.run(self.close_async, name="close")
        if self._home.is_private:
            self._home.close()

    def _retention(self, store: SessionStore | None) -> Retention:
        if self._closed:
            raise SessionClosed("The agent is closed")
        from a3s_code.api.retention import Retention  # the same

        return Retention(self._home, self.list_sessions, store or self._shared.store)

    def _given(
        self, options: SessionOptions | Mapping[str, Any] | None, overrides: Mapping[str, Any]
    ) -> SessionOptions:
        if self._closed:
            raise SessionClosed("The agent is closed")
        given = SessionOptions.of(options)
        return given.merged(overrides) if overrides else given

    def _to_look_up(self, given: SessionOptions) -> SessionStore | None:
        """The store that may know the session; checks the options first, so that a wrong one costs no I/O."""
        if given.session_id is None or (given.session_store is None and self._shared.store is None):
            return None
        return store_of(self._shared.config, self._shared.store, given.validate())

    async def _fork(self, source: SessionCore, options: SessionOptions, at_seq: int | None) -> Session:
        store, session_id = self._to_look_up(options), options.session_id
        assert session_id is not None
        if store is not None and await store.load_snapshot(session_id) is not None:
            raise CodeError(f"the session store has a session '{session_id}' already", "SESSION_ERROR")
        await self._home.in_thread(fork_log, source._engine, session_id, at_seq)
        return self._session(source.workspace, options)

    async def _continued(self, workspace: Source, given: SessionOptions) -> Session:
        store = self._to_look_up(given)
        assert store is not None
        assert given.session_id is not None
        snapshot, last = await stored_session(store, given.session_id)
        stored = snapshot or last
        session = self._session(workspace, given if stored is None else resumed(given, stored))
        if stored is not None:
            await session._restore(snapshot, last)
        return session

    def _session(self, workspace: Source, given: SessionOptions) -> Session:
        built = build(self._shared, workspace, given)
        session = Session(self, self._home, built, given)
        key = id(built.engine)
        weakref.finalize(session, _dropped, self._home, built.engine).atexit = False
        with self._lock:
            self._live[key] = weakref.ref(session, lambda _: self._live.pop(key, None))
        return session

    def _sessions(self) -> list[Session]:
        with self._lock:
            live = [reference() for reference in self._live.values()]
        return [session for session in live if session is not None]

    def _forget(self, session: Session) -> None:
        self._live.pop(id(session._engine), None)

    def __enter__(self) -> Agent:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Agent:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close_async()

    def __repr__(self) -> str:
        return f"Agent({'closed' if self._closed else 'open'}, {len(self._live)} live sessions)"


def _dropped(home: Home, engine: EngineSession) -> None:
    """A session went away without ``close()``: its lock and descriptor are given back. No run of it is at work, as that
    would hold it."""
    if engine.closed:
        return
    _log.debug("session %s was dropped without close()", engine.parts.session_id)
    home.later(engine.dropped)
