"""Permission rules on tool names (tools.md §5). In: a policy and a tool's name. Out: a verdict, and why.

One rule: deny beats ask beats allow beats the default, in whatever order the rules were written.
Known weakness: this version knows rules on whole tools only; a rule with an argument pattern is refused, never
ignored. A policy is an aid, not a sandbox: an allowed tool may do whatever the process may.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final, Literal, NamedTuple

import msgspec

from a3s_code.core.content import ALLOW, Decision, JsonObject, Verdict

_LISTS: Final[tuple[Decision, ...]] = ("deny", "ask", "allow")
_ALWAYS_ALLOWED: Final = frozenset({"batch", "update_plan", "ask_user", "search_skills"})
_SEARCH_MODES: Final = frozenset({"grep", "glob", "bm25"})
_RULE: Final = re.compile(r"(?P<tool>[^()\s]+)(?:\((?P<pattern>.+)\))?", re.DOTALL)


class PolicyError(ValueError):
    """A rule is malformed, or of a kind that this version doesn't have; the message names it."""


class PermissionPolicy(msgspec.Struct):
    """Rules ``Tool``, ``Tool(*)`` or ``Tool(**)``; names match in any case and may contain ``*``.

    ``default_decision`` is for calls that no rule names. ``enabled=False`` allows everything.
    """

    deny: Sequence[str] = ()
    ask: Sequence[str] = ()
    allow: Sequence[str] = ()
    default_decision: Literal["allow", "ask", "deny"] = "ask"
    enabled: bool = True

    def explain(self, tool: str, args: Mapping[str, object] | None = None) -> JsonObject:
        """``{"decision", "list", "rule", "subject"}`` of a call, without running anything.

        ``list`` is ``deny``, ``ask``, ``allow``, ``default`` or ``disabled``. Arguments play no part in this version.
        Raises ``PolicyError`` for a rule that can't be used.
        """
        found = explain(compile_policy(self), tool)
        return {"decision": found.decision, "list": found.list, "rule": found.rule, "subject": tool}


class _Rule(NamedTuple):
    text: str
    matches: re.Pattern[str]


class CompiledPolicy(msgspec.Struct, frozen=True):
    rules: tuple[tuple[Decision, tuple[_Rule, ...]], ...]
    default: Decision
    enabled: bool


class Explained(NamedTuple):
    decision: Decision
    list: Literal["deny", "ask", "allow", "default", "disabled"]
    rule: str | None


def compile_policy(policy: PermissionPolicy) -> CompiledPolicy:
    """Raises ``PolicyError`` for a rule that can't be used."""
    parsed = tuple((name, tuple(_parse(name, text) for text in getattr(policy, name))) for name in _LISTS)
    return CompiledPolicy(parsed, policy.default_decision, policy.enabled)


def explain(policy: CompiledPolicy, tool: str) -> Explained:
    if not policy.enabled:
        return Explained("allow", "disabled", None)
    for decision, rules in policy.rules:
        for rule in rules:
            if rule.matches.fullmatch(tool):
                return Explained(decision, decision, rule.text)
    return Explained("allow" if tool in _ALWAYS_ALLOWED else policy.default, "default", None)


def judge(policy: CompiledPolicy, tool: str) -> Verdict:
    """The verdict on a call of ``tool``; a refusal's reason is what the model is told."""
    decision, _, rule = explain(policy, tool)
    if decision == "allow":
        return ALLOW
    if decision == "ask":
        return Verdict("ask", f"matches ask rule '{rule}'" if rule else "no rule decides about this tool")
    why = f" matches deny rule '{rule}'" if rule else ": no rule allows it"
    return Verdict("deny", f"Permission denied: {tool}{why}", "permission_denied")


def preset(name: str) -> PermissionPolicy:
    """``"full"`` allows everything; ``"read_only"`` only the built-in tools that never change anything.

    Raises ``PolicyError`` for another name.
    """
    if name == "full":
        return PermissionPolicy(default_decision="allow")
    if name == "read_only":
        return PermissionPolicy(allow=("read", "ls", "search", "web_fetch", "web_search"), default_decision="deny")
    if name == "workspace":
        raise PolicyError("the preset 'workspace' needs the sandbox, which is not available in this version")
    raise PolicyError(f"expected a PermissionPolicy, a mapping, 'full' or 'read_only', got {name!r}")


def _parse(decision: Decision, text: str) -> _Rule:
    rule = text.strip()
    form = _RULE.fullmatch(rule)
    if form is None:
        raise PolicyError(f"malformed {decision} rule {text!r}: expected `Tool` or `Tool(*)`")
    tool = form["tool"]
    if form["pattern"] not in (None, "*", "**"):
        raise PolicyError(
            f"{decision} rule {text!r}: rules on arguments are not available in this version; "
            f"`{tool}` is a rule on the whole tool"
        )
    if tool.lower() in _SEARCH_MODES:
        raise PolicyError(
            f"{decision} rule {text!r}: rules on a mode of `search` are not available in this version; use `search`"
        )
    pattern = ".*".join(re.escape(part) for part in tool.split("*"))
    return _Rule(rule, re.compile(pattern, re.IGNORECASE | re.DOTALL))
