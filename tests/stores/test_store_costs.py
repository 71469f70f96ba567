"""What a store's writes cost in what is slow: syncs of files, and round trips to a server."""

from __future__ import annotations

import asyncio
import importlib
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from a3s_code.ports.store import CheckpointHeader, SessionSnapshot
from a3s_code.stores.disk import Disk, use_disk
from a3s_code.stores.file import FileSessionStore
from a3s_code.stores.postgres import PostgresSessionStore
from a3s_code.testing.store_contract.helping import Story

pytest_plugins = ["storefixtures"]
STORY = Story(12)
TTL_MS = 60_000


class Counting(Disk):
    """``most`` is how many threads synced at one time."""

    def __init__(self) -> None:
        self.syncs = self.most = self._now = 0
        self._guard = threading.Lock()

    def fdatasync(self, fd: int) -> None:
        with self._guard:
            self.syncs += 1
            self._now += 1
            self.most = max(self.most, self._now)
        super().fdatasync(fd)
        with self._guard:
            self._now -= 1


@pytest.fixture
def counting() -> Iterator[Counting]:
    """The disk that everything here works on."""
    counted = Counting()
    before = use_disk(counted)
    yield counted
    use_disk(before)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is sent to PostgreSQL, each a round trip."""
    sent: list[str] = []
    connection = importlib.import_module("asyncpg").Connection

    def counted(name: str) -> None:
        method = getattr(connection, name)

        async def call(self: Any, query: str, *args: Any, **more: Any) -> Any:
            sent.append(query)
            return await method(self, query, *args, **more)

        monkeypatch.setattr(connection, name, call)

    for name in ("execute", "executemany", "fetch", "fetchval"):
        counted(name)
    return sent


def header(seq: int) -> CheckpointHeader:
    return CheckpointHeader(run_id="r", session_id="s", seq=seq, sum=STORY.sums[seq - 1])


async def test_a_file_store_syncs_what_it_must_and_nothing_else(quick: Path, counting: Counting) -> None:
    """A checkpoint syncs its facts, its header and the directory, a snapshot its file and the directory; a renewal
    nothing, as a power cut ends all leases of a machine anyway."""
    store = FileSessionStore(quick)
    lease = await store.acquire_lease("s", "me", TTL_MS)
    await store.append_checkpoint("r", header(10), STORY.lines[:10], lease.epoch)
    await store.save_snapshot(SessionSnapshot(session_id="s"), lease.epoch)
    counting.syncs = 0
    await store.append_checkpoint("r", header(11), STORY.lines[10:11], lease.epoch)
    assert counting.syncs == 3
    await store.save_snapshot(SessionSnapshot(session_id="s", saved_ms=1), lease.epoch)
    assert counting.syncs == 5
    assert await store.renew([lease], TTL_MS) != [None]
    assert counting.syncs == 5
    await store.close()


async def test_few_threads_of_a_file_store_work_at_a_time(tmp_path: Path, counting: Counting) -> None:
    """However many sessions are saved at once, two threads work: the event loop competes with each of them."""
    store = FileSessionStore(tmp_path)
    await store.save_snapshot(SessionSnapshot(session_id="first"))  # makes the directories
    counting.syncs = counting.most = 0
    await asyncio.gather(*(store.save_snapshot(SessionSnapshot(session_id=f"s{number}")) for number in range(40)))
    assert counting.syncs >= 80
    assert counting.most <= 2
    await store.close()


async def test_a_transaction_takes_few_round_trips(postgres_dsn: str, asked: list[str]) -> None:
    """A checkpoint begins and locks, looks twice, writes and commits; a read is one question; a renewal of many leases
    costs as many as that of one, and waits for no sync."""
    store = PostgresSessionStore(postgres_dsn, schema="test_round_trips")
    held = [await store.acquire_lease(f"s{number}", "me", TTL_MS) for number in range(20)]
    await store.append_checkpoint("r", header(10), STORY.lines[:10])
    asked.clear()
    await store.append_checkpoint("r", header(11), STORY.lines[10:11])
    assert len(asked) == 5, asked
    asked.clear()
    await store.load_snapshot("s")
    assert len(asked) == 1, asked
    asked.clear()
    assert None not in await store.renew(held, TTL_MS)
    assert len(asked) == 6, asked
    assert "synchronous_commit = off" in asked[0]
    await store.close()
