"""A measured figure and its table. In: numbers. Out: lines that a person likes to read.

One rule: a figure stands beside its floor from the same run and its goal; nothing here passes or fails.
Known weakness: absolute times drift with the machine; only what stands in one table can be compared.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import NamedTuple

WIDTHS = (52, 12, 12, 9, 12, 9)
TITLES = ("figure", "ours", "floor", "x floor", "goal", "of goal")


class Figure(NamedTuple):
    """``value`` is what the goal is about; ``total`` what was measured where that is value plus ``floor``."""

    name: str
    value: float
    unit: str
    goal: float | None = None
    floor: float | None = None
    total: float | None = None
    note: str = ""

    def line(self) -> str:
        measured = self.value if self.total is None else self.total
        times = f"{measured / self.floor:.1f}" if self.floor else ""
        floor = "" if self.floor is None else _number(self.floor, self.unit)
        goal = "" if self.goal is None else f"≤ {_number(self.goal, self.unit)}"
        share = "" if not self.goal else f"{self.value / self.goal * 100:.0f} %"
        return _row((self.name, _number(self.value, self.unit), floor, times, goal, share)) + (
            f"  {self.note}" if self.note else ""
        )


def _number(value: float, unit: str) -> str:
    digits = 0 if abs(value) >= 100 or value == int(value) else 1 if abs(value) >= 10 else 2
    return f"{value:,.{digits}f} {unit}".rstrip()


def _row(cells: Sequence[str]) -> str:
    first, *more = zip(cells, WIDTHS, strict=True)
    return "  ".join((first[0].ljust(first[1]), *(cell.rjust(width) for cell, width in more)))


def head() -> str:
    return _row(TITLES) + "\n" + "-" * (sum(WIDTHS) + 2 * (len(WIDTHS) - 1))


def over(name: str, total: Sequence[float], floor: Sequence[float], unit: str, goal: float, *, each: int = 1) -> Figure:
    """What is left of seconds in ``total`` after those in ``floor``: medians, in ``unit``, ``each`` part of them."""
    ours, bare = (statistics.median(times) * SCALE[unit] / each for times in (total, floor))
    return Figure(name, ours - bare, unit, goal, bare, ours)


SCALE = {"s": 1.0, "ms": 1e3, "µs": 1e6}
