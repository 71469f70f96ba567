"""Permission policies (tools.md §5). In: what a host wrote. Out: compiled rules.

One rule: every text of a policy is understood when it is compiled, or the compilation fails.
Known weakness: deny lists alone are no sandbox: a program may do in another way what one of its names is denied.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

import msgspec

from a3s_code.core.content import Decision
from a3s_code.core.policy.rules import PolicyError, Rule, Scope

NO_SCOPE: Final = Scope()
ALWAYS_ALLOWED: Final = frozenset({"batch", "update_plan", "ask_user", "search_skills"})
"""Tools that no default stops."""


class PermissionPolicy(msgspec.Struct):
    """Rules ``Tool`` or ``Tool(pattern)``; names match in any case and may contain ``*``. See docs/writing-a-policy.md.

    ``default_decision`` is for calls that no rule names. ``enabled=False`` allows everything.
    """

    deny: Sequence[str] = ()
    ask: Sequence[str] = ()
    allow: Sequence[str] = ()
    default_decision: Literal["allow", "ask", "deny"] = "ask"
    enabled: bool = True


class CompiledPolicy(msgspec.Struct, frozen=True):
    deny: tuple[Rule, ...]
    ask: tuple[Rule, ...]
    allow: tuple[Rule, ...]
    default: Decision
    enabled: bool
    scope: Scope


def compile_policy(policy: PermissionPolicy, scope: Scope = NO_SCOPE) -> CompiledPolicy:
    """Raises ``PolicyError`` for a rule that can't be used."""
    return CompiledPolicy(
        tuple(Rule(text, "deny", scope) for text in policy.deny),
        tuple(Rule(text, "ask", scope) for text in policy.ask),
        tuple(Rule(text, "allow", scope) for text in policy.allow),
        policy.default_decision,
        policy.enabled,
        scope,
    )


def is_open(policy: CompiledPolicy, tool: str) -> bool:
    """Whether every call of ``tool`` is allowed without a look at its arguments: no rule concerns it."""
    if not policy.enabled:
        return True
    rules = (*policy.deny, *policy.ask)
    concerned = any(rule.names(tool) or rule.names("write") for rule in rules)
    return not concerned and (policy.default == "allow" or tool in ALWAYS_ALLOWED)


READ_ONLY: Final = (
    *("read", "ls", "search", "web_fetch", "web_search"),
    *(f"git({form})" for form in ("status", "log", "log **", "diff", "diff **", "branch", "remote")),
    *(f"git({form})" for form in ("stash", "stash list", "worktree", "worktree list")),
)
_CROSSING: Final = (
    *("download", "git(checkout**)", "git(branch **)", "git(worktree create**)", "git(worktree remove**)"),
    *(f"git(stash {command}**)" for command in ("push", "pop", "apply", "drop")),
)


def preset(name: str) -> PermissionPolicy:
    """``"full"`` allows everything, ``"read_only"`` only the built-in tools that never change anything, and
    ``"workspace"`` what stays inside the workspace; there, ``bash`` must be judged with ``needs_sandbox``.

    Raises ``PolicyError`` for another name.
    """
    if name == "full":
        return PermissionPolicy(default_decision="allow")
    if name == "read_only":
        return PermissionPolicy(allow=READ_ONLY, default_decision="deny")
    if name == "workspace":
        return PermissionPolicy(ask=_CROSSING, default_decision="allow")
    raise PolicyError(f"expected a PermissionPolicy, a mapping, 'workspace', 'full' or 'read_only', got {name!r}")


def needs_sandbox(policy: PermissionPolicy) -> bool:
    """Whether the policy allows ``bash`` only while commands run in a sandbox: the preset ``workspace``."""
    return policy == preset("workspace")
