"""Directories as descriptors. In: a real path below a root. Out: a handle whose names are never links.

One rule: every step opens one name below an open directory and follows no link; a link there is ``ELOOP``.
Known weakness: where the system has no ``dir_fd`` (``BY_DESCRIPTOR`` is false) each step checks a path instead, which
a fast enough swap can deceive.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from types import TracebackType

BY_DESCRIPTOR = (
    {os.open, os.stat, os.mkdir, os.rename, os.unlink, os.rmdir, os.access} <= os.supports_dir_fd
    and os.scandir in os.supports_fd
    and hasattr(os, "O_NOFOLLOW")
)
_DIRECTORY = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)
# O_NONBLOCK: a FIFO put in place of the file must not make the open wait for its writer.
READ = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)


class Directory:
    """One open directory; ``fd`` is ``None`` where ``BY_DESCRIPTOR`` is false."""

    __slots__ = ("fd", "path")

    def __init__(self, path: str, fd: int | None) -> None:
        self.path = path
        self.fd = fd

    @classmethod
    def root(cls, path: str) -> Directory:
        if not BY_DESCRIPTOR:
            _check_directory(path)
            return cls(path, None)
        return cls(path, _open_directory(path, None))

    def child(self, name: str) -> Directory:
        path = f"{self.path}/{name}"
        if self.fd is None:
            _check_directory(path)
            return Directory(path, None)
        return Directory(path, _open_directory(name, self.fd))

    def stat(self, name: str) -> os.stat_result:
        return os.stat(self._at(name), dir_fd=self.fd, follow_symlinks=False)

    def open(self, name: str, flags: int, mode: int = 0o600) -> int:
        if self.fd is None and flags & os.O_CREAT == 0 and stat.S_ISLNK(self.stat(name).st_mode):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), name)
        return os.open(self._at(name), flags, mode, dir_fd=self.fd)

    def make(self, name: str) -> None:
        os.mkdir(self._at(name), 0o777, dir_fd=self.fd)

    def rename(self, old: str, new: str) -> None:
        os.replace(self._at(old), self._at(new), src_dir_fd=self.fd, dst_dir_fd=self.fd)

    def unlink(self, name: str) -> None:
        os.unlink(self._at(name), dir_fd=self.fd)

    def remove_directory(self, name: str) -> None:
        os.rmdir(self._at(name), dir_fd=self.fd)

    def may_write(self, name: str) -> bool:
        effective = os.access in os.supports_effective_ids
        return os.access(self._at(name), os.W_OK, dir_fd=self.fd, effective_ids=effective)

    def scan(self) -> Iterator[os.DirEntry[str]]:
        with os.scandir(self.path if self.fd is None else self.fd) as found:
            yield from found

    def sync(self) -> None:
        if self.fd is not None:
            os.fsync(self.fd)

    def is_same(self, other: Directory) -> bool:
        if self.fd is None or other.fd is None:
            return self.path == other.path
        return os.path.samestat(os.fstat(self.fd), os.fstat(other.fd))

    def close(self) -> None:
        if self.fd is not None and self.fd >= 0:
            fd, self.fd = self.fd, -1  # not None: a closed handle must not fall back to its path
            os.close(fd)

    def _at(self, name: str) -> str:
        return f"{self.path}/{name}" if self.fd is None else name

    def __enter__(self) -> Directory:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()


def descend(root: str, names: Sequence[str]) -> Directory:
    """The directory ``names`` lead to; the caller closes it."""
    here = Directory.root(root)
    for name in names:
        with here:
            here = here.child(name)
    return here


def _open_directory(path: str, parent: int | None) -> int:
    try:
        return os.open(path, _DIRECTORY, dir_fd=parent)
    except OSError as error:
        # Systems differ in what a link gives here: ELOOP, ENOTDIR or EMLINK.
        if error.errno == errno.ENOENT or not stat.S_ISLNK(os.lstat(path, dir_fd=parent).st_mode):
            raise
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path) from error


def _check_directory(path: str) -> None:
    mode = os.lstat(path).st_mode
    if stat.S_ISLNK(mode):
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
    if not stat.S_ISDIR(mode):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
