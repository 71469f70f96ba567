"""A permission policy in a file. In: a path. Out: a ``PermissionPolicy``, or a ``ConfigError`` with line and column.

ACL (``deny = ["bash(rm -rf*)"]``) or JSON (``{"deny": ["bash(rm -rf*)"]}``): ``deny``, ``ask``, ``allow``,
``default_decision``, ``enabled``.

One rule: a key or a rule that isn't understood is an error, never ignored: somebody relies on it.
Known weakness: where an error shows a line of JSON, the outermost braces are missing from it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final, Literal

from msgspec.structs import replace

from a3s_code.config.load import read_source
from a3s_code.config.parser import parse
from a3s_code.config.reader import Reading, Section, camel
from a3s_code.config.source import Source
from a3s_code.config.tree import Items, Scalar
from a3s_code.core.policy import PermissionPolicy, PolicyError, Scope
from a3s_code.core.policy.rules import Rule

_LISTS: Final[tuple[Literal["deny", "ask", "allow"], ...]] = ("deny", "ask", "allow")
_KEYS: Final = (*_LISTS, "default_decision", "enabled")


def load_policy(path: str | os.PathLike[str], *, environ: Mapping[str, str]) -> PermissionPolicy:
    """``environ`` answers ``env()`` in ``default_decision`` and ``enabled``. Raises ``ConfigError``."""
    source = _without_braces(read_source(os.fspath(path), "policy file"))
    section = Section(Reading(source, environ), parse(source), kind="policy")
    spellings = {spelling for key in _KEYS for spelling in (key, camel(key))}
    for key, entry in section.table.entries.items():
        if key not in spellings:
            raise source.error(entry.at, f"unknown key; known here: {', '.join(_KEYS)}", (key,))
    deny, ask, allow = (_rules(section, name) for name in _LISTS)
    policy = PermissionPolicy(deny, ask, allow)
    match section.choice("default_decision", ("allow", "ask", "deny")):
        case "allow" | "ask" | "deny" as decision:
            policy = replace(policy, default_decision=decision)
    return replace(policy, enabled=section.flag("enabled") is not False)


def _without_braces(source: Source) -> Source:
    """JSON's outermost braces as blanks: what is left is ACL, at the same places."""
    text = source.text or ""
    stripped = text.strip()
    if not (stripped.startswith("{") and stripped.endswith("}")):
        return source
    first, last = text.index("{"), text.rindex("}")
    return replace(source, text=f"{text[:first]} {text[first + 1 : last]} {text[last + 1 :]}")


def _rules(section: Section, name: Literal["deny", "ask", "allow"]) -> tuple[str, ...]:
    entry = section.find(name)
    if entry is None:
        return ()
    if not isinstance(entry.value, Items):
        raise section.wrong(name, entry.value, "a list of rules")
    rules = []
    for item in entry.value.items:
        if not isinstance(item, Scalar) or not isinstance(item.value, str):
            raise section.wrong(name, item, "a rule as text")
        try:
            Rule(item.value, name, Scope())
        except PolicyError as error:
            raise section.fault(name, item.at, str(error)) from None
        rules.append(item.value)
    return tuple(rules)
