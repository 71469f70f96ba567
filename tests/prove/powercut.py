"""A disk that may lose its power. In: the operations on it. Out: any of the directories that a cut could leave.

What was synced is there. Of the rest, each name of a directory is as it was after any of its changes since the
directory's sync, each sector of a file is the old one or the new one, and a file ends anywhere between the two.

One rule: what POSIX doesn't promise doesn't happen in favour of the store.
Known weakness: all writes of the stores append; others are not kept track of.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeAlias

from gatedstores import GatedDisk
from turns import Died, Turns

_PAGE: Final = 512


class _File:
    def __init__(self) -> None:
        self.synced = b""
        self.now = bytearray()

    def left(self, chance: random.Random) -> bytes:
        old, new = self.synced, bytes(self.now)
        least, most = sorted((len(old), len(new)))
        size = chance.choice((len(old), len(new), chance.randint(least, most)))
        pages = [chance.choice((old, new))[at : at + _PAGE].ljust(_PAGE, b"\0") for at in range(0, max(size, 1), _PAGE)]
        return b"".join(pages)[:size]


class _Directory:
    def __init__(self) -> None:
        self.now: dict[str, _Node] = {}
        self.since: dict[str, list[_Node | None]] = {}

    def change(self, name: str, node: _Node | None) -> None:
        self.since.setdefault(name, [self.now.get(name)]).append(node)
        self.now.pop(name, None)
        if node is not None:
            self.now[name] = node

    def left(self, chance: random.Random) -> dict[str, _Node]:
        found = dict(self.now)
        for name, nodes in self.since.items():
            found.pop(name, None)
            node = chance.choice(nodes)
            if node is not None:
                found[name] = node
        return found


_Node: TypeAlias = _File | _Directory


class PowerDisk(GatedDisk):
    """Below ``root`` only. ``cut_after`` is the number of the write after which the power is cut (0: none)."""

    def __init__(self, turns: Callable[[], Turns], root: Path, cut_after: int) -> None:
        super().__init__(turns)
        self._cut_after = cut_after
        self._root = root
        self._top = _Directory()
        self._open: dict[int, _Node] = {}

    def open(self, path: str, flags: int) -> int:
        fd = super().open(path, flags)
        directory, name = self._parent(path)
        node = directory.now.get(name) if name else self._top
        if node is None:
            node = _File()
            directory.change(name, node)
        if flags & os.O_TRUNC and isinstance(node, _File):
            node.now.clear()
        self._open[fd] = node
        return fd

    def write(self, fd: int, data: bytes) -> int:
        written = len(data) // 2
        try:
            written = super().write(fd, data)
        except Died:
            self._file(fd).now += data[:written]
            raise
        self._file(fd).now += data[:written]
        self._cut_after -= 1
        if self._cut_after == 0:
            self._turns().cut_at = self._turns().points + 1
        return written

    def truncate(self, fd: int, size: int) -> None:
        super().truncate(fd, size)
        del self._file(fd).now[size:]

    def fdatasync(self, fd: int) -> None:
        super().fdatasync(fd)
        match self._open[fd]:
            case _File() as file:
                file.synced = bytes(file.now)
            case _Directory() as directory:
                directory.since.clear()

    def mkdir(self, path: str, mode: int = 0o777) -> None:
        super().mkdir(path, mode)
        directory, name = self._parent(path)
        directory.change(name, _Directory())

    def rmdir(self, path: str) -> None:
        super().rmdir(path)
        directory, name = self._parent(path)
        directory.change(name, None)

    def rename(self, source: str, target: str) -> None:
        super().rename(source, target)
        (here, old), (there, new) = self._parent(source), self._parent(target)
        there.change(new, here.now[old])
        here.change(old, None)

    def unlink(self, path: str) -> None:
        super().unlink(path)
        directory, name = self._parent(path)
        directory.change(name, None)

    def cut(self, chance: random.Random, into: Path) -> None:
        """Makes one of the directories that may be left."""

        def make(directory: _Directory, path: Path) -> None:
            path.mkdir()
            for name, node in directory.left(chance).items():
                if isinstance(node, _Directory):
                    make(node, path / name)
                else:
                    (path / name).write_bytes(node.left(chance))

        make(self._top, into)

    def _file(self, fd: int) -> _File:
        node = self._open[fd]
        assert isinstance(node, _File), "directories are not written"
        return node

    def _parent(self, path: str) -> tuple[_Directory, str]:
        *above, name = Path(path).relative_to(self._root).parts or ("",)
        directory = self._top
        for part in above:
            node = directory.now[part]
            assert isinstance(node, _Directory), "a file has no entries"
            directory = node
        return directory, name
