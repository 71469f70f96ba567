"""The seam to the file system. In: the few operations that a log needs. Out: what the operating system says.

One rule: nothing in ``stores`` that matters for durability reaches the disk but through a ``Disk``, so that a test can
fail any one operation.
Known weakness: POSIX only (``flock``); on systems without ``fdatasync`` the dearer ``fsync`` is used.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat

FOLLOW_NOTHING = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
"""A log that somebody made a link, a FIFO or a device must neither be followed nor block."""


class Disk:
    """Each method is one system call (``open`` checks what it opened) and raises ``OSError``."""

    def open(self, path: str, flags: int) -> int:
        """A regular file's or directory's descriptor; a new file is readable by its owner only."""
        fd = os.open(path, flags | FOLLOW_NOTHING, 0o600)
        mode = os.fstat(fd).st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            os.close(fd)
            raise OSError(f"{path} is no regular file")
        return fd

    def close(self, fd: int) -> None:
        os.close(fd)

    def read(self, fd: int, count: int, at: int) -> bytes:
        return os.pread(fd, count, at)

    def write(self, fd: int, data: bytes) -> int:
        return os.write(fd, data)

    def truncate(self, fd: int, size: int) -> None:
        os.ftruncate(fd, size)

    def fdatasync(self, fd: int) -> None:
        _datasync(fd)

    def stat(self, fd: int) -> os.stat_result:
        return os.fstat(fd)

    def look(self, path: str) -> os.stat_result | None:
        """The status of ``path``; ``None`` when nothing is there."""
        try:
            return os.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            return None

    def mkdir(self, path: str, mode: int = 0o777) -> None:
        os.mkdir(path, mode)

    def rmdir(self, path: str) -> None:
        os.rmdir(path)

    def rename(self, source: str, target: str) -> None:
        os.rename(source, target)

    def link(self, source: str, target: str) -> None:
        os.link(source, target)

    def unlink(self, path: str) -> None:
        os.unlink(path)

    def lock(self, fd: int) -> bool:
        """Takes the exclusive lock of the file unless another descriptor has it."""
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def unlock(self, fd: int) -> None:
        fcntl.flock(fd, fcntl.LOCK_UN)


_datasync = getattr(os, "fdatasync", os.fsync)
_used: Disk = Disk()


def disk() -> Disk:
    """The disk that logs made from now on work on."""
    return _used


def use_disk(other: Disk) -> Disk:
    """Has logs made from now on work on ``other``; gives the one used so far. For fault tests."""
    global _used
    before, _used = _used, other
    return before


def write_new(disk: Disk, path: str, data: bytes, *, sync: bool) -> None:
    """Makes a file that is not there yet, in whole or not at all."""
    fd = disk.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    try:
        write_all(disk, fd, data)
        if sync:
            disk.fdatasync(fd)
    except OSError:
        disk.unlink(path)
        raise
    finally:
        disk.close(fd)


def write_all(disk: Disk, fd: int, data: bytes) -> None:
    """One ``write``; less than the whole is an error, as it is when the disk fills up."""
    written = disk.write(fd, data)
    if written != len(data):
        raise OSError(f"only {written} of {len(data)} bytes could be written: is the disk full?")


def sync_directory(disk: Disk, path: str) -> None:
    fd = disk.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        disk.fdatasync(fd)
    except OSError as error:
        if error.errno != errno.EINVAL:  # some file systems have no sync for directories
            raise
    finally:
        disk.close(fd)


def make_private_directory(disk: Disk, path: str, changed: list[str]) -> None:
    """Makes ``path`` unless it is there, with a ``.gitignore`` of everything (facts.md, *File*), and its parent before
    it. Adds the directories that got an entry to ``changed``, for the caller to sync."""
    if disk.look(path) is not None:
        return
    parent = os.path.dirname(path)
    if disk.look(parent) is None and _make(disk, parent, 0o777):
        changed.append(os.path.dirname(parent))
    if _make(disk, path, 0o700):
        changed.append(parent)
        try:
            write_new(disk, os.path.join(path, ".gitignore"), b"*\n", sync=False)
        except OSError:
            disk.rmdir(path)
            raise


def _make(disk: Disk, path: str, mode: int) -> bool:
    """Whether it was us who made it."""
    try:
        disk.mkdir(path, mode)
    except FileExistsError:
        return False
    return True
