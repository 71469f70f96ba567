"""The tables of the PostgreSQL store. In: reads and writes of a transaction. Out: SQL.

One rule: text is compared by code point (``COLLATE "C"``), and a document's bytes are kept as they are. What a
transaction puts, adds and tells is one statement, sent at its end: each statement is a round trip to the server.
Known weakness: events of the past beyond the newest 10,000 are removed by whoever writes every 256th.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Final, Protocol

from a3s_code.core.branches import StoredFact
from a3s_code.core.documents import SessionEntry, digest_of
from a3s_code.errors import StoreError
from a3s_code.stores.transaction import About, Kind, Name
from a3s_code.stores.watching import KEPT

VERSION: Final = 1

_THERE: Final = "SELECT EXISTS (SELECT FROM pg_tables WHERE schemaname = $1 AND tablename = 'version')"
"""Asked of the catalogue's tables: ``to_regclass`` answers from a cache that may be older than the lock."""

_MAKE: Final = """
CREATE TABLE {s}.version (number integer NOT NULL);
INSERT INTO {s}.version VALUES (1);
CREATE TABLE {s}.documents (kind text COLLATE "C" NOT NULL, key text COLLATE "C" NOT NULL,
  session_id text COLLATE "C" NOT NULL, tenant_id text COLLATE "C", saved_ms bigint NOT NULL, digest text NOT NULL,
  data bytea NOT NULL, PRIMARY KEY (kind, key));
CREATE INDEX documents_of_session ON {s}.documents (session_id, kind);
CREATE INDEX sessions_of_tenant ON {s}.documents (tenant_id, key) WHERE kind = 'session';
CREATE TABLE {s}.facts (session_id text COLLATE "C" NOT NULL, seq bigint NOT NULL, sum text COLLATE "C" NOT NULL,
  before text NOT NULL, size bigint NOT NULL, raw bytea NOT NULL, PRIMARY KEY (session_id, seq, sum) INCLUDE (size));
CREATE TABLE {s}.events (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  xid xid8 NOT NULL DEFAULT pg_current_xact_id(), kind text NOT NULL, session_id text NOT NULL, ref text NOT NULL);
CREATE INDEX events_in_order ON {s}.events (xid, id);
"""


class Connection(Protocol):
    """What is used of asyncpg's, which has no types."""

    async def execute(self, query: str, *args: Any) -> str: ...

    async def fetch(self, query: str, *args: Any) -> list[Any]: ...

    async def fetchval(self, query: str, *args: Any) -> Any: ...

    def transaction(self) -> AbstractAsyncContextManager[None]: ...

    def is_closed(self) -> bool: ...

    async def add_listener(self, channel: str, callback: Any) -> None: ...

    async def close(self, *, timeout: float | None = None) -> None: ...


class Tables:
    """The SQL of one schema, whose name holds nothing that needs quoting."""

    def __init__(self, schema: str) -> None:
        self.schema = schema
        self.channel = f"{schema}_events"
        self.get = f"SELECT data FROM {schema}.documents WHERE kind = $1 AND key = $2"
        self.get_all = (
            f"SELECT kind, key, data FROM {schema}.documents JOIN unnest($1::text[], $2::text[]) AS wanted (kind, key) "
            "USING (kind, key)"
        )
        self.delete = f"DELETE FROM {schema}.documents WHERE kind = $1 AND key = $2 RETURNING 1"
        self.of_session = (
            f"SELECT data FROM {schema}.documents WHERE kind = $1 AND ($2::text IS NULL OR session_id = $2)"
        )
        self.names = f"SELECT key FROM {schema}.documents WHERE kind = $1 ORDER BY key"
        listed = (
            f"SELECT key, tenant_id, saved_ms, digest, (SELECT coalesce(sum(octet_length(data)), 0) "
            f"FROM {schema}.documents AS own WHERE own.session_id = listed.key AND own.kind <> 'lease') + "
            f"(SELECT coalesce(sum(size), 0)::bigint FROM {schema}.facts AS f WHERE f.session_id = listed.key) "
            f"FROM {schema}.documents AS listed WHERE kind = 'session' AND key > $1"
        )
        self.page = f"{listed} ORDER BY key LIMIT $2"
        self.page_of_tenant = f"{listed} AND tenant_id = $3 ORDER BY key LIMIT $2"
        self.sums_at = f"SELECT sum FROM {schema}.facts WHERE session_id = $1 AND seq = $2"
        self.last_below = f"SELECT coalesce(max(seq), 0) FROM {schema}.facts WHERE session_id = $1 AND seq < $2"
        self.facts = f"SELECT seq, sum, before, raw FROM {schema}.facts WHERE session_id = $1 AND seq <= $2"
        self.delete_facts = (
            f"WITH gone AS (DELETE FROM {schema}.facts WHERE session_id = $1 RETURNING 1) SELECT count(*) FROM gone"
        )
        self.write = (
            f"WITH put AS (INSERT INTO {schema}.documents SELECT * FROM unnest($1::text[], $2::text[], $3::text[], "
            "$4::text[], $5::bigint[], $6::text[], $7::bytea[]) ON CONFLICT (kind, key) DO UPDATE SET "
            "session_id = excluded.session_id, tenant_id = excluded.tenant_id, saved_ms = excluded.saved_ms, "
            "digest = excluded.digest, data = excluded.data), "
            f"added AS (INSERT INTO {schema}.facts SELECT * FROM unnest($8::text[], $9::bigint[], $10::text[], "
            "$11::text[], $12::bigint[], $13::bytea[]) ON CONFLICT DO NOTHING), "
            f"told AS (INSERT INTO {schema}.events (kind, session_id, ref) "
            "SELECT * FROM unnest($14::text[], $15::text[], $16::text[]) RETURNING id) "
            f"SELECT id, pg_notify('{self.channel}', '') FROM told"
        )
        self.prune = (
            f"DELETE FROM {schema}.events WHERE id IN "
            f"(SELECT id FROM {schema}.events WHERE id <= $1 FOR UPDATE SKIP LOCKED)"
        )
        self.events = (
            f"SELECT xid::text AS xid, id, kind, session_id, ref FROM {schema}.events "
            "WHERE (xid, id) > ($1::text::xid8, $2) AND xid < pg_snapshot_xmin(pg_current_snapshot()) "
            "ORDER BY xid, id LIMIT $3"
        )
        self.known_event = f"SELECT EXISTS (SELECT FROM {schema}.events WHERE id = $1)"

    async def prepare(self, connection: Connection, lock: int) -> None:
        """Makes the tables unless they are there. ``StoreError`` (``SERIALIZATION_ERROR``) for newer ones."""
        version = await self.version(connection)
        if version is None:
            async with connection.transaction():
                await connection.execute("SELECT pg_advisory_xact_lock($1)", lock)
                version = await self.version(connection)
                if version is None:
                    if not await connection.fetchval(
                        "SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = $1)", self.schema
                    ):
                        await connection.execute(f"CREATE SCHEMA {self.schema}")
                    await connection.execute(_MAKE.format(s=self.schema))
                    version = VERSION
        if version > VERSION:
            raise StoreError(
                f"schema {self.schema} has version {version}, and this a3s_code knows {VERSION}: use a newer a3s_code",
                "SERIALIZATION_ERROR",
            )

    async def version(self, connection: Connection) -> int | None:
        """Of the tables that are there; ``None`` when there are none."""
        if not await connection.fetchval(_THERE, self.schema):
            return None
        number: int = await connection.fetchval(f"SELECT max(number) FROM {self.schema}.version")
        return number


class PostgresTransaction:
    def __init__(self, connection: Connection, tables: Tables, locked: frozenset[str]) -> None:
        self.locked = locked
        self._connection = connection
        self._sql = tables
        self._put: dict[tuple[Kind, str], tuple[object, ...]] = {}
        self._added: list[tuple[object, ...]] = []
        self._told: list[tuple[object, ...]] = []

    async def send(self) -> None:
        """What was put, added and told."""
        if not (self._put or self._added or self._told):
            return
        columns = [*_columns(self._put.values(), 7), *_columns(self._added, 6), *_columns(self._told, 3)]
        for number, _ in await self._connection.fetch(self._sql.write, *columns):
            if number % 256 == 0:
                await self._connection.execute(self._sql.prune, number - KEPT)

    async def now_ms(self) -> int:
        return int(await self._connection.fetchval("SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint"))

    async def get(self, kind: Kind, key: str) -> bytes | None:
        data: bytes | None = await self._connection.fetchval(self._sql.get, kind, key)
        return data

    async def put(self, kind: Kind, key: str, data: bytes, about: About) -> None:
        row = (kind, key, about.session_id, about.tenant_id, about.saved_ms, digest_of(data), data)
        self._put[kind, key] = row

    async def get_all(self, names: Sequence[tuple[Kind, str]]) -> dict[tuple[Kind, str], bytes]:
        columns = [kind for kind, _ in names], [key for _, key in names]
        return {(row[0], row[1]): row[2] for row in await self._connection.fetch(self._sql.get_all, *columns)}

    async def put_all(self, kind: Kind, rows: Sequence[tuple[str, bytes, About]]) -> None:
        for row in rows:
            await self.put(kind, *row)

    async def delete(self, kind: Kind, key: str, session_id: str = "") -> bool:
        return await self._connection.fetchval(self._sql.delete, kind, key) is not None

    async def of_session(self, kind: Kind, session_id: str | None) -> list[bytes]:
        return [row[0] for row in await self._connection.fetch(self._sql.of_session, kind, session_id)]

    async def names(self, kind: Kind) -> list[Name]:
        keys = [row[0] for row in await self._connection.fetch(self._sql.names, kind)]
        return [Name(key, f"{self._sql.schema}.documents ({kind} {key!r})", key) for key in keys]

    async def named(self, kind: Kind, name: str) -> bytes | None:
        return await self.get(kind, name)

    async def page(self, tenant_id: str | None, after: str | None, limit: int) -> list[SessionEntry]:
        if tenant_id is None:
            found = await self._connection.fetch(self._sql.page, after or "", limit)
        else:
            found = await self._connection.fetch(self._sql.page_of_tenant, after or "", limit, tenant_id)
        return [SessionEntry(*row) for row in found]

    async def sums_at(self, session_id: str, seq: int) -> list[str]:
        return [row[0] for row in await self._connection.fetch(self._sql.sums_at, session_id, seq)]

    async def last_below(self, session_id: str, seq: int) -> int:
        return int(await self._connection.fetchval(self._sql.last_below, session_id, seq))

    async def facts(self, session_id: str, upto: int) -> list[StoredFact]:
        return [StoredFact(*row) for row in await self._connection.fetch(self._sql.facts, session_id, upto)]

    async def add_facts(self, session_id: str, rows: Sequence[StoredFact]) -> None:
        self._added += [(session_id, row.seq, row.sum, row.before, len(row.raw), row.raw) for row in rows]

    async def delete_facts(self, session_id: str) -> bool:
        return int(await self._connection.fetchval(self._sql.delete_facts, session_id)) > 0

    async def emit(self, kind: str, session_id: str, ref: str) -> None:
        self._told.append((kind, session_id, ref))


def _columns(rows: Collection[tuple[object, ...]], count: int) -> Sequence[Sequence[object]]:
    return list(zip(*rows, strict=True)) if rows else [()] * count
