"""Permission policies (tools.md §5). In: what a host wrote. Out: compiled rules, and verdicts on calls.

One rule: every text of a policy is understood when it is compiled, or the compilation fails.
Known weakness: deny lists alone are no sandbox: a program may do in another way what one of its names is denied.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Literal

import msgspec

from a3s_code.core.content import ALLOW, Verdict
from a3s_code.core.policy.rules import PolicyError, Rule, Scope
from a3s_code.core.policy.subjects import Resolve
from a3s_code.core.policy.verdict import CompiledPolicy, Explained, Shell, explain

NO_SCOPE: Final = Scope()
SUBJECT_LIMIT: Final = 1000


class PermissionPolicy(msgspec.Struct):
    """Rules ``Tool`` or ``Tool(pattern)``; names match in any case and may contain ``*``. See docs/writing-a-policy.md.

    ``default_decision`` is for calls that no rule names. ``enabled=False`` allows everything.
    """

    deny: Sequence[str] = ()
    ask: Sequence[str] = ()
    allow: Sequence[str] = ()
    default_decision: Literal["allow", "ask", "deny"] = "ask"
    enabled: bool = True


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


def judge(
    policy: CompiledPolicy,
    tool: str,
    args: Mapping[str, object],
    shell: Shell,
    resolve: Resolve | None = None,
) -> Verdict:
    """The verdict on a call; a refusal's reason is what the model is told."""
    return verdict_of(tool, explain(policy, tool, args, shell, resolve))


def verdict_of(tool: str, found: Explained) -> Verdict:
    if found.decision == "allow":
        return ALLOW
    shown = f"{tool}({_short(found.subject)})"
    because = (found.list, found.rule, found.subject[:SUBJECT_LIMIT])
    if found.decision == "ask":
        could = "could match" if found.possible else "matches"
        reason = f"{shown} {could} {found.list} rule '{found.rule}'" if found.rule else f"no rule decides about {shown}"
        return Verdict("ask", reason, "", *because)
    why = f"{shown} matches deny rule '{found.rule}'" if found.rule else f"{shown}: no rule allows it"
    return Verdict("deny", f"Permission denied: {why}", "permission_denied", *because)


def _short(subject: str) -> str:
    one_line = " ".join(subject.split())
    return one_line if len(one_line) <= 200 else f"{one_line[:197]}..."


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
