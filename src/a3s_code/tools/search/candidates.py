"""The files that a search looks at. In: a place in the workspace. Out: its regular files, ignored ones left out.

One rule: ignore files on the way from the root down count, and a place that they name is searched anyway.
Known weakness: everything below the place is listed before the first file is read.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from a3s_code.ports.tool import ToolFailure
from a3s_code.ports.workspace import Entry, Place, Workspace
from a3s_code.tools.search.glob import Glob
from a3s_code.tools.search.ignore import Ignores

NEVER = frozenset((".git", ".hg", ".svn", ".a3s", ".a3s-code"))
_IGNORE_FILES = (".gitignore", ".ignore")
_MAX_IGNORE_BYTES = 1024 * 1024
Rules: TypeAlias = tuple[Ignores, ...]  # the deepest directory's first
Hidden: TypeAlias = Callable[[str, Entry], bool]


class Candidate(NamedTuple):
    """``path`` is relative to the workspace, ``below`` to the place that is searched."""

    path: str
    real: str
    below: str
    entry: Entry


def candidates(
    workspace: Workspace, path: str, include: Glob | None, check: Callable[[], None], hidden: Hidden | None = None
) -> tuple[list[Candidate], int]:
    """In byte order of their paths, and how many ``hidden`` leaves out. ``not_found``, ``path_denied``;
    ``unsupported`` where no search goes."""
    place = workspace.locate(path)
    about = workspace.stat(place)
    if about.kind == "missing":
        raise ToolFailure("not_found", f"No such file or directory: {place.path}")
    if entered := NEVER.intersection((*place.path.split("/"), *place.real.split("/"))):
        raise ToolFailure("unsupported", f"Search never enters {min(entered)}; use read or ls")
    if about.kind == "file":
        name = place.path.rpartition("/")[2]
        entry = Entry(name, "file", about.size, about.mtime_ns, about.links, about.inode, about.device)
        found = [Candidate(place.path, place.real, name, entry)]
    elif about.kind == "dir":
        found = _below(workspace, place, check)
    else:
        raise ToolFailure("unsupported", f"{place.path} is neither a regular file nor a directory")
    if include is not None:
        found = [candidate for candidate in found if include.matches(candidate.below)]
    shown = found if hidden is None else [each for each in found if not _is_hidden(each, hidden)]
    shown.sort(key=lambda candidate: os.fsencode(candidate.path))
    return shown, len(found) - len(shown)


def _is_hidden(candidate: Candidate, hidden: Hidden) -> bool:
    if hidden(candidate.path, candidate.entry):
        return True
    return candidate.real != candidate.path and hidden(candidate.real, candidate.entry)


def _below(workspace: Workspace, place: Place, check: Callable[[], None]) -> list[Candidate]:
    found: list[Candidate] = []
    rules_of = {place.path: _inherited(workspace, place.real)}
    skip = 0 if place.path == "." else len(place.path) + 1
    for path, entries in workspace.walk(place):
        check()
        below = "" if path == place.path else f"{path[skip:]}/"
        prefix = "" if path == "." else f"{path}/"
        real = below if place.real == "." else f"{place.real}/{below}"
        rules = rules_of.pop(path)
        names = [entry.name for entry in entries if entry.name in _IGNORE_FILES and entry.kind == "file"]
        if names:
            rules = (_load(workspace, real, names), *rules)
        dirs = []
        for entry in entries:
            name = entry.name
            if entry.kind == "file":
                if not _ignored(rules, real + name, name, False):
                    found.append(Candidate(prefix + name, real + name, below + name, entry))
            elif entry.kind == "dir" and name not in NEVER and not _ignored(rules, real + name, name, True):
                rules_of[prefix + name] = rules
                dirs.append(entry)
        entries[:] = dirs  # what is left in the list is walked into
    return found


def _ignored(rules: Rules, path: str, name: str, is_dir: bool) -> bool:
    for ignores in rules:
        decided = ignores.decide(path, name, is_dir)
        if decided is not None:
            return decided
    return False


def _inherited(workspace: Workspace, real: str) -> Rules:
    """The rules of the directories above ``real``; none, when they would hide it."""
    rules: Rules = (_load(workspace, "", [".git/info/exclude"]),)
    parts = [] if real == "." else real.split("/")
    above = ""
    for name in parts:
        rules = (_load(workspace, above, _IGNORE_FILES), *rules)
        if _ignored(rules, above + name, name, True):
            return ()
        above += f"{name}/"
    return rules


def _load(workspace: Workspace, directory: str, names: list[str] | tuple[str, ...]) -> Ignores:
    """The rules of one directory (with a final slash); ``.ignore`` comes last, so it decides."""
    lines: list[str] = []
    for name in names:
        path = directory + name
        try:
            with workspace.open(Place(path, path)) as file:
                data = file.read(_MAX_IGNORE_BYTES)
        except (ToolFailure, OSError):
            continue  # not there, or not readable: no rules
        lines += data.decode("utf-8-sig", "surrogateescape").split("\n")
    return Ignores(directory, lines)
