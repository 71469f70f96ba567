"""Places of protected names that don't exist. In: their paths. Out: something there, while commands run.

One rule: a placeholder is removed by whoever ends last, and only while it is still what was put there.
Known weakness: a process that is killed leaves empty ones behind until the next command ends. A link among protected
names is put back after the command, not guarded during it.

A mount needs something to be mounted on. Every missing name, a file's too, gets an empty directory: git, searches and
archives pass over it, while an empty file would be committed or packed.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from a3s_code.core.protected import RUNTIME_DIRECTORY

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
            os.mkdir(path)
            journal.append(_Made(path, os.lstat(path).st_ino))
    if len(journal) != count:
        _write(users, journal)


def _clear(users: int) -> None:
    """Removes what was made, unless somebody still relies on it."""
    try:
        fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return
    journal = _read(users)
    for made in journal:
        with contextlib.suppress(OSError):  # gone, or filled by the host meanwhile: then it is the host's
            if os.lstat(made.path).st_ino == made.inode:
                os.rmdir(made.path)
    if journal:
        os.ftruncate(users, 0)


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
