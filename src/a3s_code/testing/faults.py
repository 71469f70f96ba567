"""Disks that fail. In: which operation is to fail, and how. Out: a Disk to run a session on, to see what it survives.

One rule: an operation fails as a real one does: with its ``OSError``, half done, or with the process.
Known weakness: a power cut that loses pages which were written but not synced is only told by a failing sync.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
from collections.abc import Iterator
from typing import Final, Literal

from a3s_code.stores.disk import Disk, use_disk

FaultKind = Literal["enospc", "eio", "torn", "fsync"]

_HIT: Final[dict[str, frozenset[str]]] = {
    "enospc": frozenset({"open", "write", "mkdir", "link", "rename"}),
    "eio": frozenset({"open", "read", "write", "fdatasync", "truncate", "rename", "link", "unlink", "stat"}),
    "torn": frozenset({"write"}),
    "fsync": frozenset({"fdatasync"}),
}


class CountingDisk(Disk):
    """Counts the operations that ``_reached`` is asked about, and calls it before each."""

    def __init__(self) -> None:
        self.operations = 0

    def _reached(self, operation: str, fd: int = -1, data: bytes = b"") -> None:
        self.operations += 1

    def open(self, path: str, flags: int) -> int:
        self._reached("open")
        return super().open(path, flags)

    def read(self, fd: int, count: int, at: int) -> bytes:
        self._reached("read")
        return super().read(fd, count, at)

    def write(self, fd: int, data: bytes) -> int:
        self._reached("write", fd, data)
        return super().write(fd, data)

    def truncate(self, fd: int, size: int) -> None:
        self._reached("truncate")
        super().truncate(fd, size)

    def fdatasync(self, fd: int) -> None:
        self._reached("fdatasync")
        super().fdatasync(fd)

    def stat(self, fd: int) -> os.stat_result:
        self._reached("stat")
        return super().stat(fd)

    def mkdir(self, path: str, mode: int = 0o777) -> None:
        self._reached("mkdir")
        super().mkdir(path, mode)

    def rename(self, source: str, target: str) -> None:
        self._reached("rename")
        super().rename(source, target)

    def link(self, source: str, target: str) -> None:
        self._reached("link")
        super().link(source, target)

    def unlink(self, path: str) -> None:
        self._reached("unlink")
        super().unlink(path)


class FaultyDisk(CountingDisk):
    """Fails the ``fail_at``-th operation (from 1; 0 never) of those that ``kind`` can hit, and with ``lasting`` every
    one after it until ``heal``.

    ``enospc`` and ``eio`` raise before anything is done, ``torn`` writes half and says so, as a disk does that fills
    up, ``fsync`` fails a sync. ``operations`` counts the operations that could have been hit.
    """

    def __init__(self, fail_at: int, kind: FaultKind, *, lasting: bool = False) -> None:
        super().__init__()
        self._fail_at = fail_at
        self._kind = kind
        self._lasting = lasting

    def heal(self) -> None:
        self._fail_at = 0

    def _reached(self, operation: str, fd: int = -1, data: bytes = b"") -> None:
        if operation not in _HIT[self._kind]:
            return
        self.operations += 1
        past = self.operations - self._fail_at
        if self._fail_at and (past == 0 or (past > 0 and self._lasting)):
            self._fail()

    def _fail(self) -> None:
        code = errno.ENOSPC if self._kind == "enospc" else errno.EIO
        raise OSError(code, os.strerror(code))

    def write(self, fd: int, data: bytes) -> int:
        if self._kind != "torn":
            return super().write(fd, data)
        try:
            self._reached("write")
        except OSError:
            return Disk.write(self, fd, data[: len(data) // 2])
        return Disk.write(self, fd, data)


class KillingDisk(CountingDisk):
    """Kills its own process with SIGKILL at the ``at``-th operation (from 1; 0 never): ``before`` it, or in the
    ``middle``, which for a write leaves half of it and for anything else is the same as before."""

    def __init__(self, at: int, when: Literal["before", "middle"] = "before") -> None:
        super().__init__()
        self._at = at
        self._when = when

    def _reached(self, operation: str, fd: int = -1, data: bytes = b"") -> None:
        self.operations += 1
        if self.operations != self._at:
            return
        if self._when == "middle" and operation == "write":
            os.write(fd, data[: len(data) // 2])
        os.kill(os.getpid(), signal.SIGKILL)


@contextlib.contextmanager
def on_disk(disk: Disk) -> Iterator[Disk]:
    """Has the logs that are made inside work on ``disk``."""
    before = use_disk(disk)
    try:
        yield disk
    finally:
        use_disk(before)
