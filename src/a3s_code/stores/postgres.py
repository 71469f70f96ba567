"""A session store in PostgreSQL (13 or newer). In: documents. Out: the same documents, on any node.

One rule: a write is one transaction that first takes advisory locks named after the session and run it is about, so
that what it checked (the epoch above all) still holds when it commits. All that is bound to an event loop ends with it.
Known weakness: every commit notifies, which PostgreSQL does one after another; needs a direct connection or a pooler in
session mode.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import importlib
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Final, Protocol, TypeVar

from a3s_code.errors import SessionConfigurationError, StoreError
from a3s_code.ports.store import StoreCapabilities, StoreEvent
from a3s_code.stores.pgtables import Connection, PostgresTransaction, Tables
from a3s_code.stores.pgwatch import watch
from a3s_code.stores.rules import RuledStore
from a3s_code.stores.transaction import Kind, Rule

T = TypeVar("T")
_CAPABILITIES: Final = StoreCapabilities(
    atomic_snapshots=True,
    cas=True,
    append_only_log=True,
    lease_fencing=True,
    encrypted_at_rest=False,
    watch=True,
    control_inbox=True,
    shared_across_nodes=True,
)
_SETTINGS: Final = {
    "application_name": "a3s_code",
    "idle_in_transaction_session_timeout": "3000",  # a node that stops inside a transaction must not keep its locks
    "lock_timeout": "20000",
}
_CLOSING_SECONDS: Final = 5
_RELAXED: Final = "SET LOCAL synchronous_commit = off"
_TRY: Final = "SELECT key, pg_try_advisory_xact_lock(key) AS got FROM unnest($1::bigint[]) AS key"


class PostgresSessionStore(RuledStore):
    """Many nodes. ``dsn`` is a PostgreSQL URL or keyword text; the tables are made in ``schema`` at the first call,
    which is a namespace: stores of two schemas see nothing of each other. Needs ``a3s-code-py[postgres]``."""

    def __init__(self, dsn: str, *, schema: str = "a3s_code") -> None:
        if not isinstance(dsn, str) or not dsn:
            raise SessionConfigurationError("dsn must be the text of a PostgreSQL connection, postgresql://…")
        if not isinstance(schema, str) or not re.fullmatch(r"[a-z_][a-z0-9_]{0,39}", schema):
            raise SessionConfigurationError("schema must be 1 to 40 lower-case letters, digits and underscores")
        self._server = _Server(dsn, Tables(schema))
        super().__init__(self._server)

    def watch(self, after: str | None = None) -> AsyncIterator[StoreEvent]:
        return watch(self._server.connection, self._server.tables, after)

    def capabilities(self) -> StoreCapabilities:
        return _CAPABILITIES

    async def schema_version(self) -> int | None:
        """Of the tables that are there, ``None`` before there are any; makes nothing."""
        async with self._server.alone() as connection:
            return await self._server.tables.version(connection)

    async def close(self) -> None:
        """Closes the connections of this event loop; those of another one end with it."""
        await self._server.close()

    def __repr__(self) -> str:
        return f"PostgresSessionStore(…, schema={self._server.tables.schema!r})"


class _AsyncpgPool(Protocol):
    def acquire(self) -> AbstractAsyncContextManager[Connection]: ...

    async def close(self) -> None: ...

    def terminate(self) -> None: ...


class _Server:
    def __init__(self, dsn: str, tables: Tables) -> None:
        self.tables = tables
        self._dsn = dsn
        self._pools: dict[asyncio.AbstractEventLoop, _Pool] = {}

    async def transact(self, locks: Sequence[str], rule: Rule[T], *, if_free: bool = False) -> T:
        with _told():
            pool = await self._pool()
            async with pool.acquire() as connection:
                if not locks:
                    return await rule(PostgresTransaction(connection, self.tables, frozenset()))
                async with self._locked(connection, locks, if_free=if_free) as got:
                    transaction = PostgresTransaction(connection, self.tables, got)
                    result = await rule(transaction)
                    await transaction.send()
                    return result

    def place(self, kind: Kind, key: str) -> str:
        return f"{self.tables.schema}.documents"

    async def off_loop(self, work: Callable[..., T], *args: Any) -> T:
        return await asyncio.to_thread(work, *args)

    @contextlib.asynccontextmanager
    async def connection(self) -> AsyncGenerator[Connection, None]:
        """One of its own, for a watcher, with the tables there."""
        with _told():
            await self._pool()
        async with self.alone() as connection:
            yield connection

    @contextlib.asynccontextmanager
    async def alone(self) -> AsyncGenerator[Connection, None]:
        """A connection that no pool has, to whatever is there."""
        with _told():
            connection = await _driver().connect(self._dsn, server_settings=_SETTINGS)
            try:
                yield connection
            finally:
                await connection.close(timeout=_CLOSING_SECONDS)

    async def close(self) -> None:
        mine = self._pools.pop(asyncio.get_running_loop(), None)
        if mine is not None:
            await mine.close()

    async def _pool(self) -> _AsyncpgPool:
        loop = asyncio.get_running_loop()
        mine = self._pools.get(loop)
        if mine is None:
            self._pools = {each: pool for each, pool in self._pools.items() if not each.is_closed()}
            mine = self._pools[loop] = _Pool(self._dsn, self.tables)
        return await mine.ready()

    @contextlib.asynccontextmanager
    async def _locked(
        self, connection: Connection, locks: Sequence[str], *, if_free: bool
    ) -> AsyncGenerator[frozenset[str], None]:
        """A transaction with ``locks``, taken in the order of their numbers, so that two never wait for each other."""
        numbers = {_number(self.tables.schema, lock): lock for lock in locks}
        take = [f"SELECT pg_advisory_xact_lock({number})" for number in sorted(numbers)]
        try:
            await connection.execute("; ".join(["BEGIN", *([_RELAXED] if if_free else take)]))
            if if_free:
                rows = await connection.fetch(_TRY, sorted(numbers))
                locks = [numbers[row["key"]] for row in rows if row["got"]]
            yield frozenset(locks)
            await connection.execute("COMMIT")
        except BaseException:
            if not connection.is_closed():
                await connection.execute("ROLLBACK")
            raise


class _Pool:
    """The connections of one event loop."""

    def __init__(self, dsn: str, tables: Tables) -> None:
        self._dsn = dsn
        self._tables = tables
        self._opening = asyncio.Lock()
        self._pool: _AsyncpgPool | None = None
        self._life: AsyncGenerator[_AsyncpgPool, None] | None = None

    async def ready(self) -> _AsyncpgPool:
        if self._pool is None:
            async with self._opening:
                if self._pool is None:
                    life = self._opened()
                    self._pool, self._life = await anext(life), life
        return self._pool

    async def close(self) -> None:
        if self._life is not None:
            await self._life.aclose()

    async def _opened(self) -> AsyncGenerator[_AsyncpgPool, None]:
        """A generator, as a loop that ends closes those that began on it: connections don't outlive their loop."""
        pool = await _driver().create_pool(
            self._dsn, min_size=0, max_size=8, command_timeout=60, server_settings=_SETTINGS, reset=_as_it_is
        )
        try:
            async with pool.acquire() as connection:
                await self._tables.prepare(connection, _number(self._tables.schema, "tables"))
            yield pool
        finally:
            try:
                await asyncio.wait_for(pool.close(), _CLOSING_SECONDS)
            except TimeoutError:
                pool.terminate()


async def _as_it_is(connection: Connection) -> None:
    """A connection goes back to its pool without a round trip: what a transaction sets and locks ends with it."""


def _driver() -> Any:
    try:
        return importlib.import_module("asyncpg")  # an extra, and one without types
    except ImportError as error:
        raise SessionConfigurationError(
            "a PostgresSessionStore needs the package asyncpg: install a3s-code-py[postgres]"
        ) from error


@contextlib.contextmanager
def _told() -> Iterator[None]:
    """What the driver raises as ``StoreError``. Its messages hold no password."""
    driver = _driver()
    of_driver = (
        driver.PostgresError,
        driver.InterfaceError,
        driver.InternalClientError,
    )  # the last: ended by the server
    try:
        yield
    except (*of_driver, OSError, TimeoutError) as error:
        why = str(error) or type(error).__name__
        raise StoreError(f"the PostgreSQL session store can't be used: {why}") from error


def _number(schema: str, lock: str) -> int:
    return int.from_bytes(hashlib.sha256(f"{schema}\0{lock}".encode()).digest()[:8], "big", signed=True)
