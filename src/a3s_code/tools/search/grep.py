"""Search by expression. In: candidates and an expression. Out: matching lines, file by file in order.

One rule: files are read in small batches, in a thread, and only as far as the page needs.
Known weakness: a batch is read whole even when its first file fills the page.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Iterator
from typing import NamedTuple

from a3s_code.ports.tool import ToolContext
from a3s_code.tools.search.apart import Apart
from a3s_code.tools.search.candidates import Candidate
from a3s_code.tools.search.guard import Guard
from a3s_code.tools.search.regex import Expression
from a3s_code.tools.search.text import Reader, cut, encoding_of, lines_of, shown

_BATCH_FILES = 128
_HARD_BATCH_FILES = 1024  # each batch may cost a process
_ORDINARY_LINE = 400
_BATCH_BYTES = 4 * 1024 * 1024
_LINES_AT_ONCE = 64  # between two looks at the clock


class FileHits(NamedTuple):
    """``hits`` are indices into ``lines``, never empty."""

    path: str
    lines: list[str]
    hits: list[int]


class Scan:
    """One search by expression; ``hits`` may be left at any point."""

    def __init__(self, expression: Expression, reader: Reader, apart: Apart, ctx: ToolContext, guard: Guard) -> None:
        self._expression = expression
        self._reader = reader
        self._apart = apart
        self._ctx = ctx
        self._guard = guard

    async def hits(self, files: list[Candidate]) -> AsyncGenerator[FileHits, None]:
        most = _BATCH_FILES if self._expression.max_line > _ORDINARY_LINE else _HARD_BATCH_FILES
        for batch in _batches(files, most):
            read = await asyncio.to_thread(self._scan, batch)
            far = [lines for _, lines, hits in read if hits is None]
            found = iter(await self._apart.match(self._expression, far, self._ctx, self._guard) if far else ())
            for path, lines, hits in read:
                hits = next(found) if hits is None else hits
                if hits:
                    yield FileHits(path, lines, hits)

    def _scan(self, batch: list[Candidate]) -> list[tuple[str, list[str], list[int] | None]]:
        """The files of a batch that may have hits; their hits, or ``None`` where matching must happen apart."""
        literal, max_line = self._expression.literal, self._expression.max_line
        read: list[tuple[str, list[str], list[int] | None]] = []
        for candidate in batch:
            self._guard.check()
            data = self._reader.read(candidate)
            if not data or (literal and literal not in data and encoding_of(data) in ("utf-8", "utf-8-sig")):
                continue
            lines = lines_of(data)
            if len(data) > max_line and max(map(len, lines), default=0) > max_line:
                read.append((candidate.path, lines, None))
            elif hits := self._match(lines):
                read.append((candidate.path, lines, hits))
        return read

    def _match(self, lines: list[str]) -> list[int]:
        search, hits = self._expression.search, []
        with self._guard.matching():
            for start in range(0, len(lines), _LINES_AT_ONCE):
                hits += [i for i, line in enumerate(lines[start : start + _LINES_AT_ONCE], start) if search(line)]
                self._guard.check()
        return hits


def _batches(files: Iterable[Candidate], most: int) -> Iterator[list[Candidate]]:
    batch: list[Candidate] = []
    size = 0
    for candidate in files:
        batch.append(candidate)
        size += candidate.entry.size
        if len(batch) == most or size >= _BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def content_rows(file: FileHits, hits: list[int], start: int, end: int, context: int) -> list[str]:
    """The rows for ``hits`` with their context out of the lines ``start`` to ``end`` (which hold no other hit);
    ``--`` between groups that are not neighbours."""
    path = shown(file.path)
    if context == 0:
        return [f"{path}:{i + 1}:{cut(file.lines[i])}" for i in hits]
    rows: list[str] = []
    matching = set(hits)
    done = start
    for hit in hits:
        first = max(done, hit - context)
        if rows and first > done:
            rows.append("--")
        done = max(done, min(end, hit + context + 1))
        for i in range(first, done):
            mark = ":" if i in matching else "-"
            rows.append(f"{path}{mark}{i + 1}{mark}{cut(file.lines[i])}")
    return rows
