"""Stores with a gate before each thing they do. In: a store of any kind. Out: the same store, in a schedule.

A gate stands before every transaction, before every read and write in it, before its end, and for files before every
operation of the disk; what waits for a lock lets the others go on.

One rule: but for the gates and the clock, what runs is the store.
Known weakness: the work of a store's threads runs in the thread that asks for it.
"""

from __future__ import annotations

import asyncio
import importlib
import os
import sqlite3
import sys
import threading
from collections.abc import Awaitable, Callable, Collection, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

import pytest

sys.path.append(str(Path(__file__).parents[1] / "stores"))

from storehelp import AnyStore
from turns import Died, Turns, current

import a3s_code.stores.postgres as postgres_module
from a3s_code.errors import CodeError
from a3s_code.stores.disk import Disk, use_disk
from a3s_code.stores.memory import MemorySessionStore
from a3s_code.stores.threads import Threads
from a3s_code.stores.transaction import Backend, Kind, Rule, Transaction

T = TypeVar("T")


class Watcher(Protocol):
    """Whoever is told of transactions. Each is told while the transaction's locks are held."""

    turns: Turns

    def now_ms(self) -> int: ...

    def begins(self, locked: Collection[str]) -> None: ...

    def ends(self, locked: Collection[str]) -> None: ...


class GatedBackend:
    def __init__(self, backend: Backend, watcher: Watcher) -> None:
        self._backend = backend
        self._watcher = watcher

    async def transact(self, locks: Sequence[str], rule: Rule[T], *, if_free: bool = False) -> T:
        watcher = self._watcher

        async def watched(tx: Transaction) -> T:
            gated: Any = _Gated(tx, watcher)
            if not locks:
                return await rule(gated)
            watcher.begins(tx.locked)
            try:
                result = await rule(gated)
            except CodeError:
                watcher.ends(tx.locked)
                raise
            watcher.turns.gate()
            watcher.ends(tx.locked)
            return result

        actor = current()
        watcher.turns.gate()
        if actor is not None:
            actor.trying = if_free
        result = await self._backend.transact(locks, watched, if_free=if_free)
        watcher.turns.gate()
        return result

    def place(self, kind: Kind, key: str) -> str:
        return self._backend.place(kind, key)

    async def off_loop(self, work: Callable[..., T], *args: Any) -> T:
        self._watcher.turns.gate()
        return work(*args)


class _Gated:
    """A transaction with the watcher's clock and a gate before each method."""

    def __init__(self, tx: Transaction, watcher: Watcher) -> None:
        self.locked = tx.locked
        self._tx = tx
        self._watcher = watcher

    async def now_ms(self) -> int:
        self._watcher.turns.gate()
        return self._watcher.now_ms()

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        method = getattr(self._tx, name)

        async def gated(*args: Any) -> Any:
            self._watcher.turns.gate()
            return await method(*args)

        return gated


class GatedDisk(Disk):
    """Killed in the middle of a write, a process leaves half of it."""

    def __init__(self, turns: Callable[[], Turns]) -> None:
        self._turns = turns

    def _gate(self) -> None:
        self._turns().gate()

    def open(self, path: str, flags: int) -> int:
        self._gate()
        return super().open(path, flags)

    def read(self, fd: int, count: int, at: int) -> bytes:
        self._gate()
        return super().read(fd, count, at)

    def write(self, fd: int, data: bytes) -> int:
        try:
            self._gate()
        except Died:
            os.write(fd, data[: len(data) // 2])
            raise
        return super().write(fd, data)

    def truncate(self, fd: int, size: int) -> None:
        self._gate()
        super().truncate(fd, size)

    def fdatasync(self, fd: int) -> None:
        """Nothing: no power fails here."""
        self._gate()

    def look(self, path: str) -> os.stat_result | None:
        self._gate()
        return super().look(path)

    def mkdir(self, path: str, mode: int = 0o777) -> None:
        self._gate()
        super().mkdir(path, mode)

    def rename(self, source: str, target: str) -> None:
        self._gate()
        super().rename(source, target)

    def unlink(self, path: str) -> None:
        self._gate()
        super().unlink(path)

    def lock(self, fd: int) -> bool:
        self._gate()
        actor = current()
        while not (got := super().lock(fd)) and actor is not None and not actor.trying:
            self._turns().blocked()
        return got


class Connection(sqlite3.Connection):
    """One whose wait for the write lock lets the others go on."""

    turns: Callable[[], Turns]

    def execute(self, sql: str, *args: Any) -> sqlite3.Cursor:
        while sql == "BEGIN IMMEDIATE":
            try:
                return super().execute(sql)
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode != sqlite3.SQLITE_BUSY:
                    raise
                self.turns().blocked()
        return super().execute(sql, *args)


def gate_stores(patch: pytest.MonkeyPatch, turns: Callable[[], Turns]) -> Callable[[], None]:
    """Has every store that is made from now on wait at the gates of ``turns()``; gives what ends that on the disk."""

    async def inline(_: Threads, work: Callable[..., T], *args: Any) -> T:
        return work(*args)

    Connection.turns = staticmethod(turns)
    connect = sqlite3.connect
    pooled = importlib.import_module("asyncpg").pool.PoolConnectionProxy
    unwatched = pooled.execute

    def gated(path: str, **options: Any) -> sqlite3.Connection:
        made: sqlite3.Connection = connect(path, **(options | {"timeout": 0, "factory": Connection}))
        return made

    async def execute(self: Any, query: str, *args: Any) -> Any:
        asked = asyncio.ensure_future(unwatched(self, query, *args))
        pid = self.get_server_pid()
        while "pg_advisory" in query and not asked.done():
            await asyncio.wait([asked], timeout=0.001)
            if not asked.done() and await _is_kept_waiting(self._holder._pool, pid):
                turns().blocked()
        return await asked

    patch.setattr(Threads, "run", inline)
    patch.setattr(sqlite3, "connect", gated)
    patch.setattr(pooled, "execute", execute)
    patch.setitem(postgres_module._SETTINGS, "idle_in_transaction_session_timeout", "0")
    before = use_disk(GatedDisk(turns))

    def end() -> None:
        use_disk(before)

    return end


async def _is_kept_waiting(pool: Any, pid: int) -> bool:
    async with pool.acquire() as other:
        kept: bool = await other.fetchval("SELECT cardinality(pg_blocking_pids($1)) > 0", pid)
    return kept


def gated(store: AnyStore, watcher: Watcher) -> AnyStore:
    """The store itself, with gates."""
    store._backend = GatedBackend(ungated(store), watcher)
    if isinstance(store, MemorySessionStore):
        store._memory._guard = _GatedLock(watcher.turns)  # type: ignore[assignment]  # used in a with statement only
    return store


def ungated(store: AnyStore) -> Backend:
    found = store._backend
    return found._backend if isinstance(found, GatedBackend) else found


class _GatedLock:
    def __init__(self, turns: Turns) -> None:
        self._lock = threading.Lock()
        self._turns = turns

    def __enter__(self) -> None:
        while not self._lock.acquire(blocking=False):
            self._turns.blocked()

    def __exit__(self, *_: object) -> None:
        self._lock.release()
