"""Ignore files as git reads them. In: the lines of ``.gitignore`` and ``.ignore``. Out: whether a path is ignored.

One rule: the last rule that matches decides, a deeper directory's file before a higher one's; nothing below an
ignored directory comes back. Matching is linear (``glob``), so that no repository can hang its readers.
Known weakness: a nested repository's own ``info/exclude`` and the user's global ignore file are not read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from a3s_code.tools.search.glob import Component, Test, component_test, match_components

_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_SPECIAL = frozenset("*?[\\")


class _Rule(NamedTuple):
    ignores: bool
    only_dirs: bool
    name: Test | None  # for rules about a name at any depth
    path: list[Component]  # for rules about a path below the file's directory


class Ignores:
    """The rules of one directory; ``base`` is its path with a final slash, empty for the root."""

    def __init__(self, base: str, lines: Iterable[str]) -> None:
        self._base = len(base)
        self._rules = [rule for rule in map(_parse, lines) if rule is not None]
        self._rules.reverse()

    def decide(self, path: str, name: str, is_dir: bool) -> bool | None:
        """Whether ``path`` is ignored; ``None`` when no rule is about it."""
        parts: list[str] | None = None
        for ignores, only_dirs, by_name, by_path in self._rules:
            if only_dirs and not is_dir:
                continue
            if by_name is not None:
                if by_name(name):
                    return ignores
            else:
                if parts is None:
                    parts = path[self._base :].split("/")
                if match_components(by_path, parts):
                    return ignores
        return None


def _parse(line: str) -> _Rule | None:
    text = line.removesuffix("\r")
    while text.endswith(" ") and not text.endswith("\\ "):
        text = text[:-1]
    if not text or text.startswith("#"):
        return None
    ignores = not text.startswith("!")
    text = text if ignores else text[1:]
    only_dirs = text.endswith("/")
    text = text.removesuffix("/")
    anchored = "/" in text
    parts = text.removeprefix("/").split("/")
    if not text or "" in parts:
        return None  # a doubled slash names nothing
    if anchored:
        return _Rule(ignores, only_dirs, None, [None if part == "**" else _test(part) for part in parts])
    return _Rule(ignores, only_dirs, _test(text), [])


def _test(text: str) -> Test:
    """The test of one component: the usual simple ones made fast, and a backslash takes the next letter as it is."""
    if not set(text) & _SPECIAL:
        return text.__eq__
    if text.startswith("*") and not set(text[1:]) & _SPECIAL:
        ending = text[1:]
        return lambda name: name.endswith(ending)
    return component_test(_ESCAPED.sub(_unescaped, text))


def _unescaped(found: re.Match[str]) -> str:
    letter = found[1]
    return f"[{letter}]" if letter in "*?[" else letter  # fnmatch knows no escape but this
