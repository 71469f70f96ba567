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
from typing import Any, NamedTuple, TypeAlias

from a3s_code.ports.tool import ToolFailure

Tree: TypeAlias = list[tuple[str, Any]]  # what the parser makes of an expression: names and their operands
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
_ONE_LETTER = Cost(1, 0, 1)


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
        tree = _parsed(text, compiled.flags)
        self.max_line = 0 if tree is None else _longest(tree, bool(compiled.flags & re.IGNORECASE))
        self.literal = b"" if tree is None or compiled.flags & re.IGNORECASE else _literal(tree)


def _bad(problem: str) -> ToolFailure:
    return ToolFailure("invalid_argument", f"Invalid arguments for tool 'search':\n- query: bad pattern: {problem}")


def _parsed(text: str, flags: int) -> Tree | None:
    try:
        parse = importlib.import_module("re._parser").parse
    except (ImportError, AttributeError):
        return None
    return [(str(name), what) for name, what in parse(text, flags & ~re.UNICODE)]


def _longest(tree: Tree, any_case: bool) -> int:
    """The longest line that costs at most ``_MAX_STEPS``. Besides the structure: an anchor at the start leaves one
    place to try; nothing can fail after a repeat at the end and make it try again; and a repeat with one possible
    length is a walk over the line, not a choice."""
    anchored = bool(tree) and tree[0][0] == "AT" and str(tree[0][1]) in ("AT_BEGINNING", "AT_BEGINNING_STRING")
    if tree and tree[-1][0] in _REPEATS and tree[-1][1][0] <= 1 and _sequence(tree[-1][1][2]) == _ONE_LETTER:
        tree = [*tree[:-1], ("ANY", None)]
    choices = [part for i, part in enumerate(tree) if any_case or not _is_walk(part, tree[i + 1 : i + 2])]
    cost = _sequence(choices)
    exponent = cost.degree + (not anchored) + (len(choices) < len(tree))
    per_place = cost.ways * (cost.steps + len(tree) - len(choices))
    if per_place >= _MAX_STEPS:
        return 0
    return min(_MAX_LINE, int((_MAX_STEPS / max(1.0, per_place)) ** (1 / exponent))) if exponent else _MAX_LINE


def _is_walk(part: tuple[str, Any], following: Tree) -> bool:
    """Whether ``part`` repeats a letter that can't be the one that must follow, so that it has one length only."""
    if part[0] not in _REPEATS or not following or following[0][0] != "LITERAL":
        return False
    body = [(str(name), what) for name, what in part[1][2]]
    return len(body) == 1 and body[0][0] in ("LITERAL", "NOT_LITERAL", "IN") and not _may_be(*body[0], following[0][1])


def _may_be(name: str, what: Any, letter: int) -> bool:
    """Whether a set of letters may hold ``letter``; yes when in doubt."""
    if name == "LITERAL":
        return bool(what == letter)
    if name == "NOT_LITERAL":
        return bool(what != letter)
    if name == "RANGE":
        return bool(what[0] <= letter <= what[1])
    if name == "CATEGORY":
        category, sign = str(what), chr(letter)
        if category == "CATEGORY_SPACE":
            return sign.isspace()
        return category not in ("CATEGORY_WORD", "CATEGORY_DIGIT") or sign.isalnum() or sign == "_"
    items = [(str(kind), item) for kind, item in what]
    if items[0][0] == "NEGATE":
        return ("LITERAL", letter) not in items
    return any(_may_be(kind, item, letter) for kind, item in items)


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


def _literal(tree: Tree) -> bytes:
    """The longest run of letters that a match can't do without."""
    longest = run = ""
    for name, what in tree:
        run = run + chr(what) if name == "LITERAL" else ""
        longest = max(longest, run, key=len)
    return b"" if _NO_TEXT in longest else longest.encode("utf-8", "replace")
