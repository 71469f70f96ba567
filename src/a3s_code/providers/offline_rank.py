"""Which hits matter most. In: hits and the words of the question. Out: the hits, best first.

One rule: equal scores are ordered by path and line, so that the same results give the same answer.
Known weakness: a definition is known by its usual keywords, not by parsing.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Sequence

import msgspec

from a3s_code.providers.offline_evidence import Hit
from a3s_code.providers.offline_question import Term

DEFINING = (
    r"(?:def|class|fn|func|function|interface|struct|enum|trait|type|impl|module|const|let|var|static|macro_rules!"
    r"|#define|create table)"
)
_MARK = r"(TODO|FIXME|HACK|XXX|BUG)\b(?=[:(!.,\]\s-]|$)"
MENTION = re.compile(r"\b(?:TODO|FIXME|HACK|XXX|BUG)\b")
TODO = re.compile(rf"(?:#|//|/\*|<!--|--|;|%)\W{{0,4}}(?:\w+\W+){{0,3}}?{_MARK}|^\s*(?:\*|-|\"\"\"|- \[ \])?\s*{_MARK}")
SMELLS: tuple[tuple[str, str], ...] = (
    ("a mutable default is shared by all calls", r"def \w+\(.*=\s*(\[\]|\{\}|set\(\)|dict\(\)|list\(\))"),
    ("the last element is left out", r"range\(len\([\w.]+\) ?- ?1\)"),
    ("a bare except also catches interrupts", r"^\s*except\s*:"),
    ("an error is swallowed", r"except (Base)?Exception( as \w+)?\s*:\s*pass|catch \(\w*\) ?\{ ?\}"),
    (
        "identity is compared, not value",
        r"\b(if|while|assert|return) .*\w\)? is (not )?['\"][^'\"]*['\"]( and | or |:)",
    ),
    ("None is compared by value", r"[=!]= ?None\b"),
    ("divides by a length that may be 0", r"[\w)\]] ?/ ?len\("),
    ("a shell parses this text", r"shell=True"),
    ("runs text as code", r"(^|[^.\w])(eval|exec)\("),
    ("marked as broken by its author", r"(#|//)\W{0,3}(FIXME|BUG)\b"),
)
_SMELLS = tuple((name, re.compile(rule)) for name, rule in SMELLS)
_URGENCY = {"FIXME": 3, "BUG": 3, "HACK": 2, "XXX": 2, "TODO": 1}
_NOISE = re.compile(
    r"(^|/)(vendor|vendored|_vendor|third_party|node_modules|dist|build|target|site-packages|\.venv|__pycache__|[^/]+-info)/|\.min\.|\.lock$|-lock\.|\.map$"
    r"|\.(so|pyd|dll|dylib|pyc|png|jpe?g|gif|ico|pdf|zip|gz|whl)$"
)
_TESTS = re.compile(r"(^|/)(tests?|testing|spec|__tests__)/|(^|/)test_|_test\.|\.(test|spec)\.")
_PROSE = re.compile(r"\.(md|rst|txt|adoc)$|(^|/)(docs?|examples?)/", re.IGNORECASE)
_IMPORT = re.compile(r"\s*(from\s+\S+\s+import|import\s|#include|use\s|require\(|export \*|__all__)")


class Ranked(msgspec.Struct, frozen=True):
    hit: Hit
    score: float
    defines: bool


def place_weight(path: str) -> float:
    """Own code first, then prose and tests, what others wrote last."""
    if _NOISE.search(path):
        return -7.0
    return -3.0 if _TESTS.search(path) else -2.0 if _PROSE.search(path) else 0.0


def is_test(path: str) -> bool:
    return bool(_TESTS.search(path))


def rank(hits: Iterable[Hit], terms: Sequence[Term], per_file: int = 3) -> list[Ranked]:
    """At most ``per_file`` lines of one file, none within three lines of a better one."""
    judges = [_judge(term) for term in terms]
    lines: dict[tuple[str, int], Hit] = {}
    for hit in hits:
        known = lines.get((hit.path, hit.line))
        if known is None or hit.bonus > known.bonus:
            lines[hit.path, hit.line] = hit
    weights = _weights(lines.values(), terms)
    widths: dict[str, set[int]] = {}
    scored: list[Ranked] = []
    for hit in lines.values():
        score, defines, matched = hit.bonus + place_weight(hit.path), False, 0
        for i, judge in enumerate(judges):
            points, definition = judge(hit)
            if points:
                matched += 1
                widths.setdefault(hit.path, set()).add(i)
            score, defines = score + points * weights[i], defines or definition
        if matched or not judges:
            score -= 3.0 if _IMPORT.match(hit.text) else 0.0
            scored.append(Ranked(hit, score + 2.0 * (matched - 1), defines))
    wide = [msgspec.structs.replace(r, score=r.score + len(widths.get(r.hit.path, ()))) for r in scored]
    wide.sort(key=lambda r: (-r.score, r.hit.path.count("/"), r.hit.path, r.hit.line))
    return _spread(wide, per_file)


def _weights(hits: Collection[Hit], terms: Sequence[Term]) -> list[float]:
    """A word that few of the lines hold says more than one that is everywhere."""
    weights = []
    for term in terms:
        loose = re.compile(term.pattern, re.IGNORECASE)
        holding = sum(1 for hit in hits if loose.search(hit.text))
        weights.append(min(2.5, 1.0 + math.log(len(hits) / holding)) if holding else 1.0)
    return weights


def _judge(term: Term) -> Callable[[Hit], tuple[float, bool]]:
    """Points of one line for one word, and whether the line defines it."""
    exact = re.compile(rf"(?<!\w){term.pattern}(?!\w)") if term.exact else None
    loose = re.compile(term.pattern, re.IGNORECASE)
    name = rf"{term.pattern}(?!\w)" if term.exact else rf"\w*{term.pattern}\w*"
    how = 0 if term.exact else re.IGNORECASE
    declares = re.compile(rf"^\W*(?:\w+[\s(]+){{0,4}}?{DEFINING}\s+(?:\([^)]*\)\s*)?{name}", how)
    assigns = re.compile(rf"^(\s*)(?:self\.)?{name}\s*(?::[^=]*)?=[^=]", how)

    def judge(hit: Hit) -> tuple[float, bool]:
        in_path = 3.0 if loose.search(hit.path.rsplit("/", 1)[-1]) else 1.0 if loose.search(hit.path) else 0.0
        if not loose.search(hit.text):
            return 0.0, False
        points = 3.0 + (2.0 if exact and exact.search(hit.text) else 0.0) + in_path
        if declares.search(hit.text):
            return points + (9.0 if exact else 5.0), True
        if assigned := assigns.match(hit.text):
            return points + ((7.0 if exact else 3.0) if not assigned[1] else 1.0), not assigned[1]
        return points, False

    return judge


def _spread(ordered: list[Ranked], per_file: int) -> list[Ranked]:
    kept: list[Ranked] = []
    lines: dict[str, list[int]] = {}
    for one in ordered:
        near = lines.setdefault(one.hit.path, [])
        if len(near) < per_file and all(abs(one.hit.line - line) > 3 for line in near):
            near.append(one.hit.line)
            kept.append(one)
    return kept


def rank_todos(hits: Iterable[Hit]) -> list[tuple[str, Hit]]:
    """Markers in comments, each line once: the urgent ones and own code first."""
    found: dict[tuple[str, int], tuple[str, Hit]] = {}
    for hit in hits:
        if match := TODO.search(hit.text):
            found[hit.path, hit.line] = (match[1] or match[2], hit)
    return sorted(
        found.values(), key=lambda one: (-_URGENCY[one[0]] - place_weight(one[1].path), one[1].path, one[1].line)
    )


def mentions(hits: Iterable[Hit]) -> list[Hit]:
    """Lines that name a marker anywhere, in prose or a string, say."""
    return [hit for hit in hits if MENTION.search(hit.text)]


def rank_smells(hits: Iterable[Hit]) -> list[tuple[str, Hit]]:
    """Lines of code (no tests, no prose, no comments) with what is suspicious about them, the worst kinds first."""
    found: dict[tuple[str, int], tuple[int, Hit]] = {}
    for hit in hits:
        if place_weight(hit.path) <= -2 or hit.text.lstrip().startswith(("r'", 'r"', "'", '"', "*")):
            continue
        kind = next((i for i, (_, rule) in enumerate(_SMELLS) if rule.search(hit.text)), None)
        if kind is not None:
            found[hit.path, hit.line] = (kind, hit)
    ordered = sorted(found.values(), key=lambda one: (one[0], one[1].path, one[1].line))
    return [(_SMELLS[kind][0], hit) for kind, hit in ordered]
