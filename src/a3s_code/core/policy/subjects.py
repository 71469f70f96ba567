"""What of a call rules look at (tools.md §5.3). In: a tool's name and arguments. Out: parts with their subjects.

One rule: a path is looked at under the name it was given and under the name its links lead to.
Known weakness: a link that is put in place after the look is the workspace's to refuse.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final, Literal, NamedTuple, TypeAlias

import msgspec

from a3s_code.core.policy.rules import normal_path

Resolve: TypeAlias = Callable[[str], tuple[str, str] | None]
"""A path's names relative to the workspace: as given and with links resolved. ``None``: not inside, or malformed."""

PATH_TOOLS: Final = frozenset({"read", "write", "edit", "patch", "ls", "download"})
WRITERS: Final = frozenset({"write", "edit", "patch", "download"})
_encoder: Final = msgspec.json.Encoder(order="sorted")


class Subject(NamedTuple):
    """``names`` of one thing (``every``: an allow rule must match all of them, else any)."""

    kind: Literal["path", "other"]
    names: tuple[str, ...]
    every: bool = False


def subjects(tool: str, args: Mapping[str, object], resolve: Resolve | None, root: str | None) -> list[Subject]:
    """One subject for each part of a call; every tool but ``bash``."""
    if tool in PATH_TOOLS:
        return [path_subject(path, resolve, root) for path in _paths(tool, args)]
    if tool == "search":
        return [_search(args, resolve, root)]
    if tool == "task":
        return [_other(agent, args) for agent in _agents(args)] or [_other(None, args)]
    if tool == "git":
        return [_other(_git(args), args)]
    named = {"web_fetch": "url", "Skill": "skill_name"}.get(tool)
    return [_other(args.get(named) if named else None, args)]


def path_subject(path: str, resolve: Resolve | None, root: str | None) -> Subject:
    found = resolve(path) if resolve is not None else None
    lexical, real = (normal_path(path, root),) * 2 if found is None else (normal_path(n, None) for n in found)
    return Subject("path", (lexical,) if lexical == real else (lexical, real), every=True)


def _paths(tool: str, args: Mapping[str, object]) -> Iterator[str]:
    files = args.get("files")
    given = [args.get("file_path"), args.get("path")]
    if isinstance(files, list):
        given += [file.get("path") for file in files if isinstance(file, dict)]
    paths = [path for path in given if isinstance(path, str)]
    yield from paths or ["."]


def _search(args: Mapping[str, object], resolve: Resolve | None, root: str | None) -> Subject:
    path = args.get("path")
    names = path_subject(path if isinstance(path, str) and path else ".", resolve, root).names
    front = f"{args.get('mode', 'grep')} {args.get('query', '')}"
    return Subject("other", tuple(f"{front} {name}" for name in names), every=True)


def _git(args: Mapping[str, object]) -> str:
    """``<command> [<subcommand>] [<operands>]``; what only shows when an argument is missing has no subcommand."""
    words = [str(args.get("command", ""))]
    creates = args.get("message") is not None or args.get("include_untracked")
    if words == ["stash"] and args.get("subcommand") is None and creates:
        words.append("push")
    order = ("subcommand", "name", "ref", "target", "base", "path", "message", "index")
    words += [str(args[key]) for key in order if args.get(key) is not None]
    return " ".join([*words, *(f"--{key}" for key in ("force", "create") if args.get(key))])


def _agents(args: Mapping[str, object]) -> list[str]:
    tasks = args.get("tasks")
    found = [task.get("agent") for task in tasks if isinstance(task, dict)] if isinstance(tasks, list) else []
    return [agent for agent in found if isinstance(agent, str)]


def _other(name: object, args: Mapping[str, object]) -> Subject:
    json = _encoder.encode(args).decode()
    return Subject("other", (name, json) if isinstance(name, str) else (json,))
