"""A file store with a key gives nothing away and takes nothing that it didn't write."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest
from storehelp import KEY

from a3s_code.errors import SessionConfigurationError, StoreError
from a3s_code.ports.store import ControlRequest, SessionSnapshot
from a3s_code.stores.file import FileSessionStore
from a3s_code.testing.store_contract.helping import Story

SECRET = "the word is xyzzy"
STORY = Story(3, branch=SECRET)


async def filled(directory: Path, key: bytes | str | None = KEY) -> FileSessionStore:
    store = FileSessionStore(directory, key)
    for session in ("s", "other"):
        await store.save_snapshot(SessionSnapshot(session_id=session, messages=[{"text": SECRET + session}]))
    await store.append_checkpoint("r", STORY.header("r", "s", 3, options={"x": SECRET}), STORY.lines)
    await store.post_control("s", ControlRequest("q", "steer", {"text": SECRET}))
    await store.acquire_lease("s", SECRET, 1000)
    return store


async def test_nothing_readable_is_on_the_disk(tmp_path: Path) -> None:
    """No file holds a word of what was stored, and files are for their owner only."""
    store = await filled(tmp_path)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) > 6
    for path in files:
        assert b"xyzzy" not in path.read_bytes()
        assert path.stat().st_mode & 0o077 == 0
    assert repr(store).endswith("encryption_key=…)")
    assert store.capabilities().encrypted_at_rest
    await store.close()


@pytest.mark.parametrize("where", ["v1/sessions/id_cw.json", "v1/loop_checkpoints/id_cg.json", "facts"])
async def test_a_changed_byte_is_found(where: str, tmp_path: Path) -> None:
    """Whichever byte of a file is changed, it isn't read, its name is told, and it is left as it is."""
    store = await filled(tmp_path)
    path = tmp_path / where
    if where == "facts":
        (path,) = tmp_path.glob("v1/loop_checkpoints/facts/*")
    good = path.read_bytes()
    for at in (0, 7, len(good) // 2, len(good) - 30, len(good) - 2):
        bad = good[:at] + bytes([good[at] ^ 1]) + good[at + 1 :]
        path.write_bytes(bad)
        with pytest.raises(StoreError) as caught:
            await (store.load_snapshot("s") if "sessions" in where else store.load_checkpoint("r"))
        assert caught.value.code == "SERIALIZATION_ERROR"
        assert where == "facts" or str(path) in str(caught.value)
        assert path.read_bytes() == bad
    path.write_bytes(good)
    assert await store.load_checkpoint("r") is not None
    await store.close()


async def test_a_file_can_t_pass_for_another(tmp_path: Path) -> None:
    """A session's file put in another's place is refused: content is bound to where it is kept."""
    store = await filled(tmp_path)
    shutil.copy(tmp_path / "v1/sessions/id_b3RoZXI.json", tmp_path / "v1/sessions/id_cw.json")
    with pytest.raises(StoreError, match=r"id_cw\.json can't be decrypted"):
        await store.load_snapshot("s")
    await store.close()


async def test_another_key_opens_nothing(tmp_path: Path) -> None:
    """With another key, or with none, everything is refused; with the same one in hexadecimal digits all is there."""
    await (await filled(tmp_path)).close()
    for key, why in ((bytes(32), "another key"), (None, "is encrypted: give the store its encryption_key")):
        store = FileSessionStore(tmp_path, key)
        with pytest.raises(StoreError, match=why):
            await store.load_snapshot("s")
        with pytest.raises(StoreError, match=why):
            await store.acquire_lease("s", "h", 1000)
        await store.close()
    store = FileSessionStore(tmp_path, KEY.hex())
    assert await store.load_snapshot("s") is not None
    await store.close()


async def test_a_plain_file_is_no_encrypted_one(tmp_path: Path) -> None:
    """A store with a key doesn't take a file that was written without one."""
    await (await filled(tmp_path, None)).close()
    store = FileSessionStore(tmp_path, KEY)
    with pytest.raises(StoreError, match="is not encrypted"):
        await store.load_snapshot("s")
    await store.close()


@pytest.mark.parametrize("key", [b"short", "", "no hex", KEY.hex()[:-1], bytes(33), 5])
def test_a_bad_key_is_refused_at_once(key: object) -> None:
    """What is no 256-bit key is SESSION_CONFIGURATION_ERROR when the store is made, and isn't repeated."""
    with pytest.raises(SessionConfigurationError, match="32 random bytes") as caught:
        FileSessionStore("x", key)  # type: ignore[arg-type]  # that is the point
    assert "no hex" not in str(caught.value)


async def test_a_missing_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the extra the first use says what to install, and nothing is written."""
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.ciphers.aead", None)
    store = FileSessionStore(tmp_path, KEY)
    with pytest.raises(SessionConfigurationError, match=r"install a3s-code-py\[encryption\]"):
        await store.save_snapshot(SessionSnapshot(session_id="s"))
    assert not list(tmp_path.rglob("*.json"))
    await store.close()
