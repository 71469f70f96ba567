"""The decision table of tools.md §5.5, row for row."""

from __future__ import annotations

import pytest
from judging import decision
from table import ROWS, Row


def linked(path: str) -> tuple[str, str]:
    """A workspace in which ``docs/link`` leads to ``.env``."""
    return path, ".env" if path == "docs/link" else path


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.number}-{row.tool}-{row.subject[:40]!r}")
def test_row(row: Row) -> None:
    """Every call of the table is decided as it says."""
    resolve = linked if row.number == 30 else None
    assert decision(row.policy, row.subject, row.tool, resolve=resolve) == row.decision


def test_every_row_is_there() -> None:
    """The table has forty rows."""
    assert {row.number for row in ROWS} == set(range(1, 41))
