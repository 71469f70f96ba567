"""Short forms for people. In: a tool's name, arguments and result, numbers. Out: a few words on one line.

One rule: nothing here fails, whatever a model put into its arguments, and no control character comes out.
Known weakness: English only; a tool that isn't built in is shown by its arguments as they are.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeGuard

Args = Mapping[str, Any]

WIDTH = 100
_ESCAPES = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_CONTROLS = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_FIRST_LINE = frozenset(["write", "edit", "patch", "download", "update_plan"])
_LAST_LINE = frozenset(["search", "ls"])


def clean(text: str) -> str:
    """``text`` without what could move a cursor, colour a terminal or turn the reading direction."""
    return _CONTROLS.sub("", _ESCAPES.sub("", text.replace("\r\n", "\n")))


def one_line(text: str, width: int = WIDTH) -> str:
    """``text`` cleaned, its blanks joined, cut to ``width`` characters."""
    line = " ".join(clean(text[: width * 8]).split())
    return line if len(line) <= width else line[: width - 3] + "..."


def count(number: int, noun: str) -> str:
    """``1 line``, ``1,234 lines``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def duration(ms: float) -> str:
    """``3 ms``, ``1.2 s``, ``2 min 5 s``."""
    if ms < 999.5:
        return f"{max(0, round(ms))} ms"
    if ms < 59_950:
        return f"{ms / 1000:.1f} s"
    minutes, seconds = divmod(round(ms / 1000), 60)
    return f"{minutes} min {seconds} s"


def number_of(value: object) -> int:
    """``value`` if it is a number that can be shown, else 0."""
    return int(value) if is_number(value) else 0


def is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and -(2**53) < value < 2**53


def text_of(payload: Args, *keys: str) -> str:
    """The first of ``keys`` that holds text, else nothing."""
    for key in keys:
        if isinstance(value := payload.get(key), str) and value:
            return value
    return ""


def call_words(name: str, args: object) -> str:
    """A call as a person would say it: ``read README.md``, ``bash $ make test``, ``search grep "x" in src``."""
    if not isinstance(args, Mapping) or not args:
        return one_line(name)
    words = _CALLS.get(name, _pairs)(args) or _pairs(args)
    return one_line(f"{name} {words}")


def result_words(name: str, output: str, exit_code: int, metadata: object, took_ms: object) -> str:
    """A result in one line: how it ended, how much came out, how long it took."""
    lines = [line for line in clean(output).split("\n") if line.strip()]
    error = metadata.get("error") if isinstance(metadata, Mapping) else None
    took = [duration(number_of(took_ms))] if number_of(took_ms) > 0 else []
    if isinstance(error, Mapping):
        kind, said = text_of(error, "type") or "error", text_of(error, "message") or (lines[0] if lines else "")
        return ", ".join([f"failed ({one_line(kind, 40)})", *took]) + (f": {one_line(said)}" if said else "")
    if exit_code != 0:
        said = next((line for line in reversed(lines) if not line.startswith("[exit code:")), "")
        return ", ".join([f"exit {exit_code}", *took]) + (f": {one_line(said)}" if said else "")
    if lines and name in _FIRST_LINE:
        return ", ".join([one_line(lines[0]), *took])
    if lines and name in _LAST_LINE:
        return ", ".join([one_line(lines[-1]), *took])
    return ", ".join(
        ["ok", count(output.count("\n") + (not output.endswith("\n")), "line") if output else "no output", *took]
    )


def _say(args: Args, key: str) -> str:
    value = args.get(key)
    return value if isinstance(value, str) else "" if value is None else _json(value)


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def _quoted(text: str) -> str:
    return f'"{text}"' if text else ""


def _pairs(args: Args) -> str:
    """Arguments of a tool that nobody has words for."""
    return ", ".join(f"{key}={value if isinstance(value, str) else _json(value)}" for key, value in args.items())


def _listed(names: list[str], noun: str) -> str:
    shown = ", ".join(names[:3])
    return f"{shown} and {len(names) - 3} more" if len(names) > 3 else shown or f"no {noun}"


def _members(args: Args, list_key: str, key: str) -> list[str]:
    items = args.get(list_key)
    return [_say(item, key) for item in items if isinstance(item, Mapping)] if isinstance(items, list) else []


def _read(args: Args) -> str:
    path = text_of(args, "file_path", "path")
    if not path:
        return _listed(_members(args, "files", "path"), "files")
    offset = number_of(args.get("offset"))
    return f"{path} from line {offset + 1}" if offset > 0 else path


def _write(args: Args) -> str:
    content = _say(args, "content")
    lines = content.count("\n") + bool(content and not content.endswith("\n"))
    return f"{text_of(args, 'file_path', 'path')} ({count(lines, 'line')})"


def _path(args: Args) -> str:
    return text_of(args, "file_path", "path")


def _search(args: Args) -> str:
    scope = _say(args, "path")
    where = f" in {scope}" if scope not in ("", ".") else ""
    return f"{_say(args, 'mode')} {_quoted(_say(args, 'query'))}{where}"


def _bash(args: Args) -> str:
    first, *rest = _say(args, "command").strip().split("\n")
    return f"$ {first}{' ...' if rest else ''}"


def _git(args: Args) -> str:
    keys = ("command", "subcommand", "name", "ref", "target", "path")
    return " ".join(word for key in keys if (word := _say(args, key)))


def _batch(args: Args) -> str:
    key = "invocations" if "invocations" in args else "calls"
    return _listed(_members(args, key, "tool"), "calls")


def _program(args: Args) -> str:
    return _say(args, "path") or f"of {count(_say(args, 'source').strip().count(chr(10)) + 1, 'line')}"


def _plan(args: Args) -> str:
    steps = args.get("plan")
    return count(len(steps), "step") if isinstance(steps, list) else ""


def _task(args: Args) -> str:
    tasks = args.get("tasks")
    items = [item for item in tasks if isinstance(item, Mapping)] if isinstance(tasks, list) else []
    return _listed([f"{_say(item, 'agent')}: {_say(item, 'description')}" for item in items], "tasks")


_CALLS: dict[str, Callable[[Args], str]] = {
    "read": _read,
    "write": _write,
    "edit": _path,
    "patch": _path,
    "ls": lambda args: _say(args, "path"),
    "search": _search,
    "bash": _bash,
    "git": _git,
    "batch": _batch,
    "program": _program,
    "web_fetch": lambda args: _say(args, "url"),
    "web_search": lambda args: _quoted(_say(args, "query")),
    "download": lambda args: _say(args, "url"),
    "update_plan": _plan,
    "ask_user": lambda args: _quoted(_say(args, "question")),
    "search_skills": lambda args: _quoted(_say(args, "query")),
    "Skill": lambda args: _say(args, "skill_name"),
    "task": _task,
    "generate_object": lambda args: _say(args, "schema_name"),
}
