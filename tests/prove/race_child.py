"""Processes that race for one session until enough has happened. In: a store and a seed. Out: what each was told.

The parent forks nodes, and kills, stops and replaces them as the seed says. Each line is ``{"node", "call", "began",
"ended", "answer"}``, by one clock; a call that a kill cut off has no end.

One rule: a node says that it begins a call before it does, and what it was told after.
Known weakness: when a kill comes depends on the machine too, so a seed repeats the kind of trouble, not the schedule.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import selectors
import signal
import sys
import time
from collections.abc import Awaitable
from pathlib import Path
from typing import Any, Final

sys.path.append(str(Path(__file__).parents[1] / "stores"))

from storehelp import AnyStore, maker

from a3s_code.errors import CodeError, LeaseLost, SessionBusy
from a3s_code.ports.store import Lease, RunAdmission, SessionSnapshot
from a3s_code.stores.lease import holder_name

NODES: Final = 3
TTL_MS: Final = 15
_SILENCE: Final = 0.05


class Node:
    def __init__(self, store: AnyStore, out: int, number: int) -> None:
        self._store = store
        self._out = out
        self._number = number

    async def call(self, name: str, work: Awaitable[Any], **arguments: Any) -> Any:
        """Tells of the call, and gives its answer or the code of its refusal."""
        self._say({"node": self._number, "call": name, "began": time.monotonic_ns(), **arguments})
        try:
            found = await work
        except (LeaseLost, SessionBusy) as error:
            found = error.code
        match found:
            case Lease():
                told: Any = found.epoch
            case SessionSnapshot():
                told = found.saved_ms
            case RunAdmission():
                told = "known"
            case _:
                told = found
        self._say({"node": self._number, "ended": time.monotonic_ns(), "answer": told})
        return found

    async def live(self) -> None:
        store, session = self._store, "s"
        chance = random.Random(self._number)
        while True:
            lease = await self.call("acquire", store.acquire_lease(session, holder_name(f"{self._number}"), TTL_MS))
            seen = await self.call("read", store.load_snapshot(session))
            while isinstance(lease, Lease):
                epoch, at = lease.epoch, seen.saved_ms if seen is not None else 0
                made = SessionSnapshot(session_id=session, saved_ms=at + 1, model=f"{self._number}")
                wrote = await self.call(
                    "write",
                    store.save_snapshot_cas(made, seen.digest if seen is not None else None, epoch),
                    epoch=epoch,
                    value=at + 1,
                )
                run = f"run-{at // 3}"
                known = await self.call("admit", store.admit_run(run, session, "x", epoch), epoch=epoch, value=run)
                if "LEASE_LOST" in (wrote, known):
                    break
                if chance.random() < 0.2:
                    await self.call("release", store.release(lease), epoch=epoch)
                    break
                if chance.random() < 0.2:
                    await self.call("renew", _renewed(store, lease), epoch=epoch)
                seen = await self.call("read", store.load_snapshot(session))

    def _say(self, line: dict[str, Any]) -> None:
        os.write(self._out, json.dumps(line).encode() + b"\n")


async def _renewed(store: AnyStore, lease: Lease) -> bool:
    return await store.renew([lease], TTL_MS) != [None]


class Parent:
    """Never starts a thread, so that its forks are sound."""

    def __init__(self, arguments: list[str], seed: str, lines: int) -> None:
        self._arguments = arguments
        self._chance = random.Random(seed)
        self._left = lines
        self._made = 0
        self._stopped: list[int] = []
        self._select = selectors.DefaultSelector()

    def run(self) -> None:
        for _ in range(NODES):
            self._fork()
        while self._left > 0:
            ready = self._select.select(_SILENCE)
            for key, _ in ready:
                self._take(key.fd, key.data)
            while self._stopped and not ready:  # with a lock that the others wait for
                os.kill(self._stopped.pop(), signal.SIGCONT)
        for key in list(self._select.get_map().values()):
            self._end(key.fd, key.data["pid"])
            sys.stdout.write(self._rest(key.fd, key.data))

    def _fork(self) -> None:
        there, here = os.pipe()
        self._made += 1
        pid = os.fork()
        if pid == 0:
            kind, directory, dsn, schema = self._arguments
            store = maker(kind, Path(directory), lambda: dsn, schema)()
            try:
                asyncio.run(Node(store, here, self._made).live())
            except (CodeError, OSError) as error:
                os.write(here, json.dumps({"failed": repr(error)}).encode() + b"\n")
            os._exit(1)
        os.close(here)
        self._select.register(there, selectors.EVENT_READ, {"pid": pid, "rest": b""})

    def _take(self, fd: int, data: dict[str, Any]) -> None:
        read = os.read(fd, 1 << 16)
        *whole, data["rest"] = (data["rest"] + read).split(b"\n")
        for line in whole:
            sys.stdout.write(line.decode() + "\n")
        self._left -= len(whole)
        trouble = self._chance.random()
        if not read or trouble < 0.01:
            self._end(fd, data["pid"])
            sys.stdout.write(self._rest(fd, data))
            self._fork()
        elif trouble < 0.02 and len(self._stopped) < NODES - 1 and data["pid"] not in self._stopped:
            os.kill(data["pid"], signal.SIGSTOP)
            self._stopped.append(data["pid"])
        elif trouble < 0.1 and self._stopped:
            os.kill(self._stopped.pop(0), signal.SIGCONT)

    def _end(self, fd: int, pid: int) -> None:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        self._select.unregister(fd)
        if pid in self._stopped:
            self._stopped.remove(pid)

    def _rest(self, fd: int, data: dict[str, Any]) -> str:
        """What a node that has ended said last; a line that was cut off is none."""
        with os.fdopen(fd, "rb") as pipe:
            said = data["rest"] + pipe.read()
        whole: bytes = said[: said.rfind(b"\n") + 1]
        return whole.decode()


if __name__ == "__main__":
    *where, seed, count = sys.argv[1:]
    Parent(where, seed, int(count)).run()
