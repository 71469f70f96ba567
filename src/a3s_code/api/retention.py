"""The end of sessions (durability.md). In: a session's id, or limits. Out: what was deleted, and what was kept and why.

One rule: a session goes under its lease and its log's lock, so nothing goes that somebody works on. Unless forced none
goes in which a run is open, however old, and a limit takes none that has something unsaved.
Known weakness: a session that was never saved is in no listing, and logs on other machines stay: ``delete_session``
takes the one, and the others where they are.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncIterator, Callable, Collection
from typing import Final, Literal, TypeAlias

import msgspec

from a3s_code.api.blocking import Home
from a3s_code.core.content import JsonObject
from a3s_code.core.documents import SessionEntry, SessionSnapshot
from a3s_code.core.fold import fold
from a3s_code.core.state import View
from a3s_code.errors import CodeError, LeaseLost, SessionBusy, SessionConfigurationError, StoreError
from a3s_code.ports.store import SessionStore
from a3s_code.stores.discarding import discard_log
from a3s_code.stores.factlog import log_path
from a3s_code.stores.lease import holder_name
from a3s_code.stores.logfile import read_log
from a3s_code.system.clock import SystemClock, SystemEntropy
from a3s_code.workspace.local import LocalWorkspace

_LEASE_MS: Final = 15_000
"""After that somebody else may take the session, and the store refuses the deletion."""

_PAGE: Final = 500
_OPEN: Final = ("parked", "running")

Reason: TypeAlias = Literal["live", "held", "open_run", "unsaved", "failed"]


class _Kept(Exception):
    """Why a session stays."""

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason


class Limits(msgspec.Struct, frozen=True):
    """What may stay; ``None`` is no limit."""

    max_age_ms: int | None
    max_sessions: int | None
    max_bytes: int | None

    def check(self) -> None:
        given = {name: value for name in self.__struct_fields__ if (value := getattr(self, name)) is not None}
        if not given:
            raise CodeError("prune_sessions needs max_age_ms, max_sessions or max_bytes", "INVALID_REQUEST")
        for name, value in given.items():
            if type(value) is not int or value < 0:
                raise CodeError(f"{name} must be a whole number, 0 or more, not {value!r}", "INVALID_REQUEST")

    def passed(self, entry: SessionEntry, now_ms: int, sessions: int, stored_bytes: int) -> str | None:
        """The limit that wants the session gone while so many are there."""
        if self.max_age_ms is not None and entry.saved_ms < now_ms - self.max_age_ms:
            return "max_age_ms"
        if self.max_sessions is not None and sessions > self.max_sessions:
            return "max_sessions"
        if self.max_bytes is not None and stored_bytes > self.max_bytes:
            return "max_bytes"
        return None


class _Found(msgspec.Struct):
    """What is there of a session. ``root`` is the workspace that may have its log, on this machine or another;
    ``log_seq`` is the last fact there, ``fault`` what can't be read."""

    root: str | None
    snapshot: SessionSnapshot | None = None
    open_run: str | None = None
    log_seq: int = 0
    fault: StoreError | None = None

    def refuse_open(self, session_id: str) -> None:
        if self.fault is not None:
            raise self.fault
        if self.open_run is not None:
            raise _Kept("open_run", f"run {self.open_run!r} of session {session_id!r} is open")

    def refuse_unsaved(self, entry: SessionEntry) -> None:
        if self.snapshot is None:
            return
        if self.snapshot.digest != entry.digest:
            raise _Kept("unsaved", f"session {entry.session_id!r} was saved again meanwhile")
        mark = self.snapshot.mark
        if self.log_seq > (mark.seq if mark else 0):
            raise _Kept("unsaved", f"the log in {self.root} goes on after what was saved")


class Retention:
    """Of one agent; ``live`` gives the ids of its live sessions."""

    def __init__(self, home: Home, live: Callable[[], Collection[str]], store: SessionStore | None) -> None:
        self._home = home
        self._live = live
        self._store = store

    async def delete(self, session_id: str, workspace: str | os.PathLike[str] | None, *, force: bool) -> bool:
        """``Agent.delete_session``."""
        root = None if workspace is None else LocalWorkspace(os.fspath(workspace)).root
        if self._store is None and root is None:
            raise SessionConfigurationError("delete_session needs a session_store or a workspace")
        try:
            async with self._held(session_id) as epoch:
                found = await self._look(session_id, root)
                if not force:
                    found.refuse_open(session_id)
                return await self._remove(session_id, found.root, epoch)
        except _Kept as kept:
            advice = "; force=True deletes it all the same" if kept.reason == "open_run" else ""
            raise SessionBusy(f"{kept}{advice}") from kept

    async def prune(self, limits: Limits, tenant_id: str | None, *, dry_run: bool) -> list[JsonObject]:
        """``Agent.prune_sessions``."""
        limits.check()
        if self._store is None:
            raise SessionConfigurationError("prune_sessions needs a session_store")
        entries = await _listed(self._store, tenant_id)
        sessions, stored_bytes = len(entries), sum(entry.stored_bytes for entry in entries)
        now_ms = SystemClock().now_ms()
        report: list[JsonObject] = []
        for entry in entries:
            limit = limits.passed(entry, now_ms, sessions, stored_bytes)
            if limit is None:
                break  # the others are younger, and all of them may stay
            kept = await self._prune(entry, dry_run=dry_run)
            if kept is None:
                sessions, stored_bytes = sessions - 1, stored_bytes - entry.stored_bytes
            report.append(_line(entry, limit, kept))
        return report

    async def _prune(self, entry: SessionEntry, *, dry_run: bool) -> _Kept | None:
        try:
            async with self._held(entry.session_id) as epoch:
                found = await self._look(entry.session_id, None)
                found.refuse_open(entry.session_id)
                found.refuse_unsaved(entry)
                if not dry_run:
                    await self._remove(entry.session_id, found.root, epoch)
        except _Kept as kept:
            return kept
        except CodeError as error:  # one session that can't go must not keep the others
            return _Kept("held" if isinstance(error, SessionBusy | LeaseLost) else "failed", str(error))
        return None

    @contextlib.asynccontextmanager
    async def _held(self, session_id: str) -> AsyncIterator[int | None]:
        """The session's lease, so that nobody begins to work on it; ``None`` without a store."""
        self._refuse_live(session_id)
        if self._store is None:
            yield None
            return
        holder = holder_name(f"delete-{SystemEntropy().new_id()}")
        lease = await self._store.acquire_lease(session_id, holder, _LEASE_MS)
        try:
            yield lease.epoch
        finally:
            with contextlib.suppress(StoreError):  # what was done is done, and the lease runs out
                await self._store.release(lease)

    async def _look(self, session_id: str, root: str | None) -> _Found:
        found = _Found(root)
        try:
            if self._store is not None:
                await self._look_into(self._store, session_id, found)
            if found.root is not None:
                await self._home.in_thread(_read_log, found, log_path(found.root, session_id))
        except StoreError as error:
            found.fault = error
        return found

    async def _look_into(self, store: SessionStore, session_id: str, found: _Found) -> None:
        found.snapshot = await store.load_snapshot(session_id)
        checkpoints = await store.list_checkpoints(session_id)
        runs = found.snapshot.runs if found.snapshot else []
        opened = [str(run["id"]) for run in runs if run.get("status") in _OPEN]
        opened += [header.run_id for header in checkpoints]
        found.open_run = opened[0] if opened else None
        if found.root is None and found.snapshot is not None and os.path.isabs(found.snapshot.workspace):
            found.root = found.snapshot.workspace

    async def _remove(self, session_id: str, root: str | None, epoch: int | None) -> bool:
        """The log first: what the store keeps is what finds the session again if this ends in between."""
        self._refuse_live(session_id)
        log = root is not None and await self._home.in_thread(discard_log, root, session_id)
        stored = self._store is not None and await self._store.delete_session(session_id, epoch=epoch)
        return bool(log or stored)

    def _refuse_live(self, session_id: str) -> None:
        if session_id in self._live():
            raise _Kept("live", f"session {session_id!r} is live in this agent: close it first")


def _read_log(found: _Found, path: str) -> None:
    if not os.path.exists(path):
        return
    view = View()
    for line in read_log(path):
        view = fold(view, line.fact)
    found.log_seq = view.seq
    if view.run is not None:
        found.open_run = view.run.id


async def _listed(store: SessionStore, tenant_id: str | None) -> list[SessionEntry]:
    """All sessions, the one saved longest ago first."""
    found: list[SessionEntry] = []
    after = None
    while page := await store.list_sessions(tenant_id, after, _PAGE):
        found += page
        after = page[-1].session_id
    return sorted(found, key=lambda entry: (entry.saved_ms, entry.session_id))


def _line(entry: SessionEntry, limit: str, kept: _Kept | None) -> JsonObject:
    return {
        "session_id": entry.session_id,
        "tenant_id": entry.tenant_id,
        "saved_ms": entry.saved_ms,
        "stored_bytes": entry.stored_bytes,
        "limit": limit,
        "deleted": kept is None,
        "reason": None if kept is None else kept.reason,
        "detail": None if kept is None else str(kept),
    }
