"""Judges calls as a session does. In: a policy and a call. Out: the decision."""

from __future__ import annotations

from a3s_code.core.policy import PermissionPolicy, Scope, compile_policy
from a3s_code.core.policy.subjects import Resolve
from a3s_code.core.policy.verdict import Shell, explain
from a3s_code.tools.shell import BashGrammar

SHELL = Shell(BashGrammar().parse)


def decision(
    policy: PermissionPolicy,
    subject: str,
    tool: str = "bash",
    *,
    resolve: Resolve | None = None,
    root: str | None = "/w",
    **more: object,
) -> str:
    """``subject`` is a command, a search mode or a path, as the tool takes it."""
    args = {"bash": {"command": subject}, "search": {"mode": subject, "query": "x", "path": "."}}
    given: dict[str, object] = {**args.get(tool, {"file_path": subject}), **more}
    return explain(compile_policy(policy, Scope(root)), tool, given, SHELL, resolve).decision
