"""Processes that share a store keep out of each other's way, whatever becomes of one of them."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from storehelp import maker

from a3s_code.errors import CodeError, SessionBusy
from a3s_code.ports.store import SessionSnapshot
from a3s_code.stores.lease import holder_name, is_dead
from a3s_code.testing.store_contract.helping import taken_over

pytest_plugins = ["storefixtures"]

CHILD = str(Path(__file__).parent / "storechild.py")


class Shared:
    """A storage, and processes that use it."""

    def __init__(self, kind: str, directory: Path, dsn: Callable[[], str]) -> None:
        self._arguments = (kind, str(directory), dsn() if kind == "postgres" else "", f"shared_{os.getpid()}")
        self._children: list[subprocess.Popen[str]] = []
        self.store = maker(kind, directory, lambda: self._arguments[2], self._arguments[3])()

    def child(self, job: str) -> subprocess.Popen[str]:
        command = [sys.executable, CHILD, *self._arguments, job]
        child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._children.append(child)
        return child

    def end(self) -> None:
        for child in self._children:
            child.kill()
            child.communicate()


def tell(child: subprocess.Popen[str]) -> None:
    assert child.stdin is not None
    child.stdin.write("go\n")
    child.stdin.flush()


def line(child: subprocess.Popen[str]) -> str:
    assert child.stdout is not None
    return child.stdout.readline().strip()


@pytest.fixture(params=["file", "sqlite", "postgres"])
def shared(request: pytest.FixtureRequest, quick: Path) -> Iterator[Shared]:
    found = Shared(request.param, quick, lambda: str(request.getfixturevalue("postgres_dsn")))
    yield found
    found.end()


async def test_one_process_admits_a_run(shared: Shared) -> None:
    """Of three processes that admit the same runs at once exactly one gets each."""
    await shared.store.delete_session("s")
    children = [shared.child("admit") for _ in range(3)]
    assert [line(child) for child in children] == ["ready"] * 3
    for child in children:
        tell(child)
    got: list[int] = []
    for child in children:
        while (said := line(child)) != "end":
            got.append(int(said))
    assert sorted(got) == list(range(30))
    await shared.store.close()


async def test_a_process_that_was_stopped_can_t_write_when_it_goes_on(shared: Shared) -> None:
    """A holder stopped past its lease finds that another has the session when it goes on, and writes nothing."""
    child = shared.child("hold")
    assert line(child) == "holding"
    child.send_signal(signal.SIGSTOP)
    lease = await taken_over(shared.store, "s", "parent")
    await shared.store.save_snapshot(SessionSnapshot(session_id="s", saved_ms=9), epoch=lease.epoch)
    child.send_signal(signal.SIGCONT)
    tell(child)
    assert line(child) == "LEASE_LOST"
    found = await shared.store.load_snapshot("s")
    assert found is not None
    assert found.saved_ms == 9
    await shared.store.release(lease)
    await shared.store.close()


async def test_the_lease_of_a_killed_process_is_void_at_once(shared: Shared) -> None:
    """While a process lives its session is busy; once it was killed nobody waits for its lease."""
    child = shared.child("die")
    assert line(child) == "holding"
    with pytest.raises(SessionBusy):
        await shared.store.acquire_lease("s", "parent", 1000)
    child.kill()
    child.wait()
    lease = await shared.store.acquire_lease("s", "parent", 1000)
    assert lease.holder == "parent"
    await shared.store.release(lease)
    await shared.store.close()


async def test_a_zombie_holds_nothing() -> None:
    """A process that ended and was not waited for is dead; other machines', other tables' and odd names never are."""
    read, write = os.pipe()
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=read)
    os.close(read)
    machine, _, _, token = holder_name("x").split("/")
    started = Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()[19]
    name = f"{machine}/{child.pid}/{started}/{token}"
    assert not is_dead(name)
    assert is_dead(f"{machine}/{child.pid}/1{started}/{token}")
    os.close(write)
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert is_dead(name)
    assert not is_dead(name.replace(machine, "elsewhere"))
    child.wait()
    assert is_dead(name)
    for odd in ("", "x", "a/b/c/d", f"{machine}/-1/2/x", f"{machine}/{10**30}/2/x", f"{machine}/²/2/x"):
        assert not is_dead(odd)


@pytest.mark.parametrize("after", [1, 7, 20])
async def test_a_killed_writer_leaves_an_sqlite_store_whole(after: int, tmp_path: Path) -> None:
    """Killed while it writes, a process leaves what it was told of and a database without a fault."""
    shared = Shared("sqlite", tmp_path, str)
    child = shared.child("write")
    told = 0
    while told < after:
        told = int(line(child))
    child.kill()
    rest, _ = child.communicate()
    told = int(rest.split()[-1]) if rest.split() else told
    found = await shared.store.load_snapshot("s")
    assert found is not None
    assert found.saved_ms in (told, told + 1)
    assert all([await shared.store.load_run(f"run-{number + 1}") for number in range(told)])
    await shared.store.save_snapshot(SessionSnapshot(session_id="s", saved_ms=1))
    await shared.store.close()
    connection = sqlite3.connect(tmp_path / "store.db")
    assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()
    shared.end()


async def test_a_full_disk_is_told_and_got_over(tmp_path: Path) -> None:
    """When an SQLite file can't grow any more a write is IO_ERROR, what is stored stays, and it goes on once it can."""
    shared = Shared("sqlite", tmp_path, str)
    child = shared.child("fill")
    code, number = line(child).split()
    assert (code, line(child)) == ("IO_ERROR", "after")
    assert int(number) > 2
    for session in ("s", f"s{int(number) - 1}", "after"):
        assert await shared.store.load_snapshot(session) is not None
    assert await shared.store.load_snapshot(f"s{number}") is None
    await shared.store.close()
    shared.end()


async def test_a_lease_can_t_be_stolen_by_name(shared: Shared) -> None:
    """Whoever gives a holder's name and another epoch renews and releases nothing."""
    lease = await shared.store.acquire_lease("named", "a", 60_000)
    with pytest.raises(CodeError):
        await shared.store.save_snapshot(SessionSnapshot(session_id="named"), epoch=lease.epoch - 1)
    await shared.store.release(lease)
    again = await shared.store.acquire_lease("named", "a", 60_000)
    assert await shared.store.renew([lease], 60_000) == [None]
    assert not await shared.store.release(lease)
    assert await shared.store.release(again)
    await shared.store.close()
