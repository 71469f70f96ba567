"""Reading the lines of a log. In: a descriptor and where to begin. Out: checked lines, one at a time.

One rule: only a last line that was cut while it was written is forgiven; every other fault is an error that names
file, line and what is wrong (facts.md, *Opening*).
Known weakness: none known.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Final

from a3s_code.core.codec import DamagedLine, Header, Line, decode_header, decode_line, verify
from a3s_code.errors import StoreError
from a3s_code.ports.log import Position
from a3s_code.stores.disk import Disk

MAX_LINE: Final = 64 * 1024 * 1024
"""The longest line in bytes, its end not counted; a longer one is not written, and is damage when read."""

START: Final = Position()
_CHUNK: Final = 256 * 1024


def raw_lines(disk: Disk, fd: int, at: int) -> Iterator[tuple[int, bytes, bool]]:
    """From ``at`` on: where a line starts, its text, and whether it has its line end. ``DamagedLine`` when one is
    too long to be held."""
    pieces: list[bytes] = []
    held = 0
    start = at
    while chunk := disk.read(fd, _CHUNK, at):
        at += len(chunk)
        first, *more = chunk.split(b"\n")
        pieces.append(first)
        held += len(first)
        if held > MAX_LINE:
            raise DamagedLine(f"longer than {MAX_LINE} bytes")
        if more:
            more.insert(0, b"".join(pieces))
            last = more.pop()
            for text in more:
                yield start, text, True
                start += len(text) + 1
            pieces, held = [last], len(last)
    if held:
        yield start, b"".join(pieces), False


def damage(path: str, number: int, what: str) -> StoreError:
    return StoreError(
        f"{path}, line {number}: {what}. The file was left as it is; `a3s-code log repair` keeps what comes before"
    )


def refuse_break(line: Line, before: Position) -> None:
    """``DamagedLine`` unless ``line`` follows the fact at ``before`` as it was written."""
    if line.fact.seq != before.seq + 1:
        raise DamagedLine(f"fact {line.fact.seq} where fact {before.seq + 1} should be: lines are missing or moved")
    if not verify(line, before.sum):
        raise DamagedLine(f"the sum of fact {line.fact.seq} doesn't fit: it or the fact before it was changed")


class Scan:
    """Iterates over the facts after ``position``, which follows. Afterwards ``torn`` says that bytes of an unfinished
    write come after ``position.offset``; ``header`` is line 1 of a scan from the beginning."""

    def __init__(self, disk: Disk, fd: int, path: str, position: Position = START) -> None:
        self.header: Header | None = None
        self.position = position
        self.torn = False
        self._disk = disk
        self._fd = fd
        self._path = path

    def __iter__(self) -> Iterator[Line]:
        cut: DamagedLine | None = None  # a line that is damage unless it is the last
        try:
            for start, text, ended in raw_lines(self._disk, self._fd, self.position.offset):
                if cut is not None:
                    raise cut
                self.torn = not ended
                if not ended:
                    return
                try:
                    if start == 0:
                        self.header = self._read_header(text)
                        self.position = Position(0, "", len(text) + 1)
                        continue
                    line = decode_line(text)
                except DamagedLine as error:
                    if error.is_json:
                        raise
                    cut, self.torn = error, True
                    continue
                refuse_break(line, self.position)
                self.position = Position(line.fact.seq, line.sum, start + len(text) + 1)
                yield line
        except DamagedLine as error:
            # The header is line 1 and no fact, so the line after fact n is line n + 2.
            number = 1 if self.position.offset == 0 else self.position.seq + 2
            raise damage(self._path, number, str(error)) from error

    def read_header(self) -> None:
        """Sets ``header``; ``None`` stays when there is none yet."""
        for _ in self:
            return

    def _read_header(self, text: bytes) -> Header:
        try:
            return decode_header(text)
        except StoreError as error:
            raise StoreError(f"{self._path}: {error}", error.code) from error


def fits(disk: Disk, fd: int, position: Position) -> bool:
    """Whether the file holds the line that ends at ``position.offset``, by its sum, which covers all before it."""
    if position.seq == 0:
        return True
    end = b'"%b"}\n' % position.sum.encode()
    at = position.offset - len(end)
    return at >= 0 and disk.read(fd, len(end), at) == end


def next_free(path: str, what: str) -> str:
    """``<path without .jsonl>.<what>-<n>`` with the first ``n`` that is not in use."""
    stem = path.removesuffix(".jsonl")
    n = 1
    while os.path.lexists(f"{stem}.{what}-{n}"):
        n += 1
    return f"{stem}.{what}-{n}"
