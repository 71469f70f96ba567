"""What "always" may stand for. In: a call that asks, and the session's policy. Out: the further calls it answers.

With a rule that asked for every part of the call: the calls that this rule, and nothing else, asks about. Otherwise
exactly the same call again.

One rule: an answer never reaches past what asked: not to another rule, a tool's own demand, a guarded path, another
environment or a call that may have had its effect already.
Known weakness: none known.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from a3s_code.api.judge import explain_parts
from a3s_code.core.content import Json
from a3s_code.core.policy import PermissionPolicy
from a3s_code.core.protected import is_credential, is_protected
from a3s_code.engine.approvals import BEGAN_BEFORE
from a3s_code.ports.tool import ToolFailure
from a3s_code.workspace.local import LocalWorkspace

_OF_THE_CALL: Final = ("scope", "risk")


class Standing(msgspec.Struct, frozen=True):
    """``rule`` is empty for exactly the same call; then ``args`` are its arguments, canonically."""

    tool: str
    list: str = ""
    rule: str = ""
    args: bytes = b""

    @property
    def words(self) -> str:
        """The rule is the user's own text."""
        return f"for rule '{self.rule}'" if self.rule else "for exactly this call"


def standing(
    policy: PermissionPolicy, workspace: Path, payload: Mapping[str, Any], *, confined: bool
) -> list[Standing]:
    """What may answer this call for good, the widest first; nothing for one that may have had its effect already.

    ``confined`` says that commands have the place to run in that was chosen for them; without it each one asks.
    """
    if payload.get("reason") == BEGAN_BEFORE:
        return []
    tool, args = str(payload["tool_name"]), dict(payload["args"])
    same = Standing(tool, args=msgspec.json.encode(args, order="deterministic"))
    by_rule = _rule(policy, workspace, tool, args) if confined or tool != "bash" else None
    if by_rule is None or any(payload.get(name) for name in _OF_THE_CALL):
        return [same]
    return [by_rule, same]


def _rule(policy: PermissionPolicy, workspace: Path, tool: str, args: Mapping[str, Json]) -> Standing | None:
    """The one rule that asks, when there is one and nothing but a rule asks."""
    if args.get("env") or args.get("sandbox_permissions", "use_default") != "use_default":
        return None
    if guarded(workspace, args):
        return None
    asking = [part for part in explain_parts(policy, tool, args, workspace) if part["decision"] == "ask"]
    rules = {(part["list"], part["rule"]) for part in asking}
    if len(rules) != 1 or any(part.get("possible") for part in asking):
        return None
    listed, rule = rules.pop()
    return Standing(tool, str(listed), rule) if isinstance(rule, str) else None


def guarded(workspace: Path, args: Mapping[str, Json]) -> bool:
    """Whether a path of the call is one that may be asked about, or refused, whatever the rules say."""
    files = args.get("files")
    paths = [args.get("file_path"), args.get("path")]
    paths += [file.get("path") for file in files if isinstance(file, dict)] if isinstance(files, list) else []
    place = LocalWorkspace(str(workspace))
    for path in paths:
        if not isinstance(path, str):
            continue
        try:
            found = place.locate(path)
            links = place.stat(found).links
        except ToolFailure:
            return True
        if links > 1 and place.stat(found).kind == "file":
            return True
        if any(is_protected(name) or is_credential(name) for name in (found.path, found.real)):
            return True
    return False
