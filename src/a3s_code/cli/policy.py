"""``a3s-code policy explain``. In: a command line, or another tool's argument, and a policy. Out: what is decided, why.

Exit codes: 0 allow, 3 ask, 4 deny.

One rule: what is said here is what a session would decide, made by the same code; nothing is run.
Known weakness: what a tool itself demands is asked on top of the policy, and isn't known here.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
from collections.abc import Mapping
from typing import Final

import msgspec

from a3s_code.api.confine import host_by_variable
from a3s_code.api.judge import explain_call, explain_parts
from a3s_code.cli.asked import parts_table, rule_words, visible_line
from a3s_code.cli.governed import policy_of
from a3s_code.cli.setup import workspace_of
from a3s_code.cli.standing import guarded
from a3s_code.cli.table import table_lines
from a3s_code.core.content import JsonObject
from a3s_code.core.policy import needs_sandbox
from a3s_code.errors import CodeError
from a3s_code.system.process import LocalProcesses
from a3s_code.workspace.sandbox.session import native

CODES: Final = {"allow": 0, "ask": 3, "deny": 4}
_PATH_TOOLS: Final = ("read", "write", "edit", "patch", "download")
_ARGUMENT: Final = {
    "bash": "command",
    **dict.fromkeys(_PATH_TOOLS, "file_path"),
    "ls": "path",
    "git": "command",
    "web_fetch": "url",
    "Skill": "skill_name",
}


def go(args: argparse.Namespace) -> int:
    workspace = workspace_of(args.workspace)
    policy, _ = policy_of(args, os.environ)
    call = _arguments(args.tool, args.call)
    sandboxed = not needs_sandbox(policy) or args.tool != "bash" or asyncio.run(_has_a_place(os.environ))
    parts = explain_parts(policy, args.tool, call, workspace, sandboxed=sandboxed)
    found = explain_call(policy, args.tool, call, workspace, sandboxed=sandboxed)
    if args.json:
        print(msgspec.json.encode({**found, "parts": parts}).decode())
    else:
        for line in _lines(found, parts):
            print(line)
        if not sandboxed:
            print("\nno sandbox works here, so a command that would be allowed inside one asks; see `a3s-code doctor`")
        if args.tool in _PATH_TOOLS and guarded(workspace, call):
            print("\nthe path is guarded: a model's call is asked about, or refused, whatever the policy allows")
    return CODES[str(found["decision"])]


async def _has_a_place(environ: Mapping[str, str]) -> bool:
    """Whether commands run without being asked about: in a sandbox, or on the host because somebody chose that."""
    return host_by_variable(environ) is not None or (await native(LocalProcesses(), environ).state()).kind == "native"


def _arguments(tool: str, given: str) -> JsonObject:
    """A text becomes the argument that the tool's rules are about; JSON says all of them."""
    if given.lstrip().startswith("{") and tool != "bash":
        try:
            found = json.loads(given)
        except ValueError as error:
            raise CodeError(f"the arguments are no JSON: {error}", "INVALID_REQUEST") from None
        return dict(found)
    if tool not in _ARGUMENT:
        raise CodeError(f"the arguments of {tool} are given as JSON: '{{\"name\": …}}'", "INVALID_REQUEST")
    return {_ARGUMENT[tool]: given}


def _lines(found: JsonObject, parts: list[JsonObject]) -> list[str]:
    decided = f"{found['decision']}: {rule_words(found)}"
    if "part" in found:
        decided += f", because of `{visible_line(str(found['part']))}`"
    return [decided, "", *table_lines(["part", "decision", "rule", "matched with"], parts_table(parts))]
