"""A directory of this machine as a workspace. In: its path. Out: confined file access (tools.md §4).

One rule: nothing is opened but by names below the root's descriptor, none of them a link; links were resolved by
``locate``, so whoever puts one there later gets a failure.
Known weakness: two processes that write one file at the same moment are told apart by a check, not by a lock.

An instance is two attributes: it costs some microseconds and holds no descriptor.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import threading
from collections.abc import Iterator
from typing import BinaryIO

from a3s_code.core.protected import GIT, PACKAGE_STORES, is_credential
from a3s_code.errors import SessionConfigurationError
from a3s_code.ports.tool import ToolFailure
from a3s_code.ports.workspace import Entry, Kind, Place, Stat
from a3s_code.workspace.directory import READ, Directory, descend
from a3s_code.workspace.failures import failure
from a3s_code.workspace.paths import locate
from a3s_code.workspace.replace import is_directory, replace_file

# One lock for many paths: they never nest, and a path needs no entry that somebody must remove.
_locks = tuple(threading.RLock() for _ in range(64))
_MISSING = Stat("missing", links=0)


class LocalWorkspace:
    """``root`` is resolved once, here; ``SessionConfigurationError`` when it is no directory."""

    __slots__ = ("root",)

    def __init__(self, root: str) -> None:
        self.root = os.path.realpath(root)
        if not os.path.isdir(self.root):
            raise SessionConfigurationError(f"workspace: not a directory: {root}")

    def locate(self, path: str) -> Place:
        return locate(self.root, path)

    def stat(self, place: Place) -> Stat:
        try:
            found = self._find(place)
        except (FileNotFoundError, NotADirectoryError):
            return _MISSING
        except OSError as error:
            raise failure(error, place.path) from error
        if stat.S_ISLNK(found.st_mode):
            raise failure(OSError(errno.ELOOP, ""), place.path)
        return _stat(found)

    def open(self, place: Place) -> BinaryIO:
        parents, name = _split(place)
        try:
            with descend(self.root, parents) as directory:
                if name is None:
                    raise is_directory(place)
                # Looked at first: opening a device may do something, even without blocking.
                _check_regular(directory.stat(name).st_mode, place)
                fd = directory.open(name, READ)
                try:
                    _check_regular(os.fstat(fd).st_mode, place)
                    return os.fdopen(fd, "rb")
                except BaseException:
                    os.close(fd)
                    raise
        except OSError as error:
            raise failure(error, place.path) from error

    def entries(self, place: Place) -> list[Entry]:
        try:
            with descend(self.root, _names(place.real)) as directory:
                return _entries(directory)
        except NotADirectoryError as error:
            if self.stat(place).kind == "missing":
                raise failure(error, place.path) from error
            raise ToolFailure("unsupported", f"{place.path} is not a directory") from None
        except OSError as error:
            raise failure(error, place.path) from error

    @contextlib.contextmanager
    def exclusive(self, place: Place) -> Iterator[None]:
        with _locks[hash(f"{self.root}/{place.real}".casefold()) % len(_locks)]:
            yield

    def replace(self, place: Place, data: bytes, expect: Stat | None, expect_sha256: str | None = None) -> None:
        with self.exclusive(place):
            try:
                replace_file(self.root, place, data, expect, expect_sha256)
            except OSError as error:
                raise failure(error, place.path) from error

    def walk(self, place: Place) -> Iterator[tuple[str, list[Entry]]]:
        """A directory below ``place`` that can't be read (any more) is left out."""
        pending = [place]
        while pending:
            here = pending.pop()
            try:
                entries = self.entries(here)
            except ToolFailure:
                if here is place:
                    raise
                continue
            yield here.path, entries
            below = [entry.name for entry in reversed(entries) if entry.kind == "dir"]
            pending += [Place(_join(here.path, name), _join(here.real, name)) for name in below]

    def credential_inodes(self) -> frozenset[tuple[int, int]]:
        found = set()
        for path, entries in self.walk(Place(".", ".")):
            for entry in entries:
                if entry.kind == "file" and entry.links > 1 and is_credential(_join(path, entry.name)):
                    found.add((entry.device, entry.inode))
            entries[:] = [e for e in entries if e.kind == "dir" and e.name not in PACKAGE_STORES and e.name != GIT]
        return frozenset(found)

    def _find(self, place: Place) -> os.stat_result:
        parents, name = _split(place)
        with descend(self.root, parents) as directory:
            if name is None:
                return os.stat(directory.path if directory.fd is None else directory.fd)
            return directory.stat(name)


def _names(real: str) -> list[str]:
    return [] if real == "." else real.split("/")


def _split(place: Place) -> tuple[list[str], str | None]:
    """Parents and name; the root has no name."""
    names = _names(place.real)
    return names[:-1], names[-1] if names else None


def _join(directory: str, name: str) -> str:
    return name if directory == "." else f"{directory}/{name}"


def _check_regular(mode: int, place: Place) -> None:
    if stat.S_ISDIR(mode):
        raise is_directory(place)
    if not (stat.S_ISREG(mode) or stat.S_ISLNK(mode)):  # the open below says what a link deserves
        raise ToolFailure("unsupported", f"{place.path} is not a regular file")


def _kind(mode: int) -> Kind:
    if stat.S_ISREG(mode):
        return "file"
    if stat.S_ISDIR(mode):
        return "dir"
    return "symlink" if stat.S_ISLNK(mode) else "other"


def _stat(found: os.stat_result) -> Stat:
    return Stat(
        _kind(found.st_mode),
        found.st_size,
        stat.S_IMODE(found.st_mode),
        found.st_mtime_ns,
        found.st_ino,
        found.st_dev,
        found.st_nlink,
    )


def _entries(directory: Directory) -> list[Entry]:
    entries = []
    for found in directory.scan():
        try:
            about = found.stat(follow_symlinks=False)
        except FileNotFoundError:
            continue  # removed while we look
        entries.append(
            Entry(
                found.name,
                _kind(about.st_mode),
                about.st_size,
                about.st_mtime_ns,
                about.st_nlink,
                about.st_ino,
                about.st_dev,
            )
        )
    entries.sort(key=lambda entry: os.fsencode(entry.name))
    return entries
