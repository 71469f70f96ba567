"""What an expression may cost. In: Python ``re`` syntax. Out: the compiled expression, and how long a line it may be
tried on inside this process.

One rule: a match in this process holds up everything else in it, so only what provably ends soon is tried here: the
number of ways to match is bounded from above by the expression's structure. The rest runs apart (``apart``).
Known weakness: the structure comes from the standard library's own parser, which is not public; where it is missing
everything runs apart, and is only slower.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterable
from typing import Any, NamedTuple

from a3s_code.ports.tool import ToolFailure

_MAX_STEPS = 4e6  # some 10 to 40 ms
_MAX_LINE = 1 << 30
_NO_TEXT = "\ufffd"  # stands for bytes that could not be decoded, so it can't be looked for among the bytes
_REPEATS = frozenset(("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"))
_ATOMS = frozenset(("LITERAL", "NOT_LITERAL", "ANY", "IN", "AT", "FAILURE"))


class Cost(NamedTuple):
    """At most ``ways * n**degree`` ways to match at one place of a line with ``n`` letters, ``steps`` steps each."""

    ways: float
    degree: float
    steps: float


_ENDLESS = Cost(float("inf"), 0, 1)


class Expression:
    """``literal`` are bytes that each matching line has in UTF-8, empty if none are known. ``max_line`` is the
    longest line that may be tried in this process."""

    def __init__(self, text: str, ignore_case: bool) -> None:
        self.text = text
        try:
            compiled = re.compile(text, re.IGNORECASE if ignore_case else 0)
        except re.error as error:
            where = "" if error.pos is None else f" at position {error.pos}"
            raise _bad(f"{error.msg}{where}") from None
        except (RecursionError, OverflowError) as error:
            raise _bad(str(error)) from None
        self.search = compiled.search
        self.flags = compiled.flags
        tree = _tree(text, compiled.flags)
        cost = _ENDLESS if tree is None else _sequence(tree)
        self.max_line = _longest(cost)
        self.literal = b"" if tree is None or compiled.flags & re.IGNORECASE else _literal(tree)


def _bad(problem: str) -> ToolFailure:
    return ToolFailure("invalid_argument", f"Invalid arguments for tool 'search':\n- query: bad pattern: {problem}")


def _tree(text: str, flags: int) -> Iterable[tuple[Any, Any]] | None:
    try:
        parse = importlib.import_module("re._parser").parse
    except (ImportError, AttributeError):
        return None
    tree: Iterable[tuple[Any, Any]] = parse(text, flags & ~re.UNICODE)
    return tree


def _longest(cost: Cost) -> int:
    per_place = cost.ways * max(1.0, cost.steps)
    if per_place >= _MAX_STEPS:
        return 0
    return min(_MAX_LINE, int((_MAX_STEPS / per_place) ** (1 / (cost.degree + 1))))


def _sequence(items: Iterable[tuple[Any, Any]]) -> Cost:
    ways, degree, steps = 1.0, 0.0, 0.0
    for name, what in items:
        part = _part(str(name), what)
        ways, degree, steps = ways * part.ways, degree + part.degree, steps + part.steps
    return Cost(ways, degree, steps)


def _part(name: str, what: Any) -> Cost:
    if name in _ATOMS:
        return Cost(1, 0, 1)
    if name in _REPEATS:
        return _repeat(*what)
    if name == "SUBPATTERN":
        return _sequence(what[3])
    if name == "ATOMIC_GROUP":
        return _sequence(what)
    if name in ("ASSERT", "ASSERT_NOT"):
        return _sequence(what[1])
    if name == "BRANCH":
        return _either([_sequence(branch) for branch in what[1]])
    if name == "GROUPREF":
        return Cost(1, 1, 1)
    if name == "GROUPREF_EXISTS":
        return _either([_sequence(branch) for branch in what[1:] if branch is not None])
    return _ENDLESS


def _either(branches: list[Cost]) -> Cost:
    ways, degrees, steps = zip(*branches, strict=True)
    return Cost(sum(ways), max(degrees), sum(steps))


def _repeat(low: int, high: int, body: Iterable[tuple[Any, Any]]) -> Cost:
    """Repeating what has one way adds a choice of length; repeating choices multiplies them."""
    once = _sequence(body)
    endless = high > _MAX_LINE
    if once.ways == 1 and once.degree == 0:
        return Cost(1, 1, once.steps) if endless else Cost(high - low + 1, 0, once.steps * high)
    if endless or high * (once.ways + once.degree) > 64:
        return _ENDLESS
    return Cost(once.ways**high * (high - low + 1), once.degree * high, once.steps * high)


def _literal(tree: Iterable[tuple[Any, Any]]) -> bytes:
    """The longest run of letters that a match can't do without."""
    longest = run = ""
    for name, what in tree:
        run = run + chr(what) if str(name) == "LITERAL" else ""
        longest = max(longest, run, key=len)
    return b"" if _NO_TEXT in longest else longest.encode("utf-8", "replace")
