"""What in a workspace needs protection. In: its root. Out: repositories below the top, and credential files.

One rule: a directory that has not changed since it was read is not read again, so that a look costs one ``stat`` a
directory.
Known weakness: at most ``MAX_DIRECTORIES`` are looked at, shallow ones first, and none in package stores.
"""

from __future__ import annotations

import os
import stat
from collections import deque
from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from a3s_code.core.protected import GIT, PACKAGE_STORES, RUNTIME_DIRECTORY, is_credential_directory, is_credential_file

MAX_DIRECTORIES: Final = 5000
_MAX_ENTRIES: Final = 200_000
_SETTLED_NS: Final = 100_000_000  # a directory changed later than this may change again within one clock tick
_SKIPPED: Final = PACKAGE_STORES | {GIT, RUNTIME_DIRECTORY, ".hg", ".svn", "__pycache__", ".tox", ".nox", ".cache"}


class Found(msgspec.Struct):
    """Absolute paths. ``git`` are ``.git`` entries below the top; ``complete`` is false when the bound was reached."""

    git: list[str] = []
    credentials: list[str] = []
    complete: bool = True


class _Directory(msgspec.Struct):
    version: tuple[int, int, int]
    below: list[str]
    git: bool
    credentials: list[str]


class Survey:
    """``now_ns`` is the time of day, for telling whether a directory's time can be believed yet."""

    def __init__(self, root: str, now_ns: Callable[[], int]) -> None:
        self._root = root
        self._now_ns = now_ns
        self._known: dict[str, _Directory] = {}

    def look(self) -> Found:
        found = Found()
        known: dict[str, _Directory] = {}
        waiting = deque([""])
        while waiting:
            if len(known) >= MAX_DIRECTORIES:
                found.complete = False
                break
            relative = waiting.popleft()
            directory = self._directory(relative)
            if directory is None:
                continue
            known[relative] = directory
            path = f"{self._root}/{relative}" if relative else self._root
            if directory.git and relative:
                found.git.append(f"{path}/{GIT}")
            found.credentials += [f"{path}/{name}" for name in directory.credentials]
            waiting.extend(f"{relative}/{name}" if relative else name for name in directory.below)
        self._known = known
        return found

    def _directory(self, relative: str) -> _Directory | None:
        path = f"{self._root}/{relative}" if relative else self._root
        try:
            status = os.lstat(path)
            if not stat.S_ISDIR(status.st_mode):
                return None
            version = (status.st_dev, status.st_ino, status.st_mtime_ns)
            known = self._known.get(relative)
            if known is not None and known.version == version:
                return known
            return self._read(path, relative, version)
        except OSError:
            return None  # gone, or not ours to read: then not the command's either

    def _read(self, path: str, relative: str, version: tuple[int, int, int]) -> _Directory:
        settled = version[2] < self._now_ns() - _SETTLED_NS
        read = _Directory(version if settled else (0, 0, 0), [], False, [])
        parts = relative.split("/") if relative else []
        with os.scandir(path) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    if is_credential_directory([*parts, entry.name]):
                        read.credentials.append(entry.name)
                    elif entry.name not in _SKIPPED:
                        read.below.append(entry.name)
                elif is_credential_file(entry.name):
                    read.credentials.append(entry.name)
                if entry.name == GIT:
                    read.git = True
        return read

    def same_files(self, inodes: set[tuple[int, int]]) -> list[str]:
        """Other names, in the directories looked at, of the files with these devices and inodes."""
        numbers = {inode for _, inode in inodes}
        return [path for path, number in self._entries() if number in numbers and _identity(path) in inodes]

    def _entries(self) -> Iterator[tuple[str, int]]:
        count = 0
        for relative in self._known:
            path = f"{self._root}/{relative}" if relative else self._root
            try:
                with os.scandir(path) as entries:
                    for entry in entries:
                        yield entry.path, entry.inode()
                        count += 1
            except OSError:
                continue
            if count >= _MAX_ENTRIES:
                return


def _identity(path: str) -> tuple[int, int] | None:
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return (status.st_dev, status.st_ino) if stat.S_ISREG(status.st_mode) else None


def linked(paths: list[str]) -> set[tuple[int, int]]:
    """Device and inode of those of ``paths`` that are files with more than one name."""
    found = set()
    for path in paths:
        try:
            status = os.lstat(path)
        except OSError:
            continue
        if stat.S_ISREG(status.st_mode) and status.st_nlink > 1:
            found.add((status.st_dev, status.st_ino))
    return found
