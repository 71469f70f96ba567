"""A call that asks, as a person must see it to judge it. In: its event. Out: lines: what would run, and why it asks.

One rule: nothing is left out and nothing hides: a character that can't be seen, or that moves others, stands as an
escape.
Known weakness: letters that look like others are shown as they are.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from a3s_code.cli.words import text_of
from a3s_code.core.content import JsonObject
from a3s_code.core.text.diff import Diff
from a3s_code.core.text.encoding import decode

_UNSEEN: Final = frozenset(["Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs"])
_PLAIN_BLANKS: Final = frozenset(" \n")
_COMPARED_BYTES: Final = 1 << 20
_EVERYTHING: Final = 1 << 40
_SHOWN_APART: Final[dict[str, tuple[str, ...]]] = {
    "bash": ("command",),
    "write": ("file_path", "path", "content"),
    "edit": ("file_path", "path", "old_string", "new_string"),
    "patch": ("file_path", "path", "diff", "patch"),
}
"""Arguments that have a form of their own; every other one is a line ``name: value``."""


def visible(text: str) -> str:
    """``text`` with every character that isn't seen, but blanks and line ends, as ``\\xNN``, ``\\uNNNN`` or
    ``\\UNNNNNNNN``."""
    return "".join(
        char if char in _PLAIN_BLANKS or unicodedata.category(char) not in _UNSEEN else _escape(char) for char in text
    )


def visible_line(text: str) -> str:
    """The same on one line."""
    return visible(text).replace("\n", "\\n")


def _escape(char: str) -> str:
    if char in "\t\r":
        return "    " if char == "\t" else "\\r"
    number = ord(char)
    return f"\\x{number:02x}" if number < 256 else f"\\u{number:04x}" if number < 65_536 else f"\\U{number:08x}"


def what_would_run(name: str, args: Mapping[str, Any], workspace: Path) -> list[str]:
    """The call as a whole: a command, a path with what would change, or the arguments."""
    apart = _SHOWN_APART.get(name, ())
    body = visible(_body(name, args, workspace)).split("\n") if apart else [f"{name}"]
    rest = [f"{visible_line(key)}: {visible_line(_value(value))}" for key, value in args.items() if key not in apart]
    return [*body, *rest]


def _body(name: str, args: Mapping[str, Any], workspace: Path) -> str:
    path = text_of(args, "file_path", "path")
    match name:
        case "bash":
            return f"$ {text_of(args, 'command')}"
        case "write":
            return f"write {path}\n{_change(_present(workspace, path), text_of(args, 'content'), path)}"
        case "edit":
            old, new = text_of(args, "old_string"), text_of(args, "new_string")
            return f"edit {path}\n" + "\n".join([*_marked("-", old), *_marked("+", new)])
        case _:
            return f"{name} {path}\n{text_of(args, 'diff', 'patch')}"


def _marked(mark: str, text: str) -> Iterator[str]:
    return (f"{mark}{line}" for line in text.split("\n")) if text else iter(())


def _present(workspace: Path, path: str) -> str | None:
    """The file as it is, where it can be compared as text."""
    try:
        with (workspace / path).open("rb") as file:
            data = file.read(_COMPARED_BYTES + 1)
    except (OSError, ValueError):
        return None
    found = decode(data)
    return None if found.lossy or len(data) > _COMPARED_BYTES else found.text


def _change(before: str | None, after: str, path: str) -> str:
    if before is None or len(after) > _COMPARED_BYTES:
        return "\n".join(_marked("+", after))
    text, cut = Diff(before, after, path).text(_EVERYTHING, _EVERYTHING)
    return "\n".join(_marked("+", after)) if cut else text or "(nothing changes)"


def _value(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def why(payload: Mapping[str, Any], sandbox: JsonObject | None) -> Iterator[tuple[str, str]]:
    """What is said of the call: the reason, the rule, scope, risk, and what commands run in."""
    yield "why", visible_line(text_of(payload, "reason")) or "no reason was given"
    permission = payload.get("permission")
    if isinstance(permission, Mapping):
        yield "rule", rule_words(permission)
    for name in ("scope", "risk"):
        if text := text_of(payload, name):
            yield name, visible_line(text)
    if sandbox is not None:
        yield "sandbox", f"{sandbox['kind']}: {sandbox['reason']}"


def rule_words(found: Mapping[str, Any]) -> str:
    """``ask bash(git push*)``, or that no rule decided."""
    listed, rule = text_of(found, "list"), text_of(found, "rule")
    if rule:
        return f"{listed} {visible_line(rule)}{' (could match)' if found.get('possible') else ''}"
    return "the policy is off" if listed == "disabled" else "none; the default"


def parts_table(parts: Sequence[JsonObject]) -> list[list[str]]:
    """A row a part: the part as it stands, what is decided, by which rule, and what that was matched with."""
    rows = []
    for part in parts:
        shown = visible_line(str(part.get("part") or part["subject"]))
        matched = visible_line(str(part["subject"]))
        rows.append([shown, str(part["decision"]), rule_words(part), "" if matched == shown else matched])
    return rows
