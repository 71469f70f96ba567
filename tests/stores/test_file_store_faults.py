"""A file store survives a failing disk and a killed process at every operation."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

from a3s_code.errors import StoreError
from a3s_code.ports.store import Checkpoint, ControlRequest, RunAdmission, SessionSnapshot
from a3s_code.stores.file import FileSessionStore
from a3s_code.testing.faults import CountingDisk, FaultKind, FaultyDisk, KillingDisk, on_disk
from a3s_code.testing.store_contract.helping import Story

pytest_plugins = ["storefixtures"]

STORY = Story(8)
STEPS = 8


async def do(store: FileSessionStore, step: int) -> None:
    """One write of a session's life."""
    headers = [STORY.header("r", "s", upto) for upto in (3, 5, 8)]
    steps: list[Callable[[], Awaitable[object]]] = [
        lambda: store.save_snapshot(SessionSnapshot(session_id="s", saved_ms=1)),
        lambda: store.append_checkpoint("r", headers[0], STORY.lines[:3]),
        lambda: store.admit_run("d", "s", "x"),
        lambda: store.append_checkpoint("r", headers[1], STORY.lines[3:5]),
        lambda: store.save_snapshot(SessionSnapshot(session_id="s", saved_ms=2)),
        lambda: store.post_control("s", ControlRequest("q", "steer")),
        lambda: store.append_checkpoint("r", headers[2], STORY.lines[5:]),
        lambda: store.settle_run("d", {"status": "completed"}),
    ]
    await steps[step]()


class Seen(NamedTuple):
    """What a reader sees."""

    saved_ms: int | None
    checkpoint: Checkpoint | None
    run: RunAdmission | None


async def look(directory: Path) -> Seen:
    store = FileSessionStore(directory)
    snapshot = await store.load_snapshot("s")
    seen = Seen(snapshot.saved_ms if snapshot else None, await store.load_checkpoint("r"), await store.load_run("d"))
    await store.close()
    return seen


async def undisturbed(directory: Path) -> list[Seen]:
    """The states between the steps, from before the first to after the last."""
    store = FileSessionStore(directory)
    states = [await look(directory)]
    for step in range(STEPS):
        await do(store, step)
        states.append(await look(directory))
    await store.close()
    return states


async def with_fault(directory: Path, disk: FaultyDisk) -> tuple[int, Seen] | None:
    """Which step failed, and what a reader saw then. That step is done again, and the rest of them."""
    failed: tuple[int, Seen] | None = None
    codes = []
    store = FileSessionStore(directory)
    for step in range(STEPS):
        try:
            await do(store, step)
        except StoreError as error:
            codes.append(error.code)
            disk.heal()
            failed = (step, await look(directory))
            await do(store, step)
    await store.close()
    assert codes == ["IO_ERROR"] * (failed is not None)
    disk.heal()
    return failed


@pytest.mark.parametrize("fault", ["enospc", "eio", "torn", "fsync"])
async def test_a_failing_disk_leaves_the_old_or_the_new(fault: FaultKind, quick: Path) -> None:
    """Whichever operation of the disk fails, the write is reported, a reader sees the state before or after it, and the
    same write done again succeeds."""
    states = await undisturbed(quick / "undisturbed")
    at, hit = 0, 0
    while True:
        at += 1
        disk = FaultyDisk(at, fault)
        with on_disk(disk):
            failed = await with_fault(quick / f"{at}", disk)
            assert await look(quick / f"{at}") == states[-1], f"operation {at}"
        if failed is None:
            break
        hit += 1
        step, seen = failed
        assert seen in states[step : step + 2], f"operation {at}, step {step}"
    assert hit > (15 if fault != "torn" else 7)


KILLED = """
import asyncio, os, sys
sys.path.insert(0, {tests!r})
from test_file_store_faults import live
live(sys.argv[1])
"""


def live(directory: str) -> None:
    """Forks a process for every operation that it can be killed at, and prints how many steps each has done."""
    at, killed = 0, True
    while killed:
        at += 1
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            asyncio.run(_die(os.path.join(directory, str(at)), at, write))
            os._exit(0)
        os.close(write)
        killed = os.waitpid(child, 0)[1] != 0
        print(at, len(os.read(read, 100)))
        os.close(read)


async def _die(directory: str, at: int, told: int) -> None:
    with on_disk(KillingDisk(at, "middle")):
        store = FileSessionStore(directory)
        for step in range(STEPS):
            await do(store, step)
            os.write(told, b".")


async def test_a_killed_process_loses_nothing_it_was_told_of(quick: Path) -> None:
    """Killed at any operation of the disk, a store holds what was acknowledged, at most one write more, and goes on."""
    states = await undisturbed(quick / "undisturbed")
    script = KILLED.format(tests=str(Path(__file__).parent))
    done = subprocess.run([sys.executable, "-c", script, str(quick)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    assert len(lines) > 100
    for at, acknowledged in lines:
        directory, steps = quick / at, int(acknowledged)
        assert await look(directory) in states[steps : steps + 2], f"operation {at}"
        store = FileSessionStore(directory)
        for step in range(STEPS):
            await do(store, step)
        await store.close()
        assert await look(directory) == states[-1], f"operation {at}"


async def test_a_block_of_facts_that_was_cut_is_cut_off(tmp_path: Path) -> None:
    """A block whose end is missing is no part of the log, and the next checkpoint writes in its place."""
    store = FileSessionStore(tmp_path)
    await store.append_checkpoint("r", STORY.header("r", "s", 3), STORY.lines[:3])
    (path,) = tmp_path.glob("v1/loop_checkpoints/facts/*")
    whole = path.read_bytes()
    await store.append_checkpoint("r", STORY.header("r", "s", 5), STORY.lines[3:5])
    longer = path.read_bytes()
    for cut in (len(whole) + 1, len(whole) + 60, len(longer) - 1):
        path.write_bytes(longer[:cut])
        for reader in (store, FileSessionStore(tmp_path)):
            with pytest.raises(StoreError, match=r"facts before number 5 are missing"):
                await reader.load_checkpoint("r")
            assert await reader.append_checkpoint("r", STORY.header("r", "s", 8), STORY.lines[5:]) == 3
            await reader.close()
        assert await store.append_checkpoint("r", STORY.header("r", "s", 5), STORY.lines[3:5]) == 5
        assert path.read_bytes() == longer
    await store.close()


async def test_facts_that_were_changed_are_found(tmp_path: Path) -> None:
    """A byte changed before the last block is an error that names the file and the place, and the file stays."""
    store = FileSessionStore(tmp_path)
    for upto in (3, 5):
        await store.append_checkpoint("r", STORY.header("r", "s", upto), STORY.lines[:upto])
    (path,) = tmp_path.glob("v1/loop_checkpoints/facts/*")
    damaged = path.read_bytes().replace(b"1 said", b"1 sung")
    path.write_bytes(damaged)
    with pytest.raises(StoreError, match=rf"{path} is damaged at byte 0") as caught:
        await store.load_checkpoint("r")
    assert caught.value.code == "SERIALIZATION_ERROR"
    assert path.read_bytes() == damaged
    await store.close()


async def test_a_file_made_anew_by_another_process_is_read_anew(tmp_path: Path) -> None:
    """A store that knows a session's facts notices that somebody deleted the session and began it again."""
    one, other = FileSessionStore(tmp_path), FileSessionStore(tmp_path)
    await one.append_checkpoint("r", STORY.header("r", "s", 3), STORY.lines[:3])
    await other.delete_session("s")
    new = Story(6, branch="another beginning ")
    await other.append_checkpoint("r", new.header("r", "s", 5), new.lines[:5])
    assert await one.append_checkpoint("r", STORY.header("r", "s", 4), STORY.lines[3:4]) == 0
    assert await one.append_checkpoint("r", new.header("r", "s", 6), new.lines[5:]) == 6
    assert await other.load_checkpoint("r") == Checkpoint(new.header("r", "s", 6), new.lines)
    await one.close()
    await other.close()


async def test_a_checkpoint_costs_what_is_new(tmp_path: Path) -> None:
    """The thousandth checkpoint of a session reads and writes as much as the second: its new facts and its header."""

    class Weighing(CountingDisk):
        moved = 0

        def write(self, fd: int, data: bytes) -> int:
            self.moved += len(data)
            return super().write(fd, data)

        def read(self, fd: int, count: int, at: int) -> bytes:
            data = super().read(fd, count, at)
            self.moved += len(data)
            return data

    story = Story(1000)
    moved, operations = [], []
    with on_disk(Weighing()) as disk:
        assert isinstance(disk, Weighing)
        store = FileSessionStore(tmp_path)
        at = 0
        for upto in (1, 2, 998, 999, 1000):
            disk.moved = disk.operations = 0
            await store.append_checkpoint("r", story.header("r", "s", upto), story.lines[at:upto])
            moved.append(disk.moved)
            operations.append(disk.operations)
            at = upto
        await store.close()
    assert operations[4] == operations[3] == operations[1]
    assert moved[4] < moved[1] + 200  # longer numbers, and the first block follows nothing


async def test_a_link_is_not_followed(tmp_path: Path) -> None:
    """A document that somebody made a link is refused, and what it points to is neither read nor written."""
    store = FileSessionStore(tmp_path / "store")
    await store.save_snapshot(SessionSnapshot(session_id="s"))
    (path,) = tmp_path.glob("store/v1/sessions/*")
    secret = tmp_path / "secret"
    path.rename(secret)
    path.symlink_to(secret)
    before = secret.read_bytes()
    with pytest.raises(StoreError) as caught:
        await store.load_snapshot("s")
    assert caught.value.code == "IO_ERROR"
    await store.save_snapshot(SessionSnapshot(session_id="s", saved_ms=5))
    assert secret.read_bytes() == before
    found = await store.load_snapshot("s")
    assert found is not None
    assert msgspec.structs.replace(found, digest="") == SessionSnapshot(session_id="s", saved_ms=5)
    await store.close()
