"""Sessions wherever they are. In: a workspace and perhaps a store. Out: what log and store say of each session.

One rule: nothing is written, no lock and no lease is taken; a document that can't be read is told and hides no other.
Known weakness: whether a lease has run out is judged by this machine's clock.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final, Literal

import msgspec

from a3s_code.cli.found import SHORTEST_PREFIX, Found, id_of, logs_in, read_session, read_view, sessions_in
from a3s_code.cli.setup import notice
from a3s_code.cli.stores import Chosen, CommandStore, opened
from a3s_code.core.branches import read_lines
from a3s_code.core.content import JsonObject
from a3s_code.core.documents import CheckpointHeader, Lease, SessionEntry, SessionSnapshot
from a3s_code.core.fold import fold
from a3s_code.core.state import View
from a3s_code.errors import CodeError, StoreError
from a3s_code.stores.factlog import log_path
from a3s_code.stores.lease import holder_words, is_dead
from a3s_code.system.clock import SystemClock

_PAGE: Final = 500


class Known(msgspec.Struct):
    """One session. ``saved_ms``, ``digest`` and ``tenant_id`` are those of its snapshot, which is here itself only when
    it was asked for alone. ``lease`` is there while somebody holds it; ``checkpoints`` are those of its open runs."""

    id: str
    log: Found | None = None
    saved_ms: int | None = None
    digest: str | None = None
    tenant_id: str | None = None
    snapshot: SessionSnapshot | None = None
    checkpoints: list[CheckpointHeader] = []
    lease: Lease | None = None

    @property
    def where(self) -> Literal["log", "store", "both"]:
        stored = self.saved_ms is not None or bool(self.checkpoints)
        return "store" if self.log is None else "both" if stored else "log"

    @property
    def last_ms(self) -> int:
        logged = self.log.last_ms if self.log else 0
        return max(logged, self.saved_ms or 0, *(header.saved_ms for header in self.checkpoints))

    @property
    def held_by(self) -> str | None:
        if self.log is not None and self.log.holder is not None:
            return f"process {self.log.holder}"
        return None if self.lease is None else holder_words(self.lease.holder)

    @property
    def checkpoint(self) -> CheckpointHeader | None:
        """The newest one, unless the log went on since."""
        last = max(self.checkpoints, key=lambda header: (header.saved_ms, header.seq), default=None)
        return None if last is None or (self.log is not None and self.log.last_ms > last.saved_ms) else last

    @property
    def status(self) -> str:
        status = self.log.status if self.log is not None else "saved"
        if self.checkpoint is not None and status not in ("running", "damaged"):
            status = "left open"
        return "running" if status == "left open" and self.held_by is not None else status

    @property
    def prompt(self) -> str:
        return "" if self.log is None else self.log.prompt

    def to_dict(self) -> JsonObject:
        log: JsonObject = msgspec.to_builtins(self.log or Found(self.id, ""))
        return {
            **log,
            "id": self.id,
            "path": log["path"] or None,
            "last_ms": self.last_ms,
            "status": self.status,
            "prompt": self.prompt,
            "where": self.where,
            "held_by": self.held_by,
            "tenant_id": self.tenant_id,
            "saved_ms": self.saved_ms,
            "digest": self.digest,
            "checkpoints": [header.run_id for header in self.checkpoints],
        }


async def known_sessions(
    workspace: Path, store: CommandStore | None, now_ms: int, tenant_id: str | None = None
) -> list[Known]:
    """The last one that was used comes first. With ``tenant_id`` those that the store has of this tenant."""
    known = {found.id: Known(found.id, found, checkpoints=[]) for found in sessions_in(workspace)}
    stored: set[str] = set()
    if store is not None:
        for header in await checkpoints_of(store):
            if tenant_id in (None, header.labels.get("tenant_id")):
                each = known.setdefault(header.session_id, Known(header.session_id, checkpoints=[]))
                each.checkpoints.append(header)
                each.tenant_id = header.labels.get("tenant_id")
                stored.add(each.id)
        async for entry in _entries(store, tenant_id):
            each = known.setdefault(entry.session_id, Known(entry.session_id, checkpoints=[]))
            each.saved_ms, each.digest, each.tenant_id = entry.saved_ms, entry.digest, entry.tenant_id
            stored.add(each.id)
        await _add_leases(store, known, now_ms)
    chosen = known.values() if tenant_id is None else [known[each] for each in stored]
    return sorted(chosen, key=lambda each: (-each.last_ms, each.id))


async def look_up(workspace: Path, chosen: Chosen | None, given: str) -> Known:
    """``find_known`` with a store that is opened for it."""
    async with opened(chosen) as store:
        return await find_known(workspace, store, given, SystemClock().now_ms())


async def find_known(workspace: Path, store: CommandStore | None, given: str, now_ms: int) -> Known:
    """The session that ``given`` names, by its id or first letters; ``INVALID_REQUEST`` unless there is exactly one."""
    known = await _load(workspace, store, given, now_ms)
    if known is not None:
        return known
    there = {id_of(path) for path in logs_in(workspace)} | await _stored_ids(store, given)
    begin = sorted(name for name in there if len(given) >= SHORTEST_PREFIX and name.startswith(given))
    if len(begin) > 1:
        raise CodeError(f"{given!r} begins several sessions: {', '.join(begin[:20])}", "INVALID_REQUEST")
    known = await _load(workspace, store, begin[0], now_ms) if begin else None
    if known is None:
        near = difflib.get_close_matches(given, sorted(there), 1)
        hint = f"did you mean {near[0]}?" if near else "`a3s-code sessions` lists what is there"
        place = f"{workspace}{'' if store is None else f' or {store}'}"
        raise CodeError(f"there is no session {given!r} in {place}; {hint}", "INVALID_REQUEST")
    return known


async def view_of(known: Known, store: CommandStore | None) -> View | None:
    """The newest state: the checkpoint's when the log is behind it or isn't here."""
    if store is not None and known.checkpoint is not None:
        checkpoint = await store.load_checkpoint(known.checkpoint.run_id)
        if checkpoint is not None:
            view = View()
            for line in read_lines(checkpoint.facts):
                view = fold(view, line.fact)
            return view
    return None if known.log is None else read_view(known.log.path)


async def checkpoints_of(store: CommandStore, session_id: str | None = None) -> list[CheckpointHeader]:
    """By run id; none, and a word about it, when one of them can't be read."""
    try:
        return await store.list_checkpoints(session_id)
    except StoreError as error:
        if error.code != "SERIALIZATION_ERROR":
            raise
        notice(f"checkpoints are left out: {error}; see `a3s-code store check`")
        return []


async def _load(workspace: Path, store: CommandStore | None, session_id: str, now_ms: int) -> Known | None:
    known = Known(session_id, _log_of(workspace, session_id), checkpoints=[])
    if store is not None:
        known.checkpoints = await checkpoints_of(store, session_id)
        known.snapshot = await store.load_snapshot(session_id)
        if known.snapshot is not None:
            known.saved_ms, known.digest = known.snapshot.saved_ms, known.snapshot.digest
        stored = known.snapshot or known.checkpoint
        known.tenant_id = None if stored is None else stored.labels.get("tenant_id")
        await _add_leases(store, {session_id: known}, now_ms)
    there = known.log is not None or known.snapshot is not None or known.checkpoints or known.lease is not None
    return known if there else None


def _log_of(workspace: Path, session_id: str) -> Found | None:
    path = log_path(str(workspace), session_id)
    return read_session(path) if os.path.exists(path) else None


async def _stored_ids(store: CommandStore | None, given: str) -> set[str]:
    """Those that begin with ``given``: they come right behind it."""
    if store is None:
        return set()
    entries = await store.list_sessions(after=given, limit=_PAGE)
    return {entry.session_id for entry in entries} | {header.session_id for header in await checkpoints_of(store)}


async def _entries(store: CommandStore, tenant_id: str | None) -> AsyncIterator[SessionEntry]:
    after = None
    while page := await store.list_sessions(tenant_id, after, _PAGE):
        for entry in page:
            yield entry
        after = page[-1].session_id


async def _add_leases(store: CommandStore, known: dict[str, Known], now_ms: int) -> None:
    from a3s_code.stores.survey import leases_of  # loaded when there is a store

    ids = sorted(known)
    for at in range(0, len(ids), _PAGE):
        for session_id, lease in (await leases_of(store, ids[at : at + _PAGE])).items():
            if session_id in known and lease.expires_ms > now_ms and not is_dead(lease.holder):
                known[session_id].lease = lease
