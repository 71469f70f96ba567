"""Which processes a command left behind. In: its process group and its mark. Out: those still running, to be ended.

One rule: only processes that provably descend from the command are found: by group, by session, by the mark in
their environment, or by a parent that was found.
Known weakness: a process that left the session and cleared its environment, and whose parent ended, is not found;
without ``/proc`` only the group is.
"""

from __future__ import annotations

import asyncio
import os
import signal
from typing import NamedTuple

MARK = "A3S_PROC_ID"  # a list of ids, so that a runtime inside a command leaves the outer mark in place
_AT_ONCE = 64  # processes looked at between two turns of the event loop


class Found(NamedTuple):
    """A running process; ``started`` tells it from a later one with the same ``pid`` (``""``: not known)."""

    pid: int
    started: str
    in_group: bool


async def running(leader: int, mark: str, brief: bool) -> list[Found]:
    """The running descendants of the command whose group is ``leader``. ``brief`` says that it took so little time
    that process ids can't have come round: then only ids above the leader's are looked at."""
    last = _last_pid()
    if brief and last == leader:
        return []
    try:
        pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return [Found(leader, "", True)] if _group_exists(leader) else []
    if brief and last > leader:
        pids = [pid for pid in pids if leader <= pid]
    token = mark.encode()
    found: dict[int, Found] = {}
    others: dict[int, tuple[int, Found]] = {}
    for count, pid in enumerate(pids, 1):
        if count % _AT_ONCE == 0:
            await asyncio.sleep(0)
        status = _status(pid)
        if status is None:
            continue
        parent, group, session, started = status
        process = Found(pid, started, group == leader)
        if leader in (group, session) or token in _environment(pid):
            found[pid] = process
        else:
            others[pid] = (parent, process)
    while adopted := [process for parent, process in others.values() if parent in found]:
        for process in adopted:
            found[process.pid] = process
            del others[process.pid]
    return list(found.values())


def is_running(process: Found) -> bool:
    if not process.started:
        return _group_exists(process.pid)
    status = _status(process.pid)
    return status is not None and status[3] == process.started


def send(leader: int, processes: list[Found], sig: signal.Signals) -> None:
    """Signals the group at once, if a member was found, and every other process by itself."""
    if any(process.in_group for process in processes):
        _kill(-leader, sig)
    for process in processes:
        if not process.in_group and is_running(process):
            _kill(process.pid, sig)


def _kill(target: int, sig: signal.Signals) -> None:
    try:
        os.kill(target, sig)
    except (ProcessLookupError, PermissionError):
        return  # ended by itself, or it became another user's: nothing more can be done here


def _group_exists(leader: int) -> bool:
    try:
        os.killpg(leader, 0)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def _last_pid() -> int:
    """The process id given last, 0 when the system does not say."""
    try:
        with open("/proc/loadavg", "rb", buffering=0) as file:
            return int(file.read(128).split()[-1])
    except (OSError, ValueError, IndexError):
        return 0


def _status(pid: int) -> tuple[int, int, int, str] | None:
    """Parent, group, session and start of a process that has not ended."""
    try:
        with open(f"/proc/{pid}/stat", "rb", buffering=0) as file:
            fields = file.read(1024).rpartition(b")")[2].split()
        if fields[0] in (b"Z", b"X"):
            return None
        return int(fields[1]), int(fields[2]), int(fields[3]), fields[19].decode()
    except (OSError, IndexError):
        return None


def _environment(pid: int) -> bytes:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return file.read()
    except OSError:
        return b""
