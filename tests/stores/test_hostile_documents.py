"""Bytes that somebody else put into a store are refused as what they are (cases C19, C20)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from storedsamples import SAMPLES, STORY
from storehelp import AnyStore

from a3s_code import Agent, FileSessionStore, MemorySessionStore
from a3s_code.core import documents
from a3s_code.core.content import JsonObject
from a3s_code.core.documents import DEEPEST, AnyDocument, SessionSnapshot, decode, encode
from a3s_code.errors import CodeError, StoreError
from a3s_code.stores.transaction import About, Kind, Transaction
from a3s_code.testing import ScriptedModel, call

pytest_plugins = ["storefixtures"]

SAMPLE = encode(SAMPLES["snapshot"])


def nested(levels: int) -> list[Any]:
    made: list[Any] = []
    for _ in range(levels - 1):
        made = [made]
    return made


def sealed(body: bytes) -> bytes:
    """What is before the closing brace, with the digest of that: only content tells it from a document of ours."""
    return b'%b,"digest":"%b"}' % (body, hashlib.sha256(body).hexdigest().encode())


def changed(old: bytes, new: bytes) -> bytes:
    body = SAMPLE[: SAMPLE.rindex(b',"digest"')]
    assert old in body
    return sealed(body.replace(old, new, 1))


HOSTILE: dict[str, Callable[[], bytes]] = {
    "a pickle that names a callable": lambda: (
        b"\x80\x04\x95\x1d\x00\x00\x00\x00\x00\x00\x00\x8c\x05posix\x8c\x06system\x93."
    ),
    "a pickle in text": lambda: b"cos\nsystem\n(S'true'\ntR." + b"#" * 99,
    "a marker for another codec": lambda: changed(b'"ratio":0.8', b'"ratio":{"py/object":"os.system"}, "x":1'),
    "half a character": lambda: changed(b"gpt-x", b"gpt-\\ud800"),
    "bytes that are no text": lambda: changed(b"gpt-x", b"gpt-\xff\xfe"),
    "a number that is none": lambda: changed(b'"saved_ms":1700000000000', b'"saved_ms":NaN'),
    "a number past all bounds": lambda: changed(b'"saved_ms":1700000000000', b'"saved_ms":1e999'),
    "a number of too many digits": lambda: changed(b'"saved_ms":1700000000000', b'"saved_ms":' + b"9" * 6000),
    "too deep to be read": lambda: changed(b'"step_limit":32', b'"step_limit":' + b"[" * 100_000 + b"]" * 100_000),
    "too deep to be used": lambda: changed(b'"step_limit":32', b'"step_limit":' + b"[" * 900 + b"]" * 900),
    "the same member twice": lambda: changed(b'"step_limit":32', b'"step_limit":32,"step_limit":1000'),
    "the version twice": lambda: changed(b'"schema_version":1', b'"schema_version":2,"schema_version":1'),
    "the same text spelled otherwise": lambda: changed(b"gpt-x", b"\\u0067pt-x"),
    "blanks between members": lambda: changed(b'"step_limit":32', b'"step_limit": 32'),
    "a version that is a text": lambda: changed(b'"schema_version":1', b'"schema_version":"1"'),
    "a version that is true": lambda: changed(b'"schema_version":1', b'"schema_version":true'),
    "a text for a list": lambda: changed(b'"traces":[', b'"traces":"","x":['),
    "a number for a label": lambda: changed(b'"tenant_id":"acme"', b'"tenant_id":7'),
    "a list for an object": lambda: changed(b'"fact_log":{', b'"fact_log":[],"g":{'),
    "nothing": lambda: b"",
    "only zeros": lambda: b"\0" * 4096,
}


async def plant(store: AnyStore, kind: Kind, key: str, data: bytes) -> None:
    """Puts bytes where a store keeps a document."""

    async def rule(tx: Transaction) -> None:
        await tx.put(kind, key, data, About("s"))

    await store._backend.transact(("session:s", "run:r"), rule)


@pytest.mark.parametrize("how", HOSTILE)
def test_only_what_we_write_is_read(how: str) -> None:
    """Whatever is no document is SERIALIZATION_ERROR that names its place, whoever made a good digest for it."""
    for _ in range(2):
        with pytest.raises(StoreError, match=r"^here is damaged: ") as caught:
            decode(SessionSnapshot, HOSTILE[how](), "here")
        assert caught.value.code == "SERIALIZATION_ERROR"
        assert len(str(caught.value)) < 500


async def test_a_store_refuses_it_and_leaves_it_alone(make_store: Callable[[], AnyStore]) -> None:
    """From every store the same error, again and again, while everything else can be read."""
    store = make_store()
    await store.save_snapshot(SessionSnapshot(session_id="other"))
    for how in ("a pickle in text", "half a character", "the same member twice", "too deep to be used"):
        await plant(store, "session", "golden/λ", HOSTILE[how]())
        for _ in range(2):
            with pytest.raises(StoreError, match="is damaged") as caught:
                await store.load_snapshot("golden/λ")
            assert caught.value.code == "SERIALIZATION_ERROR"
        assert {entry.session_id for entry in await store.list_sessions()} >= {"other"}
    assert await store.load_snapshot("other") is not None
    await store.close()


async def test_a_huge_line_that_was_cut_short(tmp_path: Path) -> None:
    """A huge document without its end is refused like a small one, and so is one with a byte changed in its middle."""
    store = FileSessionStore(tmp_path)
    await store.save_snapshot(SessionSnapshot(session_id="s", messages=[{"text": "x" * 20_000_000}]))
    (path,) = (tmp_path / "v1" / "sessions").iterdir()
    with path.open("r+b") as file:
        file.seek(10_000_000)
        file.write(b"y")
    with pytest.raises(StoreError, match="it is not as it was written"):
        await store.load_snapshot("s")
    with path.open("r+b") as file:
        file.truncate(19_000_000)
    with pytest.raises(StoreError, match="is damaged"):
        await store.load_snapshot("s")
    assert path.stat().st_size == 19_000_000
    await store.close()


def test_what_could_not_be_read_again_is_not_written() -> None:
    """A document that is nested too deep is refused before anything is stored, one at the bound comes back."""
    good = SessionSnapshot(session_id="s", options={"x": nested(DEEPEST - 2)})
    assert decode(SessionSnapshot, encode(good), "here").options == good.options
    with pytest.raises(StoreError, match="nested more than 256 deep") as caught:
        encode(SessionSnapshot(session_id="s", options={"x": nested(DEEPEST)}))
    assert caught.value.code == "SERIALIZATION_ERROR"
    many = SessionSnapshot(session_id="s", messages=[{"text": '[{"\\', "x": [[n]]} for n in range(500)])
    assert decode(SessionSnapshot, encode(many), "here").messages == many.messages


@pytest.mark.parametrize("name", SAMPLES)
def test_every_kind_is_as_strict(name: str) -> None:
    """Of each kind of document, a cut one, another one's bytes, and a member of a wrong type are refused."""
    document: AnyDocument = SAMPLES[name]
    data = encode(document)
    body = data[: data.rindex(b',"digest"')]
    field = "checkpoint_ms" if name == "workflow" else "run_id" if name in ("checkpoint", "run") else "session_id"
    members = json.loads(data)
    wrong = json.dumps({**members, field: [1]}, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    wrong = sealed(b"".join(wrong.rpartition(b"}")[:1]).replace(b'"digest":"%b",' % members["digest"].encode(), b""))
    for bad in (data[:-1], data + b"\n", body, sealed(b'{"schema_version":1'), wrong):
        with pytest.raises(StoreError) as caught:
            decode(type(document), bad, "here")  # type: ignore[type-var]  # one of the kinds, as each sample is
        assert caught.value.code == "SERIALIZATION_ERROR"


def mutants(members: JsonObject) -> Iterator[tuple[str, bytes]]:
    """The document with each member, and members of members, of another type, and a digest that fits."""
    odd: list[Any] = [None, -1, 10**30, "x", [[]], {"a": 1}, nested(200)]

    def places(value: Any, path: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
        inner = value.items() if isinstance(value, dict) else enumerate(value[:1]) if isinstance(value, list) else ()
        for key, member in inner:
            yield (*path, key)
            yield from places(member, (*path, key))

    for number, path in enumerate(places(members, ())):
        if path[0] in ("digest", "schema_version", "options", "session_id"):
            continue
        for value in (odd[number % len(odd)], odd[(number + 3) % len(odd)]):
            copy = json.loads(json.dumps(members))
            place = copy
            for key in path[:-1]:
                place = place[key]
            place[path[-1]] = value
            del copy["digest"]
            body = json.dumps(copy, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()[:-1]
            yield f"{path} = {value!r:.40}", sealed(body)


async def test_a_session_is_restored_or_refused(agent: Agent, workspace: Path, tmp_path: Path) -> None:
    """A snapshot that fits its digest and not its purpose opens, or is SERIALIZATION_ERROR: nothing else is raised."""
    store = MemorySessionStore()
    model = ScriptedModel([[call("ls", {})], "done"])
    session = await agent.session_async(
        workspace, session_id="s", session_store=store, auto_save=True, llm_client=model, log_durability="os"
    )
    await session.send_async("go")
    await session.close_async()

    async def read(tx: Transaction) -> bytes:
        return await tx.get("session", "s") or b""

    members = json.loads(await store._backend.transact((), read))
    refused: list[tuple[str, str]] = []
    for number, (what, data) in enumerate(mutants(members)):
        (elsewhere := tmp_path / str(number)).mkdir()
        bad = MemorySessionStore()
        await plant(bad, "session", "s", data)
        try:
            again = await agent.session_async(elsewhere, session_id="s", session_store=bad, llm_client=model)
            for run in again.history() and again.runs():
                again.run_events(str(run["id"]))
            again.trace_events()
            await again.close_async()
        except CodeError as error:
            refused.append((error.code, what))
    assert [each for each in refused if each[0] != "SERIALIZATION_ERROR"] == []
    assert len(refused) > 50


async def test_facts_that_are_none(tmp_path: Path) -> None:
    """A file of facts whose blocks fit their sums and hold something else is refused, and so is one that runs
    backwards."""
    store = FileSessionStore(tmp_path)
    await store.append_checkpoint("r", STORY.header("r", "s", 5), STORY.lines)
    (path,) = (tmp_path / "v1" / "loop_checkpoints" / "facts").iterdir()
    for body, size in ((b"{}", 2), (b"\xff", 1), (b"[" * 5000, 5000), (b'{"seq":"1","sum":1}', 19), (b"", -3)):
        head = {"before": "", "bytes": size, "sum": hashlib.sha256(body).hexdigest()}
        path.write_bytes(json.dumps(head).encode() + b"\n" + body + b"\n")
        with pytest.raises(StoreError, match="damaged") as caught:
            await FileSessionStore(tmp_path).load_checkpoint("r")
        assert caught.value.code == "SERIALIZATION_ERROR"
        assert str(path) in str(caught.value)
    await store.close()


async def test_what_is_too_large_is_refused_before_anything_is_written(
    make_store: Callable[[], AnyStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A document past the bound is SERIALIZATION_ERROR that says both sizes, and the one that was stored stays."""
    store = make_store()
    digest = await store.save_snapshot(SessionSnapshot(session_id="s", saved_ms=1))
    monkeypatch.setattr(documents, "LARGEST", 5000)
    with pytest.raises(StoreError, match=r"SessionSnapshot can't be stored: it has 5,2\d\d bytes, .* may have 5,000"):
        await store.save_snapshot(SessionSnapshot(session_id="s", saved_ms=2, model="x" * 5000))
    found = await store.load_snapshot("s")
    assert found is not None
    assert (found.saved_ms, found.digest) == (1, digest)
    await store.close()
