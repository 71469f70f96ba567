"""Tables for a terminal. In: a head and rows of short texts. Out: aligned lines.

One rule: nothing is cut, and every column is as wide as what is in it.
Known weakness: a character that is two columns wide counts as one.
"""

from __future__ import annotations

from collections.abc import Sequence


def table_lines(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Columns that are empty are left out."""
    kept = [i for i in range(len(head)) if any(row[i] for row in rows)]
    whole = [[row[i] for i in kept] for row in (head, *rows)]
    widths = [max(len(row[i]) for row in whole) for i in range(len(kept))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in whole]
