"""Disks that fail, and processes that are killed, at every operation of a run's appends."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from loghelp import all_facts, batches, beside, make_log, said

from a3s_code.core.facts import Fact
from a3s_code.errors import StoreError
from a3s_code.stores.factlog import FileFactLog
from a3s_code.stores.logfile import verify_log
from a3s_code.stores.syncer import Syncer
from a3s_code.testing.faults import FaultKind, FaultyDisk, on_disk


async def run(log: FileFactLog, acknowledged: list[Fact]) -> None:
    """Appends and syncs what is missing of the scripted run, as an engine would."""
    log.acquire()
    for batch in batches():
        missing = [each for each in batch if each.seq > log.position.seq]
        log.append(missing)
        await log.sync()
        acknowledged[:] = [each for each in all_facts() if each.seq <= log.position.seq]


async def count(tmp_path: Path, kind: FaultKind) -> int:
    disk = FaultyDisk(0, kind)
    with on_disk(disk):
        log = make_log(fresh(tmp_path, "counted"))
        await run(log, [])
        log.release()
    return disk.operations


def fresh(tmp_path: Path, name: str) -> Path:
    """A workspace of its own, so that making the directories is part of the run."""
    workspace = tmp_path / name
    workspace.mkdir()
    return workspace


@pytest.mark.parametrize("lasting", [False, True])
@pytest.mark.parametrize("kind", ["enospc", "eio", "torn", "fsync"])
async def test_a_disk_that_fails_at_any_operation_loses_nothing(tmp_path: Path, kind: FaultKind, lasting: bool) -> None:
    """Wherever the disk fails, the error is IO_ERROR, what was acknowledged is there, the file holds whole facts only
    for who reads it next, and the same session goes on once the disk works again."""
    operations = await count(tmp_path, kind)
    assert operations >= 7
    syncer = Syncer()
    for n in range(1, operations + 1):
        workspace = fresh(tmp_path, str(n))
        disk = FaultyDisk(n, kind, lasting=lasting)
        with on_disk(disk):
            log = make_log(workspace, syncer=syncer)
        acknowledged: list[Fact] = []
        try:
            await run(log, acknowledged)
        except StoreError as error:
            assert error.code == "IO_ERROR"  # noqa: PT017  some operations may fail without anybody noticing
        seen = list(make_log(workspace).read())
        assert seen == all_facts()[: len(seen)]
        assert len(seen) >= len(acknowledged)
        disk.heal()
        await run(log, acknowledged)
        log.release()
        assert acknowledged == all_facts()
        assert verify_log(log.path).facts == len(all_facts())
        assert verify_log(log.path).ok
        assert list(make_log(workspace).read()) == all_facts()
        assert set(beside(Path(log.path))) <= {"s1.lock"}, "the name of the holder may stay when removing it failed"


@pytest.mark.parametrize("kind", ["enospc", "torn"])
async def test_a_full_disk_leaves_the_last_whole_fact(tmp_path: Path, kind: FaultKind) -> None:
    """A write that didn't fit, or only half, is taken back at once: the file ends with the fact before it."""
    disk = FaultyDisk(0, kind)
    with on_disk(disk):
        log = make_log(tmp_path)
    log.acquire()
    log.append([said(1)])
    before = Path(log.path).read_bytes()
    full = FaultyDisk(1, kind, lasting=True)
    disk.__dict__.update(full.__dict__)
    for _ in range(3):
        with pytest.raises(StoreError, match=r"s1\.jsonl could not be written"):
            log.append([said(2), said(3)])
        assert Path(log.path).read_bytes() == before
        assert log.position.seq == 1
    disk.heal()
    log.append([said(2)])
    log.release()
    assert list(make_log(tmp_path).read()) == [said(1), said(2)]


class Forgetful(FaultyDisk):
    """A disk whose failed sync loses the pages, as some file systems do: the file is as at the last good sync."""

    def __init__(self) -> None:
        super().__init__(0, "fsync")
        self.fail_next = False
        self.good: dict[int, bytes] = {}

    def fdatasync(self, fd: int) -> None:
        inode = os.fstat(fd).st_ino
        path = f"/proc/self/fd/{fd}"
        if os.path.isdir(path):
            return
        if self.fail_next:
            self.fail_next = False
            Path(path).write_bytes(self.good[inode])
            raise OSError(5, "Input/output error")
        self.good[inode] = Path(path).read_bytes()


async def test_a_failed_sync_is_not_believed_later(tmp_path: Path) -> None:
    """After a failed sync the facts that it covered are written again, so that the next good sync really covers them:
    even where the failing disk threw them away."""
    disk = Forgetful()
    with on_disk(disk):
        log = make_log(tmp_path)
    log.acquire()
    log.append([said(1)])
    await log.sync()
    for seq in (2, 4):
        log.append([said(seq)])
        disk.fail_next = True
        with pytest.raises(StoreError, match="could not be synced"):
            await log.sync()
        assert [each.seq for each in make_log(tmp_path).read()] == list(range(1, seq))
        if seq == 2:
            log.append([said(3)])
        await log.sync()
        assert [each.seq for each in make_log(tmp_path).read()] == list(range(1, 4 if seq == 2 else 5))
    size = len(disk.good[os.stat(log.path).st_ino])
    assert size == log.position.offset
    log.release()
    assert len([each for each in os.listdir("/proc/self/fd") if _target(each) == os.path.realpath(log.path)]) == 0


def _target(fd: str) -> str:
    try:
        return os.readlink(f"/proc/self/fd/{fd}")
    except OSError:
        return ""


async def test_the_lock_is_kept_through_a_failed_sync(tmp_path: Path) -> None:
    """Opening the file anew never lets another writer in between."""
    with on_disk(FaultyDisk(1, "fsync")):
        log = make_log(tmp_path)
    log.acquire()
    log.append([said(1)])
    with pytest.raises(StoreError, match="could not be synced"):
        await log.sync()
    await log.sync()
    with pytest.raises(Exception, match="is being written by"):
        make_log(tmp_path).acquire()
    log.release()
    other = make_log(tmp_path)
    assert other.acquire() == [said(1)]
    other.release()


KILLED = """
import asyncio, sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from a3s_code.testing.faults import KillingDisk, on_disk
from loghelp import make_log
from test_log_faults import run

class Telling(list):
    def __setitem__(self, where, facts):
        print(len(facts), flush=True)

disk = KillingDisk(int(sys.argv[3]), sys.argv[4])
with on_disk(disk):
    log = make_log(Path(sys.argv[1]))
    asyncio.run(run(log, Telling()))
    log.release()
print("operations", disk.operations)
"""


def killed(workspace: Path, at: int, when: str) -> tuple[int, list[str]]:
    """Runs the script in a process that kills itself: its status, and what it said was acknowledged."""
    command = [sys.executable, "-c", KILLED, str(workspace), str(Path(__file__).parent), str(at), when]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode in (0, -9), done.stderr
    return done.returncode, done.stdout.splitlines()


async def outlives(tmp_path: Path, at: int, when: str) -> None:
    workspace = fresh(tmp_path, str(at))
    status, said_so = killed(workspace, at, when)
    assert status == -9
    acknowledged = int(said_so[-1]) if said_so else 0
    log = make_log(workspace)
    seen = list(log.read())
    assert seen == all_facts()[: len(seen)]
    assert len(seen) >= acknowledged
    await run(log, [])
    log.release()
    assert list(make_log(workspace).read()) == all_facts()


async def test_a_process_killed_in_the_middle_of_a_write_loses_nothing(tmp_path: Path) -> None:
    """Half a write at the end of the file: what was acknowledged is there, the rest is set aside and done again."""
    operations = int(killed(fresh(tmp_path, "counted"), 0, "middle")[1][-1].split()[1])
    for at in (operations // 2, operations // 2 + 1):
        await outlives(tmp_path, at, "middle")


@pytest.mark.prove
@pytest.mark.parametrize("when", ["before", "middle"])
async def test_a_process_killed_at_any_operation_loses_nothing(tmp_path: Path, when: str) -> None:
    """SIGKILL at every single operation of a run with three tools."""
    operations = int(killed(fresh(tmp_path, "counted"), 0, when)[1][-1].split()[1])
    assert operations > 20
    for at in range(1, operations):  # the last one is the removal of the holder's name, after the last fact
        await outlives(tmp_path, at, when)
