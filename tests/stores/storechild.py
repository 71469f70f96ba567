"""A process that uses a store. In: a kind, a place and what to do. Out: lines on stdout.

One rule: it says a line only after what the line tells of was acknowledged.
Known weakness: none known.
"""

from __future__ import annotations

import asyncio
import resource
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

from storehelp import AnyStore, maker

from a3s_code.errors import CodeError, StoreError
from a3s_code.ports.store import SessionSnapshot
from a3s_code.stores.lease import holder_name


def say(*words: object) -> None:
    print(*words, flush=True)


async def admit(store: AnyStore) -> None:
    """Admits thirty runs as quickly as it can, once its parent says so; tells the ones it got."""
    await store.load_run("warm")
    say("ready")
    sys.stdin.readline()
    for number in range(30):
        if await store.admit_run(f"run-{number}", "s", "x") is None:
            say(number)
    say("end")


async def hold(store: AnyStore) -> None:
    """Takes a short lease, writes, and writes again when its parent says so."""
    lease = await store.acquire_lease("s", "child", 50)
    await store.save_snapshot(SessionSnapshot(session_id="s", saved_ms=1), epoch=lease.epoch)
    say("holding")
    sys.stdin.readline()
    try:
        await store.save_snapshot(SessionSnapshot(session_id="s", saved_ms=2), epoch=lease.epoch)
        say("written")
    except CodeError as error:
        say(error.code)


async def die(store: AnyStore) -> None:
    """Takes a long lease in its own name, and waits to be killed."""
    await store.acquire_lease("s", holder_name("session"), 600_000)
    say("holding")
    sys.stdin.readline()


async def write(store: AnyStore) -> None:
    """Writes generations without end, in each of them a workflow and a snapshot that tell the same number."""
    number = 0
    while True:
        number += 1
        await store.save_snapshot(SessionSnapshot(session_id="s", saved_ms=number, model="x" * 20_000))
        await store.admit_run(f"run-{number}", "s", "x")
        say(number)


async def fill(store: AnyStore) -> None:
    """Writes until no file may grow any more, and again once they may."""
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    await store.save_snapshot(SessionSnapshot(session_id="s", saved_ms=1))
    resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, hard))
    number = 1
    try:
        while True:
            number += 1
            await store.save_snapshot(SessionSnapshot(session_id=f"s{number}", saved_ms=number, model="x" * 50_000))
    except StoreError as error:
        say(error.code, number)
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    await store.save_snapshot(SessionSnapshot(session_id="after", saved_ms=number))
    say("after")


JOBS: dict[str, Callable[[AnyStore], Awaitable[None]]] = {
    "admit": admit,
    "hold": hold,
    "die": die,
    "write": write,
    "fill": fill,
}


async def main() -> None:
    kind, directory, dsn, schema, job = sys.argv[1:]
    store = maker(kind, Path(directory), lambda: dsn, schema)()
    await JOBS[job](store)
    await store.close()


if __name__ == "__main__":
    asyncio.run(main())
