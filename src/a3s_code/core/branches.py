"""The facts that checkpoints store of one session. In: raw log lines. Out: rows that name their place, and lines again.

One rule: a row is known by its ``seq`` and ``sum`` and names the sum before it, so that a log which was rebuilt from an
earlier checkpoint and went another way is stored beside the first, and either is found from its end.
Known weakness: what no checkpoint leads to any more stays until the session is deleted.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from a3s_code.core.codec import DamagedLine, Line, decode_line, verify
from a3s_code.errors import StoreError


class StoredFact(msgspec.Struct, frozen=True):
    """``before`` is the sum of the fact before (empty for the first); ``raw`` is the line without its end."""

    seq: int
    sum: str
    before: str
    raw: bytes


def read_lines(lines: Sequence[bytes]) -> list[Line]:
    """Lines that follow one another. ``StoreError`` (``SERIALIZATION_ERROR``) when they don't."""
    found: list[Line] = []
    for raw in lines:
        try:
            line = decode_line(raw)
        except DamagedLine as error:
            raise StoreError(f"a fact can't be stored: {error}", "SERIALIZATION_ERROR") from error
        if found and not (line.fact.seq == found[-1].fact.seq + 1 and verify(line, found[-1].sum)):
            raise StoreError(f"fact {line.fact.seq} doesn't follow the fact before it", "SERIALIZATION_ERROR")
        found.append(line)
    return found


def place(lines: Sequence[Line], sums: Iterable[str]) -> list[StoredFact] | None:
    """The rows of ``lines``, the first of which follows one of ``sums``; ``None`` when it follows none."""
    parent = next((each for each in sums if verify(lines[0], each)), None)
    if parent is None:
        return None
    before = [parent, *(line.sum for line in lines[:-1])]
    return [StoredFact(line.fact.seq, line.sum, prior, line.raw) for line, prior in zip(lines, before, strict=True)]


def walk(rows: Iterable[StoredFact], seq: int, sum: str) -> list[bytes] | None:  # noqa: A002  as the member is called
    """The lines from fact 1 to the one of ``seq`` and ``sum``; ``None`` when one is missing."""
    known = {(row.seq, row.sum): row for row in rows}
    lines: list[bytes] = []
    while seq > 0:
        row = known.get((seq, sum))
        if row is None:
            return None
        lines.append(row.raw)
        seq, sum = seq - 1, row.before  # noqa: A001  as the member is called
    lines.reverse()
    return lines
