"""What stores keep can be read by every later version, and nothing else is read as if it were that."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from storedsamples import DATA, SAMPLES, STORY, dumped, fill
from storehelp import KEY, AnyStore, connect

from a3s_code.core.branches import StoredFact, walk
from a3s_code.core.documents import AnyDocument, decode, digest_of, encode
from a3s_code.errors import CodeError, StoreError
from a3s_code.ports.store import Checkpoint, CheckpointHeader, ControlReceipt, ControlRequest, SessionSnapshot
from a3s_code.stores.file import FileSessionStore
from a3s_code.stores.postgres import PostgresSessionStore
from a3s_code.stores.sqlite import SqliteSessionStore
from a3s_code.stores.transaction import About, Kind, Transaction

pytest_plugins = ["storefixtures"]

SESSION = "golden/λ"
DOCUMENTS = [pytest.param(name, document, id=name) for name, document in SAMPLES.items()]


@pytest.mark.parametrize(("name", "document"), DOCUMENTS)
def test_a_document_of_version_1_is_read_as_it_was_meant(name: str, document: AnyDocument) -> None:
    """A file that the first version wrote gives the document it was made from, and is written again byte by byte."""
    data = (DATA / f"{name}-v1.json").read_bytes()
    read = decode(type(document), data, name)  # type: ignore[type-var]  # one of the kinds, as each sample is
    if isinstance(document, SessionSnapshot):
        document = msgspec.structs.replace(document, digest=digest_of(data))
    assert read == document
    assert encode(read) == data


@pytest.mark.parametrize("golden", ["file-store", "file-store-encrypted", "sqlite-v1.db", "postgres-v1.sql"])
async def test_a_store_of_version_1_is_read(golden: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """What the first version of each store wrote (a directory, a database) gives every document that is in it, and can
    be gone on with."""
    store = await opened(golden, tmp_path, request)
    snapshot = await store.load_snapshot("golden/λ")
    assert snapshot is not None
    assert msgspec.structs.replace(snapshot, digest="") == SAMPLES["snapshot"]
    assert await store.load_checkpoint("r1") == Checkpoint(header(), STORY.lines)
    run = await store.load_run("r1")
    assert run is not None
    assert run.record == {"id": "r1", "status": "completed"}
    assert await store.load_workflow("w1") == SAMPLES["workflow"]
    receipt = await store.load_receipt("golden/λ", "q1")
    assert receipt is not None
    assert receipt.state == "applied"
    assert [entry.session_id for entry in await store.list_sessions("acme")] == ["golden/λ"]
    assert await store.save_snapshot_cas(snapshot, snapshot.digest) == snapshot.digest
    assert await store.append_checkpoint("r1", header(), STORY.lines[3:]) == 5
    assert (await store.acquire_lease("golden/λ", "h", 1000)).epoch == 1
    assert await store.delete_session("golden/λ")
    assert await store.list_checkpoints() == []
    await store.close()


async def test_what_is_written_is_still_version_1(postgres_dsn: str, tmp_path: Path) -> None:
    """A database that is filled today is laid out like the one that is kept, table by table and byte by byte: another
    layout needs another version."""
    await fill(PostgresSessionStore(postgres_dsn, schema="layout"))
    assert await dumped(postgres_dsn, "layout") == (DATA / "postgres-v1.sql").read_text()
    await fill(SqliteSessionStore(tmp_path / "new.db"))
    told = []
    for path in (shutil.copy(DATA / "sqlite-v1.db", tmp_path / "old.db"), tmp_path / "new.db"):
        connection = sqlite3.connect(path)
        asked = ("FROM sqlite_master", "FROM documents ORDER BY kind, key", "FROM facts ORDER BY seq")
        told.append([connection.execute(f"SELECT * {each}").fetchall() for each in asked])
        connection.close()
    assert told[0] == told[1]


async def opened(golden: str, directory: Path, request: pytest.FixtureRequest) -> AnyStore:
    """A store on a copy of what the first version wrote."""
    if golden == "postgres-v1.sql":
        dsn, schema = request.getfixturevalue("postgres_dsn"), f"golden_{os.getpid()}"
        connection = await connect(dsn)
        await connection.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE; CREATE SCHEMA {schema}")
        await connection.execute((DATA / golden).read_text().replace("{s}", schema))
        await connection.close()
        return PostgresSessionStore(dsn, schema=schema)
    copy = directory / golden
    if golden == "sqlite-v1.db":
        shutil.copy(DATA / golden, copy)
        return SqliteSessionStore(copy)
    shutil.copytree(DATA / golden, copy)
    return FileSessionStore(copy, KEY if "encrypted" in golden else None)


def header() -> CheckpointHeader:
    found = SAMPLES["checkpoint"]
    assert isinstance(found, CheckpointHeader)
    return found


def test_the_digest_is_that_of_the_canonical_content() -> None:
    """The digest is the SHA-256 of the sorted, compact JSON without it, so that others can compute it."""
    data = encode(SAMPLES["snapshot"])
    members = json.loads(data)
    digest = members.pop("digest")
    plain = json.dumps(members, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    assert digest == hashlib.sha256(plain.encode()[:-1]).hexdigest()


async def plant(store: AnyStore, kind: Kind, key: str, data: bytes) -> None:
    """Puts bytes where a store keeps a document."""

    async def rule(tx: Transaction) -> None:
        await tx.put(kind, key, data, About("s"))

    await store._backend.transact(("session:s", "run:r"), rule)


def sealed(data: bytes, old: bytes, new: bytes) -> bytes:
    """The document with other content and the digest of that."""
    body = data[: data.rindex(b',"digest"')].replace(old, new, 1)
    assert body not in data
    return b'%b,"digest":"%b"}' % (body, hashlib.sha256(body).hexdigest().encode())


def newer(document: AnyDocument) -> bytes:
    """The document as a version 2 might write it."""
    return encode(document).replace(b'"schema_version":1', b'"schema_version":2')


async def test_a_newer_document_is_refused_and_left_alone(make_store: Callable[[], AnyStore]) -> None:
    """A document of a later schema is SERIALIZATION_ERROR from whatever reads it, names its place, and stays."""
    store = make_store()
    for kind, key, call in (
        ("session", SESSION, lambda: store.load_snapshot(SESSION)),
        ("checkpoint", "r1", lambda: store.load_checkpoint("r1")),
        ("run", "r1", lambda: store.load_run("r1")),
        ("workflow", "w1", lambda: store.load_workflow("w1")),
        ("lease", SESSION, lambda: store.acquire_lease(SESSION, "h", 1000)),
        ("inbox", SESSION, lambda: store.load_receipt(SESSION, "q")),
    ):
        document = SAMPLES["snapshot" if kind == "session" else kind]
        await plant(store, kind, key, newer(document))  # type: ignore[arg-type]  # the names above are kinds
        for _ in range(2):
            with pytest.raises(StoreError, match=r"has schema version 2, .* use a newer a3s_code") as caught:
                await call()
            assert caught.value.code == "SERIALIZATION_ERROR"
            assert f"{kind} '{key}'" in str(caught.value)
    await store.close()


async def test_a_store_keeps_what_it_doesn_t_know(make_store: Callable[[], AnyStore]) -> None:
    """Members that a newer version put into a run record, a lease or an inbox are there after the store rewrote it."""
    store = make_store()
    run, inbox = SAMPLES["run"], SAMPLES["inbox"]
    lease = msgspec.structs.replace(SAMPLES["lease"], expires_ms=0)
    for kind, key, document in (("run", "r1", run), ("lease", SESSION, lease), ("inbox", SESSION, inbox)):
        newer_one = msgspec.structs.replace(document, more={"of_2040": kind})
        await plant(store, kind, key, encode(newer_one))  # type: ignore[arg-type]  # these are kinds
    await store.settle_run("r1", {"status": "failed"})
    epoch = (await store.acquire_lease(SESSION, "h", 1000)).epoch
    await store.post_control(SESSION, ControlRequest("q2", "steer"))
    await store.take_control(SESSION, epoch)
    await store.answer_control(SESSION, ControlReceipt("q2", "steer", "applied"), epoch=epoch)

    async def read(tx: Transaction) -> list[bytes | None]:
        names: list[tuple[Kind, str]] = [("run", "r1"), ("lease", SESSION), ("inbox", SESSION)]
        return [await tx.get(*name) for name in names]

    kept = [json.loads(data or b"{}") for data in await store._backend.transact((), read)]
    assert [each["of_2040"] for each in kept] == ["run", "lease", "inbox"]
    assert kept[0]["record"] == {"status": "failed"}
    assert kept[2]["entries"][0]["added_later"] == 1
    await store.close()


@pytest.mark.parametrize(
    "how", ["cut", "edited", "no JSON", "no object", "wrong member", "another session", "no digest"]
)
async def test_a_damaged_snapshot_is_named_and_left_alone(how: str, make_store: Callable[[], AnyStore]) -> None:
    """A snapshot that is not as it was written is SERIALIZATION_ERROR naming its place, again and again."""
    store, good = make_store(), encode(SAMPLES["snapshot"])
    bad = {
        "cut": good[:-9],
        "edited": good.replace(b"gpt-x", b"gpt-y"),
        "no JSON": b"\x80\x04\x95cos\nsystem\n.",
        "no object": b"[1]",
        "wrong member": sealed(good, b'"saved_ms":', b'"saved_ms":"x","y":'),
        "another session": sealed(good, b'"session_id":"golden', b'"session_id":"molten'),
        "no digest": good[: good.rindex(b',"digest"')] + b"}",
    }[how]
    await store.save_snapshot(SessionSnapshot(session_id="other"))
    await plant(store, "session", SESSION, bad)
    for _ in range(2):
        with pytest.raises(StoreError, match="is damaged") as caught:
            await store.load_snapshot(SESSION)
        assert caught.value.code == "SERIALIZATION_ERROR"
        if isinstance(store, FileSessionStore):
            assert "/v1/sessions/id_Z29sZGVuL867.json" in str(caught.value)
    assert [entry.session_id for entry in await store.list_sessions()] == [SESSION, "other"]
    assert await store.load_snapshot("other") is not None
    await store.close()


def test_what_is_no_json_is_refused() -> None:
    """A snapshot that can't be plain JSON is SERIALIZATION_ERROR before anything is written."""
    endless: list[object] = []
    endless.append(endless)
    for bad in (object(), endless):
        with pytest.raises(StoreError) as caught:
            encode(SessionSnapshot(session_id="s", options={"bad": bad}))  # type: ignore[dict-item]  # that is the point
        assert caught.value.code == "SERIALIZATION_ERROR"


def test_half_characters_become_whole() -> None:
    """Text that is no Unicode is stored with U+FFFD, so that no snapshot fails over it."""
    data = encode(SessionSnapshot(session_id="s", model="a\ud800b"))
    assert decode(SessionSnapshot, data, "here").model == "a\ufffdb"


def test_a_log_with_a_missing_fact_is_no_log() -> None:
    """Facts are only given back as a whole: with one missing there is no log."""
    rows = [StoredFact(n, f"s{n}", f"s{n - 1}" if n > 1 else "", b"%d" % n) for n in (1, 2, 3)]
    assert walk(rows, 3, "s3") == [b"1", b"2", b"3"]
    assert walk([rows[0], rows[2]], 3, "s3") is None


async def test_ids_are_checked_before_anything_is_opened(make_store: Callable[[], AnyStore]) -> None:
    """An id that can't be one is INVALID_REQUEST from every method that takes one."""
    store = make_store()
    for work in (
        store.load_snapshot(""),
        store.save_snapshot(SessionSnapshot(session_id="a\0b")),
        store.load_checkpoint("x" * 1001),
        store.acquire_lease("s", "", 1000),
        store.list_sessions(limit=0),
    ):
        with pytest.raises(CodeError) as caught:
            await work
        assert caught.value.code == "INVALID_REQUEST"
    await store.close()
