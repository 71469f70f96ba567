"""Places of protected names that don't exist. In: their paths. Out: something there, while commands run.

One rule: a placeholder is removed by whoever ends last, and only while it is still what was put there.
Known weakness: a process that is killed leaves empty ones behind until the next command ends. A link among protected
names is put back after the command, not guarded during it.

A mount needs something to be mounted on. A missing directory gets an empty directory; a missing file gets a socket
node, which no program takes for content: git, search and build tools pass over it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import stat
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from a3s_code.core.protected import PROTECTED_DIRECTORIES, RUNTIME_DIRECTORY

OWN: Final = f"{RUNTIME_DIRECTORY}/sandbox"


class _Made(msgspec.Struct):
    path: str
    inode: int


@contextlib.contextmanager
def placeholders(root: str, paths: Sequence[str]) -> Iterator[None]:
    """Holds the places of those of ``paths`` that don't exist; puts links back afterwards. Raises ``OSError`` when a
    place can't be held."""
    directory = _own_directory(root)
    links = {path: os.readlink(path) for path in paths if os.path.islink(path)}
    users = os.open(f"{directory}/users", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        with _alone(directory):
            fcntl.flock(users, fcntl.LOCK_SH)
            _hold(users, paths)
        try:
            yield
        finally:
            _restore(links)
            with _alone(directory):
                fcntl.flock(users, fcntl.LOCK_UN)
                _clear(users)
    finally:
        os.close(users)


def _own_directory(root: str) -> str:
    """``.a3s/sandbox``, which no command can write."""
    place = f"{root}/{OWN}"
    if not os.path.isdir(place):
        os.makedirs(place, exist_ok=True)
        with open(f"{place}/.gitignore", "w") as file:
            file.write("*\n")
    if os.path.realpath(place) != place:
        raise OSError(f"{OWN} is reached through a link")
    return place


@contextlib.contextmanager
def _alone(directory: str) -> Iterator[None]:
    """A short lock, under which alone ``users`` is taken and given up: nobody can clear what another relies on."""
    fd = os.open(f"{directory}/lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def _hold(users: int, paths: Sequence[str]) -> None:
    journal = _read(users)
    count = len(journal)
    for path in paths:
        if not os.path.lexists(path):
            _make(path)
            journal.append(_Made(path, os.lstat(path).st_ino))
    if len(journal) != count:
        _write(users, journal)


def _make(path: str) -> None:
    if os.path.basename(path) in PROTECTED_DIRECTORIES:
        os.mkdir(path)
        return
    try:
        os.mknod(path, stat.S_IFSOCK | 0o600)
    except PermissionError:  # a file system without such nodes
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))


def _clear(users: int) -> None:
    """Removes what was made, unless somebody still relies on it."""
    try:
        fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return
    journal = _read(users)
    for made in journal:
        with contextlib.suppress(OSError):  # gone, or filled by the host meanwhile: then it is the host's
            _remove(made)
    if journal:
        os.ftruncate(users, 0)


def _remove(made: _Made) -> None:
    status = os.lstat(made.path)
    if status.st_ino != made.inode:
        return
    if stat.S_ISDIR(status.st_mode):
        os.rmdir(made.path)
    elif status.st_size == 0:
        os.unlink(made.path)


def _restore(links: dict[str, str]) -> None:
    """A command can replace a link, which no mount covers; what it put there goes."""
    for path, target in links.items():
        if os.path.islink(path) and os.readlink(path) == target:
            continue
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path, ignore_errors=True)
        elif os.path.lexists(path):
            os.unlink(path)
        os.symlink(target, path)


def _read(users: int) -> list[_Made]:
    data = os.pread(users, 1 << 20, 0)
    if not data:
        return []
    try:
        return msgspec.json.decode(data, type=list[_Made])
    except msgspec.DecodeError:
        return []  # cut by a crash: what it named stays, empty and harmless


def _write(users: int, journal: list[_Made]) -> None:
    os.ftruncate(users, 0)
    os.pwrite(users, msgspec.json.encode(journal), 0)
