"""The syncer: who waits at one moment shares one sync, and nothing is left running."""

from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path

import pytest
from loghelp import make_log, said

from a3s_code.errors import StoreError
from a3s_code.stores.disk import Disk
from a3s_code.stores.syncer import Syncer
from a3s_code.testing.faults import FaultyDisk, on_disk


class SlowDisk(Disk):
    """Counts syncs; each waits until it is let through."""

    def __init__(self) -> None:
        self.synced: list[int] = []
        self.begun = threading.Semaphore(0)
        self.through = threading.Semaphore(0)
        self.closed: list[int] = []

    def fdatasync(self, fd: int) -> None:
        self.begun.release()
        assert self.through.acquire(timeout=20)
        self.synced.append(fd)

    def close(self, fd: int) -> None:
        self.closed.append(fd)


async def begun(disk: SlowDisk) -> None:
    assert await asyncio.to_thread(disk.begun.acquire, timeout=20)


async def test_waiters_share_one_sync(tmp_path: Path) -> None:
    """However many wait while a sync runs, one more sync a descriptor serves them all, and not before it began."""
    disk, syncer = SlowDisk(), Syncer()
    first = syncer.submit(disk, 1001)
    await begun(disk)
    others = [syncer.submit(disk, fd) for fd in (1001, 1002) for _ in range(50)]
    disk.through.release()
    await first
    await begun(disk)
    assert not any(each.done() for each in others)
    disk.through.release(2)
    await asyncio.gather(*others)
    assert disk.synced == [1001, 1001, 1002]


async def test_a_failure_reaches_those_who_wait_for_that_descriptor(tmp_path: Path) -> None:
    """One bad descriptor fails its own waiters only."""
    syncer = Syncer()
    good = os.open(tmp_path, os.O_RDONLY)
    bad = os.open(tmp_path, os.O_RDONLY)
    os.close(bad)
    outcome = await asyncio.gather(
        *[syncer.submit(Disk(), fd) for fd in (good, bad, good, bad)], return_exceptions=True
    )
    assert [type(each) for each in outcome] == [type(None), OSError, type(None), OSError]
    os.close(good)


async def test_a_descriptor_is_closed_only_when_nobody_waits(tmp_path: Path) -> None:
    """Closing while a sync is on its way never lets the number be used for another file too early."""
    disk, syncer = SlowDisk(), Syncer()
    waiting = syncer.submit(disk, 1001)
    await begun(disk)
    again = syncer.submit(disk, 1001)
    syncer.close(disk, 1001)
    syncer.close(disk, 1002)
    assert disk.closed == [1002]
    disk.through.release()
    await waiting
    assert disk.closed == [1002]
    disk.through.release()
    await again
    assert disk.closed == [1002, 1001]


def workers() -> list[threading.Thread]:
    return [each for each in threading.enumerate() if each.name == "a3s-code-sync"]


def test_the_thread_is_lazy_and_ends_when_idle(tmp_path: Path) -> None:
    """No thread before the first sync, none after a while without one, a new one when it is needed again."""
    before = workers()
    syncer = Syncer(idle_seconds=0.001)
    fd = os.open(tmp_path, os.O_RDONLY)

    async def sync() -> None:
        await syncer.submit(Disk(), fd)

    for _ in range(3):
        assert [each for each in workers() if each not in before] == []
        asyncio.run(sync())
        for worker in workers():
            if worker not in before:
                assert worker.daemon
                worker.join(20)
    os.close(fd)


def test_loops_in_several_threads_share_it(tmp_path: Path) -> None:
    """Each waiter is woken on its own loop; a loop that ended without waiting hinders nobody."""
    syncer = Syncer()
    disk = SlowDisk()
    done: list[int] = []

    async def leave() -> None:
        syncer.submit(disk, 1000)

    async def sync(fd: int) -> None:
        await syncer.submit(disk, fd)
        done.append(fd)

    asyncio.run(leave())
    threads = [threading.Thread(target=lambda fd=fd: asyncio.run(sync(fd))) for fd in (1, 2, 3)]
    for thread in threads:
        thread.start()
    disk.through.release(4)
    for thread in threads:
        thread.join(20)
    assert sorted(done) == [1, 2, 3]


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_child_has_a_syncer_of_its_own(tmp_path: Path) -> None:
    """The child of a process that synced can sync too."""
    syncer = Syncer()
    fd = os.open(tmp_path, os.O_RDONLY)

    async def sync() -> None:
        await asyncio.wait_for(syncer.submit(Disk(), fd), 20)

    asyncio.run(sync())
    child = os.fork()
    if child == 0:
        code = 1
        try:
            asyncio.run(sync())
            code = 0
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    os.close(fd)


async def test_nothing_is_synced_twice_or_without_need(tmp_path: Path) -> None:
    """A sync with nothing new is free, and with durability "os" nothing is ever synced."""
    with on_disk(FaultyDisk(0, "fsync")) as disk:
        assert isinstance(disk, FaultyDisk)
        log = make_log(tmp_path)
        await log.sync()
        log.acquire()
        assert disk.operations == 0
        log.append([said(1)])
        await log.sync()
        first = disk.operations
        await log.sync()
        assert disk.operations == first
        log.append([said(2), said(3)])
        await asyncio.gather(*[log.sync() for _ in range(20)])
        assert first < disk.operations <= first + 20
        log.release()
        await log.sync()
        before = disk.operations
        quick = make_log(tmp_path, "s2", durability="os")
        quick.acquire()
        quick.append([said(1)])
        await quick.sync()
        quick.release()
        assert disk.operations == before
    assert list(make_log(tmp_path, "s2").read()) == [said(1)]


async def test_the_entries_of_new_directories_are_synced_with_the_first_facts(tmp_path: Path) -> None:
    """A power cut can't take a file away whose facts were acknowledged: its directories are synced too."""
    synced: list[str] = []

    class Watching(Disk):
        def fdatasync(self, fd: int) -> None:
            synced.append(os.readlink(f"/proc/self/fd/{fd}"))
            super().fdatasync(fd)

    with on_disk(Watching()):
        log = make_log(tmp_path)
        log.acquire()
        log.append([said(1)])
        await log.sync()
        root = os.path.realpath(tmp_path)
        assert set(synced) == {root, f"{root}/.a3s", f"{root}/.a3s/effect-log", os.path.realpath(log.path)}
        synced.clear()
        log.append([said(2)])
        await log.sync()
        assert synced == [os.path.realpath(log.path)]
        log.release()


class Gated(FaultyDisk):
    """Fails the first sync, once it is let through."""

    def __init__(self) -> None:
        super().__init__(1, "fsync")
        self.through = threading.Event()

    def fdatasync(self, fd: int) -> None:
        assert self.through.wait(20)
        super().fdatasync(fd)


async def test_a_waiter_that_is_cancelled_hides_no_failure(tmp_path: Path) -> None:
    """A failed sync counts for everybody that it covered, even when who asked for it has gone."""
    with on_disk(Gated()) as disk:
        assert isinstance(disk, Gated)
        log = make_log(tmp_path)
        log.acquire()
        log.append([said(1)])
        first = asyncio.ensure_future(log.sync())
        await asyncio.sleep(0)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        second = asyncio.ensure_future(log.sync())
        await asyncio.sleep(0)
        disk.through.set()
        with pytest.raises(StoreError, match="could not be synced"):
            await second
        await log.sync()
        log.release()
    assert list(make_log(tmp_path).read()) == [said(1)]
