"""Rules of the form ``prog… -flags…`` (tools.md §5.4, 5). In: a pattern; the words of a command. Out: whether at least
those flags are given, in whatever order, clustering or position before ``--``.

One rule: an abbreviated long option counts as the option.
Known weakness: which options take a value is not known here, so a value that looks like a cluster of flags counts.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, Literal

import msgspec

from a3s_code.core.policy.glob import Pattern
from a3s_code.core.policy.line import Unknown, Word

_CLUSTER: Final = re.compile(r"-([A-Za-z0-9]{1,6})\*?")
_LONG: Final = re.compile(r"(--?[A-Za-z0-9][\w-]*)(\*?)")
_SAME: Final[dict[tuple[str, ...], dict[str, str]]] = {
    ("rm",): {"R": "r", "--recursive": "r", "--force": "f"},
    ("cp",): {"R": "r", "--recursive": "r"},
    ("chmod",): {"--recursive": "R"},
    ("chown",): {"--recursive": "R"},
    ("chgrp",): {"--recursive": "R"},
    ("git", "push"): {"--force": "f", "--delete": "d"},
    ("git", "clean"): {"--force": "f"},
    ("git", "branch"): {"--delete": "d", "--force": "f"},
    ("git", "checkout"): {"--force": "f"},
}
Found = Literal["must", "could", "no"]


class FlagForm(msgspec.Struct, frozen=True):
    """``long`` options may be prefixes (``*``); ``operands`` is what else the pattern asks for."""

    program: tuple[str, ...]
    short: frozenset[str]
    long: tuple[tuple[str, bool], ...]
    operands: Pattern | None

    def found(self, words: Sequence[Word]) -> Found:
        """``words`` begin with the program's base name."""
        given = _given(words)
        if self.operands is not None and given.unknown:
            return "could" if self._program(given) != "no" and self._missing(given) in ("", "?") else "no"
        program, missing = self._program(given), self._missing(given)
        if program == "no" or missing == "!":
            return "no"
        if self.operands is not None and not self.operands.matches(given.rest(len(self.program))):
            return "no"
        return "must" if program == "must" and not missing else "could"

    def _program(self, given: _Given) -> Found:
        for position, wanted in enumerate(self.program):
            if position >= len(given.operands):
                return "could" if given.splits else "no"
            found = given.operands[position]
            if found is None:
                return "could"
            if found != wanted:
                return "no"
        return "must"

    def _missing(self, given: _Given) -> Literal["", "?", "!"]:
        """Nothing is missing, may be given by an unknown word, or is not given."""
        same = _SAME.get(self.program, {})
        short = {same.get(flag, flag) for flag in given.short}
        for option in given.long:
            short |= {flag for name, flag in same.items() if name.startswith("--") and _abbreviates(option, name, 3)}
        if self.short <= short and all(self._has(name, open_end, given) for name, open_end in self.long):
            return ""
        return "?" if given.unknown_flags else "!"

    def _has(self, name: str, open_end: bool, given: _Given) -> bool:
        return any(
            option == name or (open_end and option.startswith(name)) or _abbreviates(option, name, 5)
            for option in (*given.long, *given.single)
        ) or bool(given.short & {_SAME.get(self.program, {}).get(name, "")})


class _Given(msgspec.Struct):
    short: set[str]
    long: list[str]
    single: list[str]
    operands: list[str | None]
    unknown: bool = False
    unknown_flags: bool = False
    splits: bool = False

    def rest(self, start: int) -> str:
        return " ".join([operand for operand in self.operands[start:] if operand is not None])


def _given(words: Sequence[Word]) -> _Given:
    given = _Given(set(), [], [], [])
    only_operands = False
    for word in words:
        text = word.text
        if only_operands:
            given.operands.append(text)
            given.unknown |= text is None
        elif text == "--":
            only_operands = True
        elif text is not None:
            _take(given, text)
        else:
            _take_unknown(given, word)
    return given


def _take(given: _Given, text: str) -> None:
    if text.startswith("--"):
        given.long.append(text.partition("=")[0])
    elif text.startswith("-") and len(text) > 1:
        given.short |= set(text[1:])
        given.single.append(text)
    else:
        given.operands.append(text)


def _take_unknown(given: _Given, word: Word) -> None:
    first = word.segments[0]
    given.unknown = True
    given.splits |= Unknown.SPLIT in word.segments or first is Unknown.GLOB
    if isinstance(first, str) and first.startswith("--") and "=" in first:
        given.long.append(first.partition("=")[0])
        given.unknown_flags |= Unknown.SPLIT in word.segments
    elif isinstance(first, str) and not first.startswith("-"):
        given.operands.append(None)
        given.unknown_flags |= Unknown.SPLIT in word.segments
    else:
        if first is Unknown.INSIDE or first is Unknown.SPLIT or first is Unknown.GLOB:
            given.operands.append(None)
        elif not first.startswith("--"):
            given.short |= set(first[1:])
        given.unknown_flags = True


def _abbreviates(option: str, name: str, at_least: int) -> bool:
    return len(option) >= at_least and name.startswith(option)


def flag_form(pattern: str, *, fold: bool) -> FlagForm | None:
    """``None`` for a pattern of another form."""
    prefix = pattern.endswith(":*")
    words = (pattern[:-2] if prefix else pattern).split(" ")
    if "\\" in pattern or "" in words or "/" in words[0]:
        return None
    start = next((i for i, w in enumerate(words) if w.startswith("-")), 0)
    end = start
    while end < len(words) and words[end].startswith("-"):
        end += 1
    program, flags, rest = words[:start], words[start:end], words[end:]
    if not program or any("*" in word for word in (*program, *flags[:-1])) or (rest and "*" in flags[-1]):
        return None
    short: set[str] = set()
    long: list[tuple[str, bool]] = []
    for flag in flags:
        cluster, option = _CLUSTER.fullmatch(flag), _LONG.fullmatch(flag)
        if cluster and len(set(cluster[1])) == len(cluster[1]):
            short |= set(cluster[1])
        elif option:
            long.append((option[1], bool(option[2])))
        else:
            return None
    operands = Pattern(" ".join(rest) + (":*" if prefix else ""), crossing=True, fold=fold) if rest else None
    return _canonical(FlagForm(tuple(program), frozenset(short), tuple(long), operands))


def _canonical(form: FlagForm) -> FlagForm:
    same = _SAME.get(form.program, {})
    short = {same.get(flag, flag) for flag in form.short}
    long = []
    for name, open_end in form.long:
        if name in same and not open_end:
            short.add(same[name])
        else:
            long.append((name, open_end))
    return FlagForm(form.program, frozenset(short), tuple(long), form.operands)
