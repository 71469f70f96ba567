"""The permission policy of a session (tools.md §5). In: a policy, a workspace. Out: verdicts on calls.

One rule: a policy is compiled when the session is made; what judges calls (``api.judge``, which knows the shell) is
loaded by the first call that a rule may concern.
Known weakness: that first call waits some 10 ms for it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Final

from a3s_code.core import policy as core
from a3s_code.core.content import ALLOW, JsonObject, Verdict
from a3s_code.ports.workspace import Workspace

if TYPE_CHECKING:
    from a3s_code.api.judge import Judge

FOLDS_CASE: Final = sys.platform in ("darwin", "win32")


class PermissionPolicy(core.PermissionPolicy):
    """Rules ``Tool`` or ``Tool(pattern)``; names match in any case and may contain ``*``. See docs/writing-a-policy.md.

    ``default_decision`` is for calls that no rule names. ``enabled=False`` allows everything.
    """

    def explain(
        self,
        tool: str,
        args: Mapping[str, object] | None = None,
        workspace: str | os.PathLike[str] | None = None,
    ) -> JsonObject:
        """``{"decision", "list", "rule", "subject"}`` of a call, without running anything; see ``explain_call``."""
        from a3s_code.api.judge import explain_call  # loaded when something is judged

        return explain_call(self, tool, args or {}, workspace)


def compiled_for(policy: core.PermissionPolicy, workspace: Workspace | None) -> core.CompiledPolicy:
    """Raises ``PolicyError`` for a rule that can't be used."""
    return core.compile_policy(policy, core.Scope(None if workspace is None else workspace.root, FOLDS_CASE))


class Judging:
    """A session's policy over its workspace. Raises ``PolicyError`` for a rule that can't be used."""

    def __init__(self, policy: core.PermissionPolicy, workspace: Workspace) -> None:
        self._policy = compiled_for(policy, workspace)
        self._workspace = workspace
        self._needs_sandbox = core.needs_sandbox(policy)
        self._open: dict[str, bool] = {}

    @cached_property
    def _judge(self) -> Judge:
        from a3s_code.api.judge import Judge  # loaded when something is judged

        return Judge(self._policy, self._needs_sandbox, self._workspace)

    def verdict(self, tool: str, args: JsonObject) -> Verdict:
        open_to_all = self._open.get(tool)
        if open_to_all is None:
            bound = self._needs_sandbox and tool == "bash"
            open_to_all = self._open[tool] = not bound and core.is_open(self._policy, tool)
        return ALLOW if open_to_all else self._judge.verdict(tool, args)

    def hides(self, path: str, real: str) -> bool:
        """Whether a rule on ``read`` keeps this file out of search results and ``git diff`` (§5.3)."""
        return self._judge.hides(path, real)

    def vouches(self, tool: str, path: str, real: str) -> bool:
        """Whether an allow rule names just this path of a call of ``tool`` (§4.5)."""
        return self._judge.vouches(tool, path, real)
