"""Which events a hook is for (extensions.md §1.1). In: a matcher as the host wrote it. Out: a test of an event.

One rule: all given keys must match, and an event without the field of one does not match.
Known weakness: a ``command_pattern`` runs on the event loop, so one that backtracks without end blocks it.
"""

from __future__ import annotations

import fnmatch
import os
import posixpath
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeAlias

from a3s_code.core.content import Json, JsonObject
from a3s_code.ports.hooks import About

LONGEST_PATTERN: Final = 4096
KEYS: Final = ("tool", "path_pattern", "command_pattern", "session_id", "skill")
Test: TypeAlias = Callable[[About, JsonObject], bool]


class MatcherFault(ValueError):
    """What is wrong with a matcher, in words."""


def compiled(matcher: Mapping[str, Any] | None) -> tuple[Test, ...]:
    """The tests of a matcher whose keys are known."""
    return tuple([_MAKERS[key](_pattern(key, value)) for key, value in (matcher or {}).items() if value is not None])


def _pattern(key: str, value: object) -> str:
    if not isinstance(value, str) or not value:
        raise MatcherFault(f"matcher '{key}': expected text that is not empty, got {value!r:.60}")
    if len(value) > LONGEST_PATTERN:
        raise MatcherFault(f"matcher '{key}': {len(value)} characters are more than {LONGEST_PATTERN}")
    return value


def _tool(pattern: str) -> Test:
    if not any(sign in pattern for sign in "*?["):
        return lambda about, payload: payload.get("tool") == pattern
    matches = re.compile(fnmatch.translate(pattern)).match
    return lambda about, payload: isinstance(name := payload.get("tool"), str) and matches(name) is not None


def _path(pattern: str) -> Test:
    try:
        matches = re.compile(path_expression(pattern), re.DOTALL).fullmatch
    except re.error as error:
        raise MatcherFault(f"matcher 'path_pattern': {error}") from None
    return lambda about, payload: any(matches(relative(path, about.root)) for path in _paths(payload.get("args")))


def _command(pattern: str) -> Test:
    try:
        search = re.compile(pattern).search
    except (re.error, RecursionError, OverflowError) as error:
        raise MatcherFault(f"matcher 'command_pattern': not a regular expression: {error}") from None

    def test(about: About, payload: JsonObject) -> bool:
        args = payload.get("args")
        command = args.get("command") if isinstance(args, dict) else None
        return isinstance(command, str) and search(command) is not None

    return test


def _session(pattern: str) -> Test:
    return lambda about, payload: about.session_id == pattern


def _skill(pattern: str) -> Test:
    return lambda about, payload: payload.get("skill", about.skill) == pattern


_MAKERS: Final[dict[str, Callable[[str], Test]]] = {
    "tool": _tool,
    "path_pattern": _path,
    "command_pattern": _command,
    "session_id": _session,
    "skill": _skill,
}


def _paths(args: Json) -> Iterator[str]:
    """What a call names: ``file_path``, else ``path``, and every entry of ``files``."""
    if not isinstance(args, dict):
        return
    named = [args.get("file_path", args.get("path"))]
    files = args.get("files")
    if isinstance(files, list):
        named += [entry.get("path") for entry in files if isinstance(entry, dict)]
    yield from (path for path in named if isinstance(path, str))


def relative(path: str, root: str) -> str:
    """The workspace-relative POSIX form; a path outside keeps its ``..`` or its root."""
    joined = posixpath.normpath(posixpath.join(root, path.replace(os.sep, "/")))
    if joined == root:
        return "."
    inside = joined.removeprefix(root.rstrip("/") + "/")
    return inside if inside != joined or posixpath.isabs(path) else posixpath.relpath(joined, root)


def path_expression(pattern: str) -> str:
    """``**`` crosses directories, ``*`` and ``?`` don't, ``[…]`` is a set."""
    found, at = "", 0
    while at < len(pattern):
        if pattern.startswith("**/", at):
            found, at = found + "(?:.*/)?", at + 3
        elif pattern.startswith("**", at):
            found, at = found + ".*", at + 2
        elif pattern[at] == "[" and (end := pattern.find("]", at + 2)) > 0:
            members = pattern[at + 1 : end].replace("\\", "\\\\").replace("[", "\\[")
            inverted = members[0] in "!^"
            found += f"(?!/)[{'^' if inverted else ''}{members[1:] if inverted else members}]"
            at = end + 1
        else:
            found += {"*": "[^/]*", "?": "[^/]"}.get(pattern[at]) or re.escape(pattern[at])
            at += 1
    return found
