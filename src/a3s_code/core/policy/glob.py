"""Patterns of rules (tools.md §5.2). In: a pattern. Out: whether a text matches, and whether an unknown one could.

One rule: a pattern matches a whole text. "Could" is answered yes when some value of the unknown parts makes it match,
"must" only when every value does.
Known weakness: none known.
"""

from __future__ import annotations

import re
from typing import Final, TypeAlias

import msgspec

ANY: Final = None
"""A part of a text that may be anything, also nothing."""


class Maybe(msgspec.Struct, frozen=True):
    """A part of a text that may be missing."""

    parts: tuple[str | None, ...]


Text: TypeAlias = tuple[str | Maybe | None, ...]
SOLID: Final = "\0"
"""A part that may be anything without blanks. No text of a shell line holds this sign."""
_LIMIT: Final = 4096
_STEPS: Final = 1_000_000


class Pattern:
    """``crossing`` lets ``*`` run over ``/`` too. ``head`` is the literal text before the first wildcard."""

    def __init__(self, source: str, *, crossing: bool, fold: bool = False) -> None:
        self.source = source
        self._fold = fold
        self.prefix = source.endswith(":*") and not source.endswith("\\:*")
        tokens = _tokens(source[:-2] if self.prefix else source, crossing)
        self.literal = all(token is not None and len(token) == 1 for token in tokens) and not self.prefix
        self.head = "".join(_literal_head(tokens))
        if fold:
            tokens = [t if t in _WILD else t.casefold() for t in tokens]
        self._tokens = tokens
        self._wild = sum(token in _WILD for token in tokens)
        self._linear = self._wild < 2 or all(token == _STAR or token not in _WILD for token in tokens)
        flags = re.DOTALL | (re.IGNORECASE if fold else 0)
        end = r"(?:[ \t\n].*)?" if self.prefix else ""
        self._matches = re.compile(_expression(tokens, atomic=self._linear) + end, flags).fullmatch
        self._automaton: _Automaton | None = None

    def matches(self, text: str) -> bool:
        # A model writes the text: one that makes an expression try every way through it must not hold up the loop.
        if self._linear or len(text) ** self._wild <= _STEPS:
            return self._matches(text) is not None
        return self.must((text,))

    def could(self, text: Text) -> bool:
        return self._run(text).could(text)

    def must(self, text: Text) -> bool:
        return self._run(text).must(text)

    def _run(self, text: Text) -> _Automaton:
        if self._automaton is None:
            self._automaton = _Automaton(self._tokens, self.prefix, self._fold)
        return self._automaton


_STAR, _RUN, _DIRS = "**", "*/", "**/"
_EXPRESSIONS: Final = {_STAR: ".*", _RUN: "[^/]*", _DIRS: "(?:.*/)?"}
_WILD: Final = frozenset(_EXPRESSIONS)


def _expression(tokens: list[str], *, atomic: bool) -> str:
    """``atomic`` where every wildcard takes anything: then the first place at which the text between two of them
    stands is as good as any other, and none is tried again."""
    pieces = [""]
    for token in tokens:
        if token in _WILD:
            pieces.append(_EXPRESSIONS[token])
        else:
            pieces[-1] += re.escape(token)
    if atomic:
        pieces[1:-1] = [f"(?>.*?{piece.removeprefix('.*')})" for piece in pieces[1:-1]]
    return "".join(pieces)


def _tokens(source: str, crossing: bool) -> list[str]:
    """Single characters, and the wildcards under names of two or three signs."""
    tokens, at = [], 0
    while at < len(source):
        sign = source[at]
        if sign == "\\" and at + 1 < len(source):
            tokens.append(source[at + 1])
            at += 2
        elif source.startswith("**/", at):
            tokens.append(_DIRS)
            at += 3
        elif source.startswith("**", at):
            if tokens[-1:] != [_STAR]:
                tokens.append(_STAR)
            at += 2
        elif sign == "*":
            wild = _STAR if crossing else _RUN
            if tokens[-1:] != [wild]:
                tokens.append(wild)
            at += 1
        else:
            tokens.append(sign)
            at += 1
    return tokens


def _literal_head(tokens: list[str]) -> list[str]:
    for position, token in enumerate(tokens):
        if token in _WILD:
            return tokens[:position]
    return tokens


class _Automaton:
    """The pattern as a set of positions kept in one number: bit ``i`` means that ``i`` steps are behind us."""

    def __init__(self, tokens: list[str], prefix: bool, fold: bool) -> None:
        steps: list[str] = []
        self._skips: list[tuple[int, int]] = []
        self._chars: dict[str, int] = {}
        self._stars = self._runs = 0
        for token in tokens:
            at = 1 << len(steps)
            if token == _DIRS:
                # Left out whole from its first place only: what has taken something goes on with a "/".
                self._skips += [(at, 1), (at, 2)]
                self._stars |= at << 1
                self._on("/", len(steps) + 1)
                steps += [token, "/"]
            elif token in _WILD:
                self._skips.append((at, 1))
                self._stars |= at if token == _STAR else 0
                self._runs |= at if token == _RUN else 0
                steps.append(token)
            else:
                self._on(token, len(steps))
                steps.append(token)
        self._fold = fold
        self._ends = 1 << len(steps)
        if prefix:
            for blank in " \t\n":
                self._on(blank, len(steps))
            self._stars |= 1 << (len(steps) + 1)
            self._ends |= 1 << (len(steps) + 1)
        self._all = (1 << self._ends.bit_length()) - 1
        self._blanks = self._chars.get(" ", 0) | self._chars.get("\t", 0) | self._chars.get("\n", 0)
        self._start = self._closed(1)

    def _on(self, sign: str, position: int) -> None:
        self._chars[sign] = self._chars.get(sign, 0) | 1 << position

    def could(self, text: Text) -> bool:
        states = self._start
        for part in text:
            if isinstance(part, Maybe):
                states |= self._pass(states, part.parts, must=False)
            else:
                states = self._pass(states, (part,), must=False)
            if not states:
                return False
        return bool(states & self._ends)

    def must(self, text: Text) -> bool:
        states = self._start
        for part in text:
            if isinstance(part, Maybe):
                states &= self._pass(states, part.parts, must=True)
            else:
                states = self._pass(states, (part,), must=True)
            if not states:
                return False
        return bool(states & self._ends)

    def _pass(self, states: int, parts: tuple[str | None, ...], *, must: bool) -> int:
        for part in parts:
            if part is ANY:
                # What may be anything takes the pattern on by any number of steps; what must match whatever it is
                # can only be taken by a wildcard that takes everything.
                states = self._closed(states & self._stars) if must else self._all & -(states & -states)
            elif part == SOLID:
                states = self._closed(states & self._stars) if must else self._solid(states)
            elif len(part) > _LIMIT and not must:
                states = self._literal(states, part[:_LIMIT])
                states = self._all & -(states & -states)
            else:
                states = self._literal(states, part)
            if not states:
                return 0
        return states

    def _solid(self, states: int) -> int:
        """As far as the pattern goes without a blank."""
        before = 0
        while states != before:
            before = states
            states = self._closed(states | (states & self._all & ~self._blanks) << 1) & self._all
        return states

    def _literal(self, states: int, text: str) -> int:
        for sign in text.casefold() if self._fold else text:
            moved = (states & self._chars.get(sign, 0)) << 1
            states = self._closed(moved | states & self._stars | (states & self._runs if sign != "/" else 0))
            if not states:
                return 0
        return states

    def _closed(self, states: int) -> int:
        for at, width in self._skips:
            if states & at:
                states |= at << width
        return states
