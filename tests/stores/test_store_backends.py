"""What each store does that the contract doesn't say: opening, versions, watching, connections."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from storehelp import AnyStore, connect

from a3s_code.core.documents import decode
from a3s_code.errors import SessionConfigurationError, StoreError
from a3s_code.ports.store import Lease, SessionSnapshot
from a3s_code.stores import pgtables, postgres, sqlite, watching
from a3s_code.stores.file import FileSessionStore
from a3s_code.stores.postgres import PostgresSessionStore
from a3s_code.stores.sqlite import SqliteSessionStore
from a3s_code.stores.transaction import About, Transaction

pytest_plugins = ["storefixtures"]


def test_making_a_store_touches_nothing(tmp_path: Path) -> None:
    """Stores are made without a loop, a file, a connection or a thread, and without their extras being imported."""
    script = f"""
import sys, threading
from a3s_code import FileSessionStore, MemorySessionStore, PostgresSessionStore, SqliteSessionStore
stores = [MemorySessionStore(), FileSessionStore({str(tmp_path / "f")!r}, bytes(32)),
    SqliteSessionStore({str(tmp_path / "d" / "s.db")!r}), PostgresSessionStore("postgresql://nobody:secret@nowhere/x")]
print(stores, {{store.capabilities().cas for store in stores}})
assert threading.active_count() == 1
assert not {{"asyncpg", "cryptography"}} & set(sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "secret" not in done.stdout
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("dsn", ["", 5])
def test_what_is_no_place_is_refused(dsn: object) -> None:
    """A path or address that can't be one is SESSION_CONFIGURATION_ERROR when the store is made."""
    with pytest.raises(SessionConfigurationError):
        PostgresSessionStore(dsn)  # type: ignore[arg-type]  # that is the point
    with pytest.raises(SessionConfigurationError):
        PostgresSessionStore("postgresql://x", schema='x"; DROP')
    with pytest.raises(SessionConfigurationError, match="MemorySessionStore"):
        SqliteSessionStore(":memory:")


async def test_a_store_that_can_t_be_opened_says_why(tmp_path: Path) -> None:
    """A file where the directory should be, no database and no server are IO_ERROR, without a password."""
    (tmp_path / "file").write_text("no store")
    stores: dict[AnyStore, str] = {
        FileSessionStore(tmp_path / "file"): "file",
        SqliteSessionStore(tmp_path / "file"): "file",
        PostgresSessionStore("postgresql://nobody:secret@127.0.0.1:1/x"): "PostgreSQL",
    }
    for store, named in stores.items():
        with pytest.raises(StoreError, match=named) as caught:
            await store.save_snapshot(SessionSnapshot(session_id="s"))
        assert caught.value.code == "IO_ERROR"
        assert "secret" not in str(caught.value)
        await store.close()
    assert (tmp_path / "file").read_text() == "no store"


async def test_a_newer_sqlite_file_is_refused(tmp_path: Path) -> None:
    """A database that a later version laid out is SERIALIZATION_ERROR and stays as it is."""
    store = SqliteSessionStore(tmp_path / "s.db")
    await store.save_snapshot(SessionSnapshot(session_id="s"))
    await store.close()
    assert (tmp_path / "s.db").stat().st_mode & 0o077 == 0
    with sqlite3.connect(tmp_path / "s.db") as connection:
        connection.execute("PRAGMA user_version = 2")
    connection.close()
    with pytest.raises(StoreError, match=r"schema version 2, .* use a newer a3s_code") as caught:
        await store.load_snapshot("s")
    assert caught.value.code == "SERIALIZATION_ERROR"
    await store.close()


async def test_newer_tables_are_refused(postgres_dsn: str) -> None:
    """Tables that a later version made are SERIALIZATION_ERROR."""
    store = PostgresSessionStore(postgres_dsn, schema="newer")
    await store.save_snapshot(SessionSnapshot(session_id="s"))
    await store.close()
    connection = await connect(postgres_dsn)
    await connection.execute("UPDATE newer.version SET number = 2")
    await connection.close()
    with pytest.raises(StoreError, match=r"has version 2, .* use a newer a3s_code") as caught:
        await store.load_snapshot("s")
    assert caught.value.code == "SERIALIZATION_ERROR"
    await store.close()


async def test_schemas_are_namespaces(postgres_dsn: str) -> None:
    """Stores of two schemas of one database see nothing of each other, and neither holds up the other's locks."""
    one, other = (PostgresSessionStore(postgres_dsn, schema=name) for name in ("space_a", "space_b"))
    await asyncio.gather(*(store.save_snapshot(SessionSnapshot(session_id="s")) for store in (one, other)))
    lease = await one.acquire_lease("s", "h", 60_000)
    assert (await other.acquire_lease("s", "g", 60_000)).epoch == lease.epoch == 1
    await one.delete_session("s")
    assert await one.load_snapshot("s") is None
    assert await other.load_snapshot("s") is not None
    await one.close()
    await other.close()


async def test_many_first_users_make_the_tables_once(postgres_dsn: str) -> None:
    """Nodes that start at one moment on an empty database all get to work."""
    stores = [PostgresSessionStore(postgres_dsn, schema="fresh") for _ in range(6)]
    await asyncio.gather(*(s.save_snapshot(SessionSnapshot(session_id=f"s{n}")) for n, s in enumerate(stores)))
    assert len(await stores[0].list_sessions()) == 6
    await asyncio.gather(*(store.close() for store in stores))


async def test_a_lost_connection_is_told_and_got_over(postgres_dsn: str) -> None:
    """When the server ends the connections, a call fails with IO_ERROR at most, and the next ones work."""
    store = PostgresSessionStore(postgres_dsn, schema="lost")
    await store.save_snapshot(SessionSnapshot(session_id="s"))
    admin = await connect(postgres_dsn)
    query = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'a3s_code'"
    assert await admin.fetch(query)
    await admin.close()
    for _ in range(9):
        try:
            found = await store.load_snapshot("s")
        except StoreError:
            continue
        break
    assert found is not None
    await store.close()


async def test_a_node_that_stops_in_a_transaction_is_thrown_out(
    postgres_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A node that stops while it writes keeps a session's lock for seconds only, and its write is undone."""
    monkeypatch.setitem(postgres._SETTINGS, "idle_in_transaction_session_timeout", "100")
    stopped, other = (PostgresSessionStore(postgres_dsn, schema="stops") for _ in range(2))
    began, goes_on = asyncio.Event(), asyncio.Event()

    async def write(tx: Transaction) -> None:
        await tx.put("session", "s", b"half", About("s"))
        began.set()
        await goes_on.wait()
        await tx.emit("session.saved", "s", "")

    async def run() -> None:
        await stopped._backend.transact(("session:s",), write)

    writing = asyncio.create_task(run())
    await began.wait()
    lease = await other.acquire_lease("s", "other", 60_000)
    goes_on.set()
    with pytest.raises(StoreError):
        await writing
    assert await other.load_snapshot("s") is None
    await other.save_snapshot(SessionSnapshot(session_id="s"), epoch=lease.epoch)
    await stopped.close()
    await other.close()


@pytest.mark.parametrize("kind", ["file", "postgres"], indirect=True)
async def test_renewing_doesn_t_wait_for_a_session_at_work(kind: str, make_store: Callable[[], AnyStore]) -> None:
    """While somebody writes in one session the other leases of the batch are renewed; then that one is, too."""
    busy, store = make_store(), make_store()
    leases = [await store.acquire_lease(name, "h", 60_000) for name in ("a", "b", "c")]
    began, may_end = threading.Event(), threading.Event()

    async def write(tx: Transaction) -> None:
        began.set()
        while not may_end.is_set():
            await (tx.now_ms() if kind == "postgres" else tx.get("lease", "a"))

    async def run() -> None:
        await busy._backend.transact(("session:a",), write)

    async def until() -> int:
        data = await store._backend.transact((), lambda tx: tx.get("lease", "b"))
        return decode(Lease, data or b"", "b").expires_ms

    writing = asyncio.create_task(run())
    await asyncio.to_thread(began.wait, 20)
    renewing = asyncio.create_task(store.renew(leases, 600_000))
    async with asyncio.timeout(20):
        while await until() < leases[1].expires_ms + 500_000:
            pass
    assert not renewing.done()
    may_end.set()
    await writing
    renewed = await renewing
    assert [lease is not None and lease.epoch for lease in renewed] == [1, 1, 1]
    await busy.close()
    await store.close()


async def test_a_listing_survives_a_damaged_file(tmp_path: Path) -> None:
    """A session whose file is damaged is listed by the id in its name, and one without such a name is left out."""
    store = FileSessionStore(tmp_path)
    for session_id in ("a", "b", "x" * 400):
        await store.save_snapshot(SessionSnapshot(session_id=session_id, labels={"tenant_id": "t"}))
    for path in (tmp_path / "v1" / "sessions").iterdir():
        if path.name != "id_YQ.json":
            path.write_bytes(b"{")
    (tmp_path / "v1" / "sessions" / "id_!.json").write_bytes(b"{")
    assert [entry.session_id for entry in await store.list_sessions()] == ["a", "b"]
    assert [entry.session_id for entry in await store.list_sessions("t")] == ["a"]
    await store.close()


async def test_an_event_never_overtakes_an_older_transaction(postgres_dsn: str) -> None:
    """A commit is shown once nothing older can come before it, so that no cursor passes a commit by."""
    store = PostgresSessionStore(postgres_dsn, schema="ordered")
    await store.save_snapshot(SessionSnapshot(session_id="first"))
    slow = await connect(postgres_dsn)
    seen: list[str] = []

    async def follow() -> None:
        async for event in store.watch("0.0"):
            seen.append(event.session_id)
            if len(seen) == 3:
                return

    async with slow.transaction():
        await slow.execute("INSERT INTO ordered.events (kind, session_id, ref) VALUES ('session.saved', 'slow', '')")
        await store.save_snapshot(SessionSnapshot(session_id="quick"))
        following = asyncio.create_task(follow())
        await asyncio.wait([following], timeout=0.2)
        assert seen == ["first"]
    await slow.execute("SELECT pg_notify('ordered_events', '')")
    await asyncio.wait_for(following, 20)
    assert seen == ["first", "slow", "quick"]
    await slow.close()
    await store.close()


@pytest.fixture
def few_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (watching, sqlite, pgtables):
        monkeypatch.setattr(module, "KEPT", 20)


@pytest.mark.parametrize("kind", ["memory", "sqlite", "postgres"], indirect=True)
async def test_a_watcher_that_is_too_far_behind_is_told_of_the_gap(
    kind: str, few_are_kept: None, make_store: Callable[[], AnyStore]
) -> None:
    """Events that are no longer kept are a ``gap``, followed by those that are."""
    store = make_store()
    await store.admit_run("r", "s", "x")
    first = await anext(store.watch("0.0" if kind == "postgres" else "0"))
    for _ in range(300):
        await store.settle_run("r", {})
    kinds = []
    async for event in store.watch(first.cursor):
        kinds.append(event.kind)
        if len(kinds) == 3:
            break
    assert kinds == ["gap", "run.settled", "run.settled"]
    await store.close()


async def test_a_loop_that_ends_takes_its_connections_along(postgres_dsn: str) -> None:
    """A store that was used on a loop and not closed leaves no connection behind when that loop ends."""
    store = PostgresSessionStore(postgres_dsn, schema="loops")

    async def use() -> None:
        await store.save_snapshot(SessionSnapshot(session_id="s"))

    await asyncio.to_thread(lambda: asyncio.run(use()))
    admin = await connect(postgres_dsn)
    query = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'a3s_code'"
    async with asyncio.timeout(20):
        while await admin.fetchval(query):
            pass
    await admin.close()
    assert await store.load_snapshot("s") is not None
    await store.close()
