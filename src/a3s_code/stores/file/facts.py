"""The file of a session's facts. In: rows. Out: the same rows, from an append-only file.

One rule: each append is one block, ``{"before", "bytes", "sum"}`` on a line and then the raw log lines (sealed when the
store is encrypted); a block that was cut is no part of the file and is cut off by the next append.
Known weakness: the sums of all facts of up to 64 sessions are kept in memory, and read from the file at first.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from a3s_code.core.branches import StoredFact
from a3s_code.errors import StoreError
from a3s_code.stores.disk import Disk, sync_directory, write_all
from a3s_code.stores.file.cipher import Cipher, Plain

_REMEMBERED: Final = 64
_HEAD: Final = b'{"before":'


class _Head(msgspec.Struct):
    before: str
    bytes: int
    sum: str


class _Line(msgspec.Struct):
    seq: int
    sum: str


_read_head: Final = msgspec.json.Decoder(_Head).decode
_read_line: Final = msgspec.json.Decoder(_Line).decode


class _Known:
    """What was read of a file so far: ``size`` bytes of whole blocks. ``head`` is the last block's, at ``head_at``: it
    tells the file from another one that was made in its place."""

    def __init__(self) -> None:
        self.size = 0
        self.head = b""
        self.head_at = 0
        self.sums: dict[int, list[str]] = {}

    def take(self, rows: Sequence[StoredFact], head: bytes, end: int) -> None:
        """The next block, which ends at ``end``."""
        self.head, self.head_at, self.size = head, self.size, end
        for row in rows:
            self.sums.setdefault(row.seq, []).append(row.sum)


class FactFiles:
    """The callers hold the session's lock, but for ``read``."""

    def __init__(self, cipher: Plain | Cipher) -> None:
        self._cipher = cipher
        self._guard = threading.Lock()
        self._known: OrderedDict[str, _Known] = OrderedDict()

    def sums(self, disk: Disk, path: str) -> dict[int, list[str]]:
        try:
            fd = disk.open(path, os.O_RDONLY)
        except FileNotFoundError:
            return {}
        try:
            return self._current(disk, fd, path).sums
        finally:
            disk.close(fd)

    def read(self, disk: Disk, path: str) -> list[StoredFact]:
        try:
            fd = disk.open(path, os.O_RDONLY)
        except FileNotFoundError:
            return []
        try:
            return [row for rows, _, _ in self._blocks(disk, fd, path, 0, disk.stat(fd).st_size) for row in rows]
        finally:
            disk.close(fd)

    def append(self, disk: Disk, path: str, rows: Sequence[StoredFact]) -> None:
        """Returns once they are on the disk. A failure leaves the file at its last whole block."""
        fd = disk.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT)
        try:
            known = self._current(disk, fd, path)
            new = [row for row in rows if row.sum not in known.sums.get(row.seq, ())]
            if not new:
                return
            begun = known.size > 0
            if disk.stat(fd).st_size > known.size:
                disk.truncate(fd, known.size)
            head, body = self._sealed(new, path)
            write_all(disk, fd, head + body)
            disk.fdatasync(fd)
            if not begun:
                sync_directory(disk, os.path.dirname(path))
            known.take(new, head, known.size + len(head) + len(body))
        finally:
            disk.close(fd)

    def forget(self, path: str) -> None:
        with self._guard:
            self._known.pop(path, None)

    def _current(self, disk: Disk, fd: int, path: str) -> _Known:
        size = disk.stat(fd).st_size
        with self._guard:
            known = self._known.get(path)
        if known is None or known.size > size or disk.read(fd, len(known.head), known.head_at) != known.head:
            known = _Known()
        with self._guard:
            self._known[path] = known
            self._known.move_to_end(path)
            if len(self._known) > _REMEMBERED:
                self._known.popitem(last=False)
        before = known.size
        for rows, head, end in self._blocks(disk, fd, path, known.size, size):
            known.take(rows, head, end)
        if known.size > before:  # who wrote them may have been killed before they were synced
            disk.fdatasync(fd)
            sync_directory(disk, os.path.dirname(path))
        return known

    def _sealed(self, rows: Sequence[StoredFact], path: str) -> tuple[bytes, bytes]:
        body = self._cipher.seal(b"\n".join(row.raw for row in rows), _place(path, rows[0].before))
        head = msgspec.json.encode(_Head(rows[0].before, len(body), hashlib.sha256(body).hexdigest()))
        return head + b"\n", body + b"\n"

    def _blocks(
        self, disk: Disk, fd: int, path: str, at: int, size: int
    ) -> Iterator[tuple[list[StoredFact], bytes, int]]:
        """Each whole block's rows, first line and end. ``StoreError`` names a file that is damaged before its end."""
        data = _bytes(disk, fd, at, size)
        start = 0
        while (line_end := data.find(b"\n", start)) >= 0:
            try:
                head = _read_head(data[start:line_end])
            except msgspec.DecodeError as error:
                if _follows(data, start):
                    raise _damaged(path, at + start) from error
                return  # a block that a power cut tore, beginning first
            if head.bytes < 0:
                raise _damaged(path, at + start)
            end = line_end + 1 + head.bytes
            if end >= len(data):
                return
            body = data[line_end + 1 : end]
            if hashlib.sha256(body).hexdigest() != head.sum or data[end : end + 1] != b"\n":
                if end + 1 == len(data):
                    return
                raise _damaged(path, at + start)
            try:
                rows = _rows(self._cipher.open(body, _place(path, head.before), path), head.before)
            except msgspec.DecodeError as error:
                raise _damaged(path, at + start) from error
            yield rows, data[start : line_end + 1], at + end + 1
            start = end + 1


def _follows(data: bytes, start: int) -> bool:
    """Whether a whole block begins somewhere behind ``start``: each one was synced before the next was begun."""
    while (start := data.find(_HEAD, start + 1)) >= 0:
        line_end = data.find(b"\n", start)
        with contextlib.suppress(msgspec.DecodeError):
            head = _read_head(data[start:line_end])
            if hashlib.sha256(data[line_end + 1 : line_end + 1 + head.bytes]).hexdigest() == head.sum:
                return True
    return False


def _rows(block: bytes, before: str) -> list[StoredFact]:
    rows = []
    for raw in block.split(b"\n"):
        line = _read_line(raw)
        rows.append(StoredFact(line.seq, line.sum, before, raw))
        before = line.sum
    return rows


def _bytes(disk: Disk, fd: int, at: int, size: int) -> bytes:
    parts = []
    while at < size and (part := disk.read(fd, min(size - at, 1 << 24), at)):
        parts.append(part)
        at += len(part)
    return b"".join(parts)


def _place(path: str, before: str) -> str:
    return f"{os.path.basename(path)} after {before}"


def _damaged(path: str, offset: int) -> StoreError:
    return StoreError(f"{path} is damaged at byte {offset}: it is not as it was written", "SERIALIZATION_ERROR")
