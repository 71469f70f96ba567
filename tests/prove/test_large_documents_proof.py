"""Documents of tens of megabytes are kept whole, also when their writer is killed (cases C16, C18)."""

from __future__ import annotations

import os
import random
import selectors
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "stores"))

import pytest
from large_child import generation
from storehelp import maker

from a3s_code.core.documents import SessionSnapshot

pytest_plugins = ["storefixtures"]

CHILD = Path(__file__).parent / "large_child.py"
KILLS = 8


def killed(command: list[str], after: int, fraction: float) -> tuple[int, float]:
    """A writer, killed at ``fraction`` of the time that a write takes once it has acknowledged ``after``; gives the
    last number that it acknowledged, and how long a write took."""
    with subprocess.Popen(command, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        told, last, took = 0, time.monotonic(), 0.0
        while told < after:
            told = int(child.stdout.readline())
            took, last = time.monotonic() - last, time.monotonic()
        with selectors.DefaultSelector() as selector:
            selector.register(child.stdout, selectors.EVENT_READ)
            selector.select(took * fraction)
        child.kill()
        rest = child.stdout.read().split()
    return int(rest[-1]) if rest else told, took


@pytest.mark.parametrize("kind", ["file", "encrypted", "sqlite", "postgres"])
async def test_a_writer_killed_within_50_mb_leaves_a_whole_generation(
    kind: str, quick: Path, request: pytest.FixtureRequest, tell: Callable[[str], None]
) -> None:
    """Whenever it is killed, what is stored is what it was told of last or the one that it was at, never parts of both;
    the next writer goes on at once, and what is left over of the torn write takes no place for good."""
    dsn = request.getfixturevalue("postgres_dsn") if kind == "postgres" else ""
    schema = f"large_{os.getpid()}"
    command = [sys.executable, str(CHILD), kind, str(quick), dsn, schema]
    chance = random.Random(kind)
    newer, times = 0, []
    for _ in range(KILLS):
        told, took = killed(command, 2, chance.random())
        times.append(took)
        store = maker(kind, quick, lambda: dsn, schema)()
        found = await store.load_snapshot("s")
        assert found is not None
        assert found.saved_ms in (told, told + 1)
        assert found.messages == generation(found.saved_ms).messages
        newer += found.saved_ms - told
        await store.save_snapshot(SessionSnapshot(session_id="s", saved_ms=99))
        last = await store.load_snapshot("s")
        assert last is not None
        assert last.saved_ms == 99
        await store.close()
    if kind in ("file", "encrypted"):
        assert sum(path.stat().st_size for path in quick.rglob("*") if path.is_file()) < 100_000
    if kind == "sqlite":
        connection = sqlite3.connect(quick / "store.db")
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        connection.close()
    tell(
        f"50 MB snapshots in {kind}: {KILLS} writers killed within a write of {sum(times) / KILLS:.2f} s, each left a "
        f"whole generation, {newer} of them the new one"
    )


@pytest.mark.parametrize("kind", ["memory", "file", "encrypted", "sqlite", "postgres"])
async def test_100_mb_come_back(kind: str, quick: Path, request: pytest.FixtureRequest) -> None:
    """A document of 100 MB is written, listed with its size and read as it was."""
    dsn = request.getfixturevalue("postgres_dsn") if kind == "postgres" else ""
    store = maker(kind, quick, lambda: dsn, f"hundred_{os.getpid()}")()
    wanted = SessionSnapshot(session_id="s", messages=[{"text": "λ\n" * 500_000, "n": n} for n in range(50)])
    digest = await store.save_snapshot(wanted)
    found = await store.load_snapshot("s")
    assert found is not None
    assert found.messages == wanted.messages
    assert [entry.digest for entry in await store.list_sessions()] == [digest]
    await store.close()
