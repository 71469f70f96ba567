"""Tables for a terminal. In: a head and rows of short texts. Out: aligned lines.

One rule: every column is as wide as what is in it; only a last column may be cut, to the width that is given.
Known weakness: a character that is two columns wide counts as one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from a3s_code.cli.words import one_line

_NARROWEST: Final = 20


def table_lines(head: Sequence[str], rows: Sequence[Sequence[str]], width: int | None = None) -> list[str]:
    """Columns that are empty in every row are left out. Without ``width`` nothing is cut."""
    kept = [i for i in range(len(head)) if any(row[i] for row in rows)]
    whole = [[row[i] for i in kept] for row in (head, *rows)]
    widths = [max(len(row[i]) for row in whole) for i in range(len(kept))]
    if width is not None:
        left = max(_NARROWEST, width - sum(widths[:-1]) - 2 * len(widths) + 1)
        whole = [[*row[:-1], one_line(row[-1], left)] for row in whole]
    return ["  ".join(cell.ljust(size) for cell, size in zip(row, widths, strict=True)).rstrip() for row in whole]
