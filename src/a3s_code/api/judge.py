"""Judging calls by a permission policy (tools.md §5). In: a policy, a workspace. Out: verdicts, and explanations.

One rule: what ``explain`` says is what a session would decide, made by the same code.
Known weakness: the names of links are looked up in the calling thread, some microseconds for a path.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

from a3s_code.api.policy import compiled_for
from a3s_code.core.content import JsonObject, Verdict
from a3s_code.core.policy import CompiledPolicy, PermissionPolicy, PolicyError, needs_sandbox
from a3s_code.core.policy import verdict as verdicts
from a3s_code.core.policy.rules import normal_path
from a3s_code.core.policy.subjects import Resolve, Subject
from a3s_code.core.policy.verdict import Explained
from a3s_code.errors import SessionConfigurationError
from a3s_code.ports.shell import Shell as ShellParser
from a3s_code.ports.tool import ToolFailure
from a3s_code.ports.workspace import Workspace
from a3s_code.tools.shell import BashGrammar
from a3s_code.workspace.local import LocalWorkspace

_GRAMMAR: Final[ShellParser] = BashGrammar()
SHELL: Final = verdicts.Shell(_GRAMMAR.parse)
"""One for the process: its sessions share what they know of the lines seen last."""


def explain_call(
    policy: PermissionPolicy,
    tool: str,
    args: Mapping[str, object],
    workspace: str | os.PathLike[str] | None = None,
    *,
    sandboxed: bool = True,
) -> JsonObject:
    """The decision on a call and what led to it, without running anything.

    ``list`` is ``deny``, ``ask``, ``allow``, ``default`` or ``disabled``; ``subject`` is what the rule was matched
    with; ``part`` is there for ``bash`` and names the part of the line that led to the decision. With ``workspace``
    links are resolved and absolute paths known. ``sandboxed`` says that commands run in a sandbox, which the preset
    ``workspace`` asks for. Raises ``SessionConfigurationError`` for a rule that can't be used.
    """
    return _judge_of(policy, workspace, sandboxed=sandboxed).explain(tool, args).as_json()


def explain_parts(
    policy: PermissionPolicy,
    tool: str,
    args: Mapping[str, object],
    workspace: str | os.PathLike[str] | None = None,
    *,
    sandboxed: bool = True,
) -> list[JsonObject]:
    """The same of each part of a call, of which the strictest decides; ``possible`` marks a rule that matches only for
    some value of what a shell line leaves open."""
    return [part.as_json() for part in _judge_of(policy, workspace, sandboxed=sandboxed).parts(tool, args)]


def _judge_of(policy: PermissionPolicy, workspace: str | os.PathLike[str] | None, *, sandboxed: bool) -> Judge:
    place = None if workspace is None else LocalWorkspace(os.fspath(workspace))
    try:
        return Judge(compiled_for(policy, place), needs_sandbox(policy), place, sandboxed=sandboxed)
    except PolicyError as error:
        raise SessionConfigurationError(f"permission_policy: {error}") from None


class Judge:
    """A compiled policy over a workspace.

    With ``sandboxed=False`` the preset ``workspace`` (``needs_sandbox``) asks about every ``bash`` call: what a host is
    told where no sandbox works. In a session the tool's own escalation asks then, or the command is refused (tools.md
    §3.7).
    """

    def __init__(
        self, policy: CompiledPolicy, needs_sandbox: bool, workspace: Workspace | None, *, sandboxed: bool = True
    ) -> None:
        self._policy = policy
        self._resolve = None if workspace is None else _resolver(workspace)
        self._asks_about_bash = needs_sandbox and not sandboxed

    def explain(self, tool: str, args: Mapping[str, object]) -> Explained:
        return verdicts.strictest(self.parts(tool, args))

    def parts(self, tool: str, args: Mapping[str, object]) -> list[Explained]:
        found = verdicts.explain_parts(self._policy, tool, args, SHELL, self._resolve)
        if self._asks_about_bash and tool == "bash":
            return [_unconfined(each) if each.decision == "allow" else each for each in found]
        return found

    def verdict(self, tool: str, args: JsonObject) -> Verdict:
        return verdicts.verdict_of(tool, self.explain(tool, args))

    def hides(self, path: str, real: str) -> bool:
        """Whether a rule on ``read`` keeps this file out of search results and ``git diff`` (§5.3)."""
        return verdicts.hides(self._policy, path, real)

    def vouches(self, tool: str, path: str, real: str) -> bool:
        """Whether an allow rule names just this path of a call of ``tool`` (§4.5)."""
        names = tuple(dict.fromkeys((normal_path(path, None), normal_path(real, None))))
        return verdicts.path_specific_allow(self._policy, tool, Subject("path", names, every=True))


def _unconfined(found: Explained) -> Explained:
    return Explained("ask", "default", None, found.subject, found.part)


def _resolver(workspace: Workspace) -> Resolve:
    def resolve(path: str) -> tuple[str, str] | None:
        try:
            place = workspace.locate(path)
        except ToolFailure:
            return None
        return place.path, place.real

    return resolve
