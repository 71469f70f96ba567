"""Who may write a log. In: an open log. Out: the lock, or the name of who has it.

One rule: the lock is the operating system's, on the log's own descriptor, so that it ends with its process; the file
beside the log only names the holder and decides nothing.
Known weakness: on a network file system the lock is as good as the server's ``flock``.
"""

from __future__ import annotations

import contextlib
import os

import msgspec

from a3s_code.errors import SessionBusy
from a3s_code.stores.disk import Disk


def open_locked(disk: Disk, path: str, flags: int, holder: str) -> int:
    """Opens ``path`` and takes its lock; ``SessionBusy`` names who has it. The file is the one at ``path`` when this
    returns: a log that was replaced in between is let go and the new one taken."""
    while True:
        fd = disk.open(path, flags)
        try:
            if not disk.lock(fd):
                raise SessionBusy(f"{path} is being written by {_name(disk, holder)}")
            mine, there = disk.stat(fd), disk.look(path)
            if there is not None and (mine.st_ino, mine.st_dev) == (there.st_ino, there.st_dev):
                _sign(disk, holder)
                return fd
        except BaseException:
            disk.close(fd)
            raise
        disk.close(fd)


def leave(disk: Disk, fd: int, holder: str) -> None:
    """Gives the lock up. The descriptor stays open."""
    with contextlib.suppress(OSError):  # the name is a courtesy
        disk.unlink(holder)
    disk.unlock(fd)


def _sign(disk: Disk, holder: str) -> None:
    with contextlib.suppress(OSError):  # a full disk must not keep a writer out: the name is a courtesy
        fd = disk.open(holder, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        try:
            disk.write(fd, msgspec.json.encode({"pid": os.getpid(), "host": os.uname().nodename}))
        finally:
            disk.close(fd)


def _name(disk: Disk, holder: str) -> str:
    try:
        fd = disk.open(holder, os.O_RDONLY)
        try:
            said = msgspec.json.decode(disk.read(fd, 4096, 0))
        finally:
            disk.close(fd)
        here = ", this process" if said["pid"] == os.getpid() and said["host"] == os.uname().nodename else ""
        return f"process {said['pid']} on {said['host']}{here}"
    except (OSError, msgspec.DecodeError, KeyError, TypeError):
        return "another session"
