"""What a power cut may leave of a file store is never damage, and nothing is built on what it may take."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from a3s_code.errors import SessionBusy, StoreError
from a3s_code.ports.store import SessionSnapshot
from a3s_code.stores.disk import Disk
from a3s_code.stores.file import FileSessionStore
from a3s_code.testing.faults import on_disk
from a3s_code.testing.store_contract.helping import Story

STORY = Story(8)
KEY = bytes(range(32))


class Syncs(Disk):
    """Knows the names of what was synced."""

    def __init__(self) -> None:
        self.synced: list[str] = []
        self._names: dict[int, str] = {}

    def open(self, path: str, flags: int) -> int:
        fd = super().open(path, flags)
        self._names[fd] = os.path.basename(path)
        return fd

    def fdatasync(self, fd: int) -> None:
        super().fdatasync(fd)
        self.synced.append(self._names[fd])


@pytest.mark.parametrize("left", [0, 1, 100], ids=str)
@pytest.mark.parametrize("key", [None, KEY], ids=["plain", "encrypted"])
async def test_a_torn_renewal_takes_no_lease_with_it(left: int, key: bytes | None, tmp_path: Path) -> None:
    """When a power cut leaves a part of a lease's renewal, which isn't synced, the lease is as it was before that."""
    store = FileSessionStore(tmp_path, key)
    lease = await store.acquire_lease("s", "one", 600_000)
    assert await store.renew([lease], 900_000) != [None]
    (renewal,) = tmp_path.glob("v1/leases/*.renewed")
    renewal.write_bytes(renewal.read_bytes()[:left])
    with pytest.raises(SessionBusy):
        await store.acquire_lease("s", "other", 1)
    await store.save_snapshot(SessionSnapshot(session_id="s"), epoch=lease.epoch)
    assert await store.renew([lease], 900_000) != [None]
    await store.close()


async def test_a_lease_that_was_passed_on_has_no_renewal(tmp_path: Path) -> None:
    """A renewal lasts until its lease is released or taken over, whoever does that."""
    one, other = FileSessionStore(tmp_path), FileSessionStore(tmp_path)
    lease = await one.acquire_lease("s", "one", 600_000)
    await one.renew([lease], 900_000)
    assert await other.release(lease)
    taken = await other.acquire_lease("s", "other", 600_000)
    assert taken.epoch == lease.epoch + 1
    assert await one.renew([lease], 900_000) == [None]
    assert await one.renew([taken], 900_000) != [None]
    await one.close()
    await other.close()


async def test_a_block_whose_beginning_was_lost_is_cut_off(tmp_path: Path) -> None:
    """A power cut may keep a block's end and not its beginning: it is no part of the log, unless another follows it."""
    store = FileSessionStore(tmp_path)
    await store.append_checkpoint("r", STORY.header("r", "s", 3), STORY.lines[:3])
    (path,) = tmp_path.glob("v1/loop_checkpoints/facts/*")
    whole = path.stat().st_size
    await store.append_checkpoint("r", STORY.header("r", "s", 5), STORY.lines[3:5])
    torn = bytearray(path.read_bytes())
    torn[whole : whole + 200] = bytes(200)
    path.write_bytes(torn)
    again = FileSessionStore(tmp_path)
    assert await again.append_checkpoint("r", STORY.header("r", "s", 8), STORY.lines[5:]) == 3
    assert await again.append_checkpoint("r", STORY.header("r", "s", 8), STORY.lines[3:]) == 8
    damaged = path.read_bytes().replace(b'{"before":', b'\0"before":', 1)
    path.write_bytes(damaged)
    reader = FileSessionStore(tmp_path)
    with pytest.raises(StoreError, match="is damaged at byte 0"):
        await reader.load_checkpoint("r")
    for each in (store, again, reader):
        await each.close()


async def test_facts_that_somebody_else_wrote_are_synced_before_they_are_built_on(tmp_path: Path) -> None:
    """A process that was killed may have written facts and not synced them: who sends them again does that."""
    one, other = FileSessionStore(tmp_path), FileSessionStore(tmp_path)
    await one.append_checkpoint("r", STORY.header("r", "s", 5), STORY.lines[:5])
    (path,) = tmp_path.glob("v1/loop_checkpoints/facts/*")
    for store, wanted in ((other, True), (other, False), (one, False)):
        with on_disk(Syncs()) as disk:
            assert isinstance(disk, Syncs)
            assert await store.append_checkpoint("r", STORY.header("r", "s", 5), STORY.lines[:5]) == 5
            assert (path.name in disk.synced, "facts" in disk.synced) == (wanted, wanted)
    await one.close()
    await other.close()


async def test_a_directory_that_somebody_else_made_is_synced_before_it_is_used(tmp_path: Path) -> None:
    """Each store syncs the way to its documents once: who made the directories may not have got so far."""
    one, other = FileSessionStore(tmp_path / "store"), FileSessionStore(tmp_path / "store")
    await one.save_snapshot(SessionSnapshot(session_id="s"))
    for store, wanted in ((other, True), (other, False)):
        with on_disk(Syncs()) as disk:
            assert isinstance(disk, Syncs)
            await store.save_snapshot(SessionSnapshot(session_id="s"))
            assert ({"store", "v1"} <= set(disk.synced)) == wanted
    await one.close()
    await other.close()


async def test_a_store_whose_directory_was_removed_begins_anew(tmp_path: Path) -> None:
    """A store that made its directories makes them again when somebody removes them."""
    store = FileSessionStore(tmp_path / "store")
    await store.save_snapshot(SessionSnapshot(session_id="s"))
    (tmp_path / "store").rename(tmp_path / "elsewhere")
    assert await store.load_snapshot("s") is None
    await store.save_snapshot(SessionSnapshot(session_id="s"))
    assert await store.load_snapshot("s") is not None
    await store.close()


async def test_a_deleted_session_s_facts_stay_deleted(tmp_path: Path) -> None:
    """The directory of a session's facts is synced when they are deleted."""
    store = FileSessionStore(tmp_path)
    await store.append_checkpoint("r", STORY.header("r", "s", 5), STORY.lines[:5])
    with on_disk(Syncs()) as disk:
        assert isinstance(disk, Syncs)
        assert await store.delete_session("s")
        assert "facts" in disk.synced
    await store.close()
