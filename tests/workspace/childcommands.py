"""What the tests of child processes share: one bash command, and whether a process still runs."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

from a3s_code.ports.process import ProcessOutcome
from a3s_code.system.process import LocalProcesses

ENV = {"PATH": os.environ["PATH"]}


async def bash(
    command: str,
    cwd: Path,
    *,
    timeout_ms: int = 10_000,
    cancelled: asyncio.Event | None = None,
    on_text: Callable[[str], None] | None = None,
    capture_bytes: int = 524_288,
    stdin: bytes = b"",
    grace_s: float = 2.0,
) -> ProcessOutcome:
    return await LocalProcesses(grace_s=grace_s).run(
        ["bash", "--noprofile", "--norc", "-c", command],
        cwd=str(cwd),
        env=ENV,
        timeout_ms=timeout_ms,
        cancelled=cancelled or asyncio.Event(),
        on_text=on_text,
        capture_bytes=capture_bytes,
        stdin=stdin,
    )


def is_alive(pid: int) -> bool:
    """Whether the process runs (one that ended and was not waited for by its new parent does not)."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] not in ("Z", "X")


async def pid_in(file: Path) -> int:
    """The process id that a command wrote into ``file``, once it did."""
    while not (file.exists() and file.read_text().endswith("\n")):
        await asyncio.sleep(0.005)
    return int(file.read_text())
