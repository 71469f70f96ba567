"""Whoever opens or leaves an SQLite store takes nothing from those who have it open."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from a3s_code.errors import StoreError
from a3s_code.ports.store import RunAdmission
from a3s_code.stores.sqlite import SqliteSessionStore

pytest_plugins = ["storefixtures"]

PASSING = """
import asyncio, sys
from a3s_code.stores.sqlite import SqliteSessionStore

async def pass_by():
    store = SqliteSessionStore(sys.argv[1])
    await store.load_run("before-0")
    await store.admit_run("passing", "s", "x")
    await store.close()

asyncio.run(pass_by())
"""


async def test_a_process_that_leaves_takes_no_commits_with_it(tmp_path: Path) -> None:
    """What is acknowledged stays, also when in between another process used the same file and closed it."""
    path = tmp_path / "store.db"
    one, two = SqliteSessionStore(path), SqliteSessionStore(path)
    for number, store in enumerate((one, two)):
        await store.admit_run(f"before-{number}", "s", "x")
        assert await store.load_run("before-0") is not None
    subprocess.run([sys.executable, "-c", PASSING, str(path)], check=True)
    await one.admit_run("after", "s", "x")
    other = SqliteSessionStore(path)
    for store in (one, two, other):
        assert await store.load_run("after") == RunAdmission(run_id="after", session_id="s", input_digest="x")
    for store in (one, two, other):
        await store.close()


async def test_a_new_file_may_be_opened_by_many_at_once(quick: Path) -> None:
    """Stores that make the same file at once all get it."""
    for number in range(20):
        stores = [SqliteSessionStore(quick / f"{number}.db") for _ in range(4)]
        found = await asyncio.gather(*(store.admit_run("r", "s", "x") for store in stores), stores[0].load_run("r"))
        assert found[:4].count(None) == 1
        await asyncio.gather(*(store.close() for store in stores))


async def test_a_wait_for_a_new_file_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file whose mode somebody keeps from being set is an error in the end, and nothing else."""
    monkeypatch.setattr("a3s_code.stores.sqlite._BUSY_SECONDS", 0)
    path = tmp_path / "store.db"
    keeper = sqlite3.connect(path, isolation_level=None)
    keeper.execute("BEGIN EXCLUSIVE")
    store = SqliteSessionStore(path)
    with pytest.raises(StoreError, match="database is locked"):
        await store.load_run("r")
    keeper.close()
    await store.close()


async def test_a_store_s_file_is_its_owner_s(tmp_path: Path) -> None:
    """The file, its log and its index are readable by their owner only, whatever the umask."""
    before = os.umask(0)
    try:
        store = SqliteSessionStore(tmp_path / "store.db")
        await store.admit_run("r", "s", "x")
    finally:
        os.umask(before)
    assert {stat.S_IMODE(each.stat().st_mode) for each in tmp_path.iterdir()} == {0o600}
    await store.close()
