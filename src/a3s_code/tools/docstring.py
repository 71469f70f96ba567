"""What a docstring says. In: a function's docstring. Out: its description, and one for each parameter.

One rule: what isn't recognised stays in the description; nothing the author wrote is lost but section headings.
Known weakness: only the usual sections of the Google, NumPy and Sphinx styles are known.
"""

from __future__ import annotations

import inspect
import re

_SECTIONS = frozenset(
    "args arguments parameters params returns return yields raises examples example notes note attributes".split()
)
_PARAMETERS = frozenset("args arguments parameters params".split())
_SPHINX = re.compile(r":param\s+(?:[^:]*\s)?\*{0,2}(\w+)\s*:\s*(.*)")
_SPHINX_OTHER = re.compile(r":(returns?|rtype|raises?|type|yields?)\b[^:]*:")
_GOOGLE = re.compile(r"\*{0,2}(\w+)\s*(?:\([^)]*\))?\s*:\s+(.+)")
_NUMPY = re.compile(r"\*{0,2}(\w+)\s*(?::.*)?$")


def parse(doc: str | None) -> tuple[str, dict[str, str]]:
    """``(description, {parameter: description})``; both empty without a docstring."""
    lines = inspect.cleandoc(doc or "").split("\n")
    about: list[str] = []
    members: dict[str, list[str]] = {}
    at = 0
    while at < len(lines):
        heading = _heading(lines, at)
        if heading:
            at = _section(lines, at, heading, members)
        elif found := _SPHINX.match(lines[at].strip()):
            members[found[1]] = [found[2]]
            at = _follow(lines, at + 1, members[found[1]])
        elif _SPHINX_OTHER.match(lines[at].strip()):
            at = _follow(lines, at + 1, [])
        else:
            about.append(lines[at].rstrip())
            at += 1
    return "\n".join(about).strip(), {name: " ".join(" ".join(text).split()) for name, text in members.items()}


def _heading(lines: list[str], at: int) -> str:
    """The lower-case name of the section that starts here: ``Args:`` or a word underlined with dashes."""
    line = lines[at]
    name = line.strip().rstrip(":").lower()
    if name not in _SECTIONS or line[:1].isspace():
        return ""
    underlined = at + 1 < len(lines) and set(lines[at + 1].strip()) == {"-"}
    return name if underlined or line.rstrip().endswith(":") else ""


def _section(lines: list[str], at: int, heading: str, members: dict[str, list[str]]) -> int:
    """Reads one section and gives the line after it; only parameters are kept."""
    numpy = at + 1 < len(lines) and set(lines[at + 1].strip()) == {"-"}
    at += 2 if numpy else 1
    margin = 0 if numpy else _indent(lines, at)
    current: list[str] = []
    while at < len(lines) and not _heading(lines, at):
        line = lines[at]
        indent = len(line) - len(line.lstrip())
        if line.strip() and not numpy and indent < max(margin, 1):
            break
        found = (_NUMPY if numpy else _GOOGLE).match(line.strip()) if indent == margin else None
        if found and heading in _PARAMETERS:
            current = members.setdefault(found[1], [])
            current.extend([] if numpy else [found[2]])
        else:
            current.append(line.strip())
        at += 1
    return at


def _indent(lines: list[str], at: int) -> int:
    first = next((line for line in lines[at:] if line.strip()), "")
    return len(first) - len(first.lstrip())


def _follow(lines: list[str], at: int, into: list[str]) -> int:
    """Takes the indented lines that continue an entry."""
    while at < len(lines) and lines[at][:1].isspace() and not lines[at].strip().startswith(":"):
        into.append(lines[at].strip())
        at += 1
    return at
