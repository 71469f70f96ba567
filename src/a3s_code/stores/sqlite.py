"""A session store in one SQLite file. In: documents. Out: the same documents, from any process of the machine.

One rule: all writes of this object go through one thread and one connection, each in a transaction that takes SQLite's
write lock at its beginning; reads have a connection of their own and see one state.
Known weakness: not for network file systems; other processes' commits are noticed by watchers within a quarter second.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

from a3s_code.core.branches import StoredFact
from a3s_code.core.documents import SessionEntry, digest_of
from a3s_code.errors import SessionConfigurationError, StoreError
from a3s_code.ports.store import StoreCapabilities, StoreEvent
from a3s_code.stores.rules import RuledStore
from a3s_code.stores.threads import Threads
from a3s_code.stores.transaction import About, Kind, Name, OneByOne, Rule, run_through
from a3s_code.stores.watching import KEPT, Bell, cursor_number

T = TypeVar("T")
SCHEMA_VERSION: Final = 1
_BUSY_SECONDS: Final = 30
_LOOK_AGAIN: Final = 0.25
_PAGE: Final = 500
_SCHEMA: Final = """
CREATE TABLE documents (kind TEXT NOT NULL, key TEXT NOT NULL, session_id TEXT NOT NULL, tenant_id TEXT,
  saved_ms INTEGER NOT NULL, digest TEXT NOT NULL, data BLOB NOT NULL, UNIQUE (kind, key));
CREATE INDEX documents_of_session ON documents (session_id, kind);
CREATE INDEX sessions_of_tenant ON documents (tenant_id, key) WHERE kind = 'session';
CREATE TABLE facts (session_id TEXT NOT NULL, seq INTEGER NOT NULL, sum TEXT NOT NULL, before TEXT NOT NULL,
  size INTEGER NOT NULL, raw BLOB NOT NULL, UNIQUE (session_id, seq, sum, size));
CREATE TABLE events (seq INTEGER PRIMARY KEY AUTOINCREMENT, kind TEXT NOT NULL, session_id TEXT NOT NULL,
  ref TEXT NOT NULL)
"""
"""The index of ``facts`` ends with ``size``, so that a listing adds sizes up without reading a fact."""
_CAPABILITIES: Final = StoreCapabilities(
    atomic_snapshots=True,
    cas=True,
    append_only_log=True,
    lease_fencing=True,
    encrypted_at_rest=False,
    watch=True,
    control_inbox=True,
    shared_across_nodes=False,
)


class SqliteSessionStore(RuledStore):
    """One machine, many sessions, one file (in WAL mode, synced at every commit). Nothing is opened or made before the
    first call."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        if os.fspath(path) in ("", ":memory:"):
            raise SessionConfigurationError("a SqliteSessionStore needs a file; without one use MemorySessionStore()")
        self._database = _Database(os.path.abspath(path))
        super().__init__(self._database)

    def watch(self, after: str | None = None) -> AsyncIterator[StoreEvent]:
        return self._database.watch(after)

    def capabilities(self) -> StoreCapabilities:
        return _CAPABILITIES

    async def schema_version(self) -> int | None:
        """Of the tables that are there, ``None`` before there are any; makes nothing."""
        return await self._database.version()

    async def close(self) -> None:
        await self._database.close()

    def __repr__(self) -> str:
        return f"SqliteSessionStore({self._database.path!r})"


class _Database:
    def __init__(self, path: str) -> None:
        self.path = path
        self._writer = Threads(1, "a3s-code-sqlite-writer")
        self._reader = Threads(1, "a3s-code-sqlite-reader")
        self._mine = threading.local()
        self._bell = Bell()

    async def transact(self, locks: Sequence[str], rule: Rule[T], *, if_free: bool = False) -> T:
        if not locks:
            return await self._reader.run(self._blocking, locks, rule, "BEGIN")
        synced = f"PRAGMA synchronous = {'NORMAL' if if_free else 'FULL'}"
        result: T = await self._writer.run(self._blocking, locks, rule, synced, "BEGIN IMMEDIATE")
        self._bell.ring()
        return result

    def place(self, kind: Kind, key: str) -> str:
        return self.path

    async def off_loop(self, work: Callable[..., T], *args: Any) -> T:
        return await self._reader.run(work, *args)

    async def watch(self, after: str | None) -> AsyncIterator[StoreEvent]:
        at = None if after is None else cursor_number(after)
        while True:
            rung = self._bell.waiter()
            first, last, events = await self._reader.run(self._events, at)
            if at is None:
                at = last
            elif at + 1 < first:
                at = first - 1
                yield StoreEvent(str(at), "gap")
            for event in events:
                at = int(event.cursor)
                yield event
            if not events:
                await asyncio.wait([rung], timeout=_LOOK_AGAIN)

    async def close(self) -> None:
        for threads in (self._writer, self._reader):
            await threads.run(self._close)
            await threads.close()

    def _events(self, at: int | None) -> tuple[int, int, list[StoreEvent]]:
        with self._used() as connection:
            last = connection.execute("SELECT coalesce(max(seq), 0) FROM sqlite_sequence").fetchone()[0]
            first = connection.execute("SELECT coalesce(min(seq), ? + 1) FROM events", (last,)).fetchone()[0]
            found = connection.execute(
                "SELECT seq, kind, session_id, ref FROM events WHERE seq > ? ORDER BY seq LIMIT ?",
                (last if at is None else at, _PAGE),
            )
            return first, last, [StoreEvent(str(seq), *rest) for seq, *rest in found]

    def _blocking(self, locks: Sequence[str], rule: Rule[T], *begin: str) -> T:
        with self._used() as connection:
            for statement in begin:
                connection.execute(statement)
            try:
                result = run_through(rule(_Transaction(connection, locks, self.path)))
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
            return result

    @contextlib.contextmanager
    def _used(self) -> Iterator[sqlite3.Connection]:
        """This thread's connection."""
        try:
            connection: sqlite3.Connection | None = getattr(self._mine, "connection", None)
            if connection is None:
                connection = self._mine.connection = self._open()
            yield connection
        except (sqlite3.Error, OSError) as error:
            raise StoreError(f"{self.path}: the session store can't use it: {error}") from error

    def _open(self) -> sqlite3.Connection:
        os.makedirs(os.path.dirname(self.path), exist_ok=True)
        _make_private(self.path)
        connection = sqlite3.connect(self.path, timeout=_BUSY_SECONDS, isolation_level=None)
        try:
            _begin_wal(connection)
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("BEGIN IMMEDIATE")
            version = connection.execute("PRAGMA user_version").fetchone()[0]
            if version > SCHEMA_VERSION:
                raise StoreError(
                    f"{self.path} has schema version {version}, and this a3s_code knows {SCHEMA_VERSION}: "
                    "use a newer a3s_code",
                    "SERIALIZATION_ERROR",
                )
            if version == 0:
                for statement in _SCHEMA.split(";"):
                    connection.execute(statement)
                connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
            connection.execute("COMMIT")
        except BaseException:
            connection.close()
            raise
        return connection

    async def version(self) -> int | None:
        return await self._reader.run(self._version)

    def _version(self) -> int | None:
        if not os.path.exists(self.path):
            return None
        try:
            connection = sqlite3.connect(f"{Path(self.path).as_uri()}?mode=ro", uri=True, timeout=_BUSY_SECONDS)
            with contextlib.closing(connection):
                return connection.execute("PRAGMA user_version").fetchone()[0] or None
        except sqlite3.Error as error:
            raise StoreError(f"{self.path}: the session store can't use it: {error}") from error

    def _close(self) -> None:
        connection: sqlite3.Connection | None = getattr(self._mine, "connection", None)
        if connection is not None:
            del self._mine.connection
            connection.close()


def _make_private(path: str) -> None:
    """Makes the file, for its owner only, unless it is there. Nobody but SQLite may open one that is: to close it gives
    up every lock that this process has on it, and the next process to leave then takes away the log of commits."""
    with contextlib.suppress(FileExistsError):
        try:
            os.mknod(path, 0o600)
        except PermissionError:  # some systems let nobody but root
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))


def _begin_wal(connection: sqlite3.Connection) -> None:
    """SQLite doesn't wait for others that do the same to a new file."""
    pause, waited = 0.001, 0.0
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or waited > _BUSY_SECONDS:
                raise
            threading.Event().wait(pause)
            waited, pause = waited + pause, min(pause * 2, 0.02)
        else:
            return


class _Transaction(OneByOne):
    """Blocks: everything here runs in a worker thread."""

    def __init__(self, connection: sqlite3.Connection, locks: Sequence[str], path: str) -> None:
        self.locked = frozenset(locks)
        self._path = path
        self._run = connection.execute
        self._run_many = connection.executemany

    async def now_ms(self) -> int:
        return int(self._run("SELECT (julianday('now') - 2440587.5) * 86400000.0").fetchone()[0])

    async def get(self, kind: Kind, key: str) -> bytes | None:
        found = self._run("SELECT data FROM documents WHERE kind = ? AND key = ?", (kind, key)).fetchone()
        return None if found is None else bytes(found[0])

    async def put(self, kind: Kind, key: str, data: bytes, about: About) -> None:
        self._run(
            "INSERT INTO documents VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (kind, key) DO UPDATE SET session_id = "
            "excluded.session_id, tenant_id = excluded.tenant_id, saved_ms = excluded.saved_ms, "
            "digest = excluded.digest, data = excluded.data",
            (kind, key, about.session_id, about.tenant_id, about.saved_ms, digest_of(data), data),
        )

    async def delete(self, kind: Kind, key: str, session_id: str = "") -> bool:
        return self._run("DELETE FROM documents WHERE kind = ? AND key = ?", (kind, key)).rowcount > 0

    async def of_session(self, kind: Kind, session_id: str | None) -> list[bytes]:
        found = self._run(
            "SELECT data FROM documents WHERE kind = ?1 AND (?2 IS NULL OR session_id = ?2)", (kind, session_id)
        )
        return [bytes(data) for (data,) in found]

    async def names(self, kind: Kind) -> list[Name]:
        found = self._run("SELECT key FROM documents WHERE kind = ? ORDER BY key", (kind,))
        return [Name(key, f"{self._path} ({kind} {key!r})", key) for (key,) in found]

    async def named(self, kind: Kind, name: str) -> bytes | None:
        return await self.get(kind, name)

    async def page(self, tenant_id: str | None, after: str | None, limit: int) -> list[SessionEntry]:
        found = self._run(
            "SELECT key, tenant_id, saved_ms, digest, (SELECT coalesce(sum(length(data)), 0) FROM documents AS own "
            "WHERE own.session_id = listed.key AND own.kind <> 'lease') + "
            "(SELECT coalesce(sum(size), 0) FROM facts WHERE facts.session_id = listed.key) "
            "FROM documents AS listed WHERE kind = 'session' "
            f"AND key > ?2 {'' if tenant_id is None else 'AND tenant_id = ?1 '}ORDER BY key LIMIT ?3",
            (tenant_id, after or "", limit),
        )
        return [SessionEntry(*row) for row in found]

    async def sums_at(self, session_id: str, seq: int) -> list[str]:
        found = self._run("SELECT sum FROM facts WHERE session_id = ? AND seq = ?", (session_id, seq))
        return [sum_ for (sum_,) in found]

    async def last_below(self, session_id: str, seq: int) -> int:
        found = self._run("SELECT max(seq) FROM facts WHERE session_id = ? AND seq < ?", (session_id, seq))
        return int(found.fetchone()[0] or 0)

    async def facts(self, session_id: str, upto: int) -> list[StoredFact]:
        found = self._run(
            "SELECT seq, sum, before, raw FROM facts WHERE session_id = ? AND seq <= ?", (session_id, upto)
        )
        return [StoredFact(*row) for row in found]

    async def add_facts(self, session_id: str, rows: Sequence[StoredFact]) -> None:
        self._run_many(
            "INSERT OR IGNORE INTO facts VALUES (?, ?, ?, ?, ?, ?)",
            [(session_id, row.seq, row.sum, row.before, len(row.raw), row.raw) for row in rows],
        )

    async def delete_facts(self, session_id: str) -> bool:
        return self._run("DELETE FROM facts WHERE session_id = ?", (session_id,)).rowcount > 0

    async def emit(self, kind: str, session_id: str, ref: str) -> None:
        event = self._run("INSERT INTO events (kind, session_id, ref) VALUES (?, ?, ?)", (kind, session_id, ref))
        number = event.lastrowid or 0
        if number % 256 == 0:
            self._run("DELETE FROM events WHERE seq <= ?", (number - KEPT,))
