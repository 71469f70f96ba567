"""Stores to test, each on a storage of its own. In: a kind and a place. Out: a way to open handles.

One rule: a handle is what another process would have: it shares nothing with the others but the storage.
Known weakness: handles on memory are one object, as memory is not shared in any other way.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeAlias

from a3s_code.stores.file import FileSessionStore
from a3s_code.stores.memory import MemorySessionStore
from a3s_code.stores.postgres import PostgresSessionStore
from a3s_code.stores.sqlite import SqliteSessionStore

KINDS: Final = ("memory", "file", "encrypted", "sqlite", "postgres")
KEY: Final = bytes(range(32))
AnyStore: TypeAlias = MemorySessionStore | FileSessionStore | SqliteSessionStore | PostgresSessionStore


def maker(kind: str, directory: Path, dsn: Callable[[], str], schema: str) -> Callable[[], AnyStore]:
    """Handles on one storage; ``dsn`` is called for PostgreSQL only."""
    match kind:
        case "memory":
            store = MemorySessionStore()
            return lambda: store
        case "file":
            return lambda: FileSessionStore(directory / "store")
        case "encrypted":
            return lambda: FileSessionStore(directory / "store", KEY)
        case "sqlite":
            return lambda: SqliteSessionStore(directory / "store.db")
        case _:
            where = dsn()
            return lambda: PostgresSessionStore(where, schema=schema)


async def connect(dsn: str) -> Any:
    """A connection of asyncpg, which has no types."""
    return await importlib.import_module("asyncpg").connect(dsn)
