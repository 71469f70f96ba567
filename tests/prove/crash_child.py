"""Children that are killed. In: one JSON command a line. Out: one JSON line each: how the child ended, what it said.

A process that has imported everything and has no thread forks one child a command, which takes milliseconds.

One rule: the parent never starts a thread, so its forks are sound.
Known weakness: none known.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import traceback
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Literal, TypeAlias

from scenario import PROMPT, attended, open_session

from a3s_code import Agent
from a3s_code.stores.disk import Disk
from a3s_code.testing.faults import KillingDisk, on_disk

Say: TypeAlias = Callable[[str], None]
Act: TypeAlias = Callable[[dict[str, Any], Say], Coroutine[Any, Any, None]]
DiskFor: TypeAlias = Callable[[dict[str, Any]], Disk]


class PowerCut(KillingDisk):
    """Before it kills its process it takes back what was written and not synced, as a power cut may."""

    def __init__(self, at: int) -> None:
        super().__init__(at)
        self._at_stake: dict[str, int] = {}
        self._paths: dict[int, str] = {}

    def open(self, path: str, flags: int) -> int:
        fd = super().open(path, flags)
        self._paths[fd] = path
        if path.endswith(".jsonl"):
            self._at_stake.setdefault(path, os.fstat(fd).st_size)
        return fd

    def fdatasync(self, fd: int) -> None:
        size = os.fstat(fd).st_size
        super().fdatasync(fd)
        if self._paths.get(fd, "").endswith(".jsonl"):
            self._at_stake[self._paths[fd]] = size

    def truncate(self, fd: int, size: int) -> None:
        super().truncate(fd, size)
        path = self._paths.get(fd, "")
        if path in self._at_stake:
            self._at_stake[path] = min(self._at_stake[path], size)

    def _reached(self, operation: str, fd: int = -1, data: bytes = b"") -> None:
        if self.operations + 1 == self._at:
            for path, size in self._at_stake.items():
                os.truncate(path, size)
        super()._reached(operation, fd, data)


def disk_for(command: dict[str, Any]) -> Disk:
    at: int = command.get("at", 0)
    when: Literal["before", "middle", "power"] = command.get("when", "before")
    return PowerCut(at) if when == "power" else KillingDisk(at, when)


async def act(command: dict[str, Any], say: Say) -> None:
    """``run`` sends the prompt; ``resume`` goes on from the log, or sends it if it was never recorded."""
    workspace = Path(command["workspace"])

    def acknowledged(seq: str) -> None:
        say(f"ack {seq}")

    async with await Agent.create_from_config_async({}) as agent:
        session = await open_session(agent, workspace, command["unknown"], acknowledged, **command.get("options", {}))
        fresh = command["do"] == "run" or not session.runs()
        work = session.send_async(PROMPT) if fresh else session.resume_run_async("latest")
        result = await attended(session, work, acknowledged)
        acknowledged(str(session._engine.view().seq))
        say(f"text {result.text}")


def _child(act: Act, disk: DiskFor, command: dict[str, Any], out: int) -> None:
    def say(line: str) -> None:
        os.write(out, f"{line}\n".encode())

    try:
        with on_disk(disk(command)) as counted:
            asyncio.run(act(command, say))
        say(f"operations {counted.operations}")  # type: ignore[attr-defined]  # a CountingDisk
    except BaseException:  # noqa: BLE001  the parent has to be told, whatever it is
        say(f"failed {json.dumps(traceback.format_exc())}")
    os._exit(0)


def serve(act: Act, disk: DiskFor = disk_for) -> None:
    """Has each command done by ``act`` in a child of its own, on the ``disk`` that it asks for."""
    for line in sys.stdin:
        command = json.loads(line)
        there, here = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(there)
            _child(act, disk, command, here)
        os.close(here)
        with os.fdopen(there, "rb") as pipe:
            said = pipe.read().decode().splitlines()
        _, status = os.waitpid(pid, 0)
        print(json.dumps({"killed": os.WIFSIGNALED(status), "said": said}), flush=True)


if __name__ == "__main__":
    serve(act)
