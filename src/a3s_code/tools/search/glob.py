"""File name patterns. In: a glob. Out: a test of relative paths that takes no more than linear time in each name.

One rule: a hostile pattern is slow by no more than its length: components are matched one by one, ``**`` without
trying everything again.
Known weakness: there is no escape but a bracket (``[*]``), and a bracket can't hold ``/``.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Sequence
from typing import TypeAlias

_MAX_ALTERNATIVES = 256
Test: TypeAlias = Callable[[str], object]
Component: TypeAlias = Test | None  # None is ``**``


class BadGlob(ValueError):
    """The message says what is wrong with the pattern."""


class Glob:
    """``*``, ``?``, ``[…]``, ``{a,b}`` and ``**``, matched against the whole of a relative path. With ``by_name``, an
    alternative without ``/`` is matched against the last component only."""

    def __init__(self, pattern: str, *, by_name: bool = False, ignore_case: bool = False) -> None:
        self._names: list[Test] = []
        self._paths: list[list[Component]] = []
        for plain in _alternatives(pattern):
            parts = _checked(plain)
            if by_name and len(parts) == 1:
                self._names.append(component_test(parts[0], ignore_case))
            else:
                self._paths.append([None if part == "**" else component_test(part, ignore_case) for part in parts])

    def matches(self, path: str) -> bool:
        parts = path.split("/")
        if any(test(parts[-1]) for test in self._names):
            return True
        return any(match_components(components, parts) for components in self._paths)


def component_test(text: str, ignore_case: bool = False) -> Test:
    """The test of one path component. ``fnmatch`` translates so that no ``*`` is tried again (atomic groups)."""
    expression = fnmatch.translate(text.replace("[^", "[!"))
    return re.compile(expression, re.IGNORECASE if ignore_case else 0).match


def match_components(pattern: Sequence[Component], parts: Sequence[str]) -> bool:
    """``**`` stands for any number of components, at the end for at least one. Going back to the last ``**`` is
    enough: an earlier one could only take more of what a later one takes as well."""
    at = here = 0
    star = resume = -1
    while here < len(parts):
        test = pattern[at] if at < len(pattern) else None
        if at < len(pattern) and test is None:
            if at == len(pattern) - 1:
                return True
            star, resume = at, here
            at += 1
        elif test is not None and test(parts[here]):
            at += 1
            here += 1
        elif star >= 0:
            resume += 1
            at, here = star + 1, resume
        else:
            return False
    return at == len(pattern)


def _checked(pattern: str) -> list[str]:
    if pattern.startswith("/"):
        raise BadGlob("the pattern must be relative")
    parts = [part for part in pattern.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise BadGlob("the pattern must not contain '..'")
    if not parts:
        raise BadGlob("the pattern names nothing")
    return parts


def _alternatives(pattern: str) -> list[str]:
    """The pattern without braces, once for each choice; a brace without a partner or a comma is an ordinary one."""
    done: list[str] = []
    pending = [pattern]
    while pending:
        text = pending.pop()
        choices = _first_choice(text)
        if choices is None:
            done.append(text)
        else:
            pending.extend(choices)
        if len(done) + len(pending) > _MAX_ALTERNATIVES:
            raise BadGlob(f"the braces stand for more than {_MAX_ALTERNATIVES} patterns")
    return done


def _first_choice(text: str) -> list[str] | None:
    """The first brace group spread out, ``None`` when there is none."""
    opening = text.find("{")
    while opening >= 0:
        depth, start, parts = 0, opening + 1, []
        for i in range(opening, len(text)):
            letter = text[i]
            if letter == "{":
                depth += 1
            elif letter == "," and depth == 1:
                parts.append(text[start:i])
                start = i + 1
            elif letter == "}":
                depth -= 1
                if depth == 0 and parts:
                    parts.append(text[start:i])
                    return [f"{text[:opening]}{part}{text[i + 1 :]}" for part in parts]
                if depth == 0:
                    break
        opening = text.find("{", opening + 1)
    return None
