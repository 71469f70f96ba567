"""The steps before anything happens (tools.md §2.1, 1 to 12). In: an invocation. Out: a refusal, or nothing.

One rule: a step looks at one thing; the order is in ``kernel``. A refusal has had no effect.
Known weakness: active skills and the lane queue have no step yet: absent, they allow everything.
"""

from __future__ import annotations

from msgspec.structs import replace

from a3s_code.core.content import JsonObject, Verdict
from a3s_code.engine.invoke.invocation import Invocation, failed
from a3s_code.engine.parts import Parts
from a3s_code.ports.tool import ToolOutput

MODES = ("grep", "glob", "bm25")
MAX_DEPTH = 8
CONTAINERS = frozenset({"batch", "program", "dynamic_workflow"})
LOG_DIRECTORY = ".a3s/effect-log"
_WRITERS = frozenset({"write", "edit", "patch", "download"})


def still_wanted(inv: Invocation, parts: Parts) -> ToolOutput | None:
    """Step 1: nothing starts once its run or session was cancelled."""
    return failed("cancelled", "Cancelled", exit_code=130) if inv.token.is_cancelled() else None


def look_up(inv: Invocation, parts: Parts) -> ToolOutput | None:
    """Step 2. For host calls the search modes are names of their own."""
    if inv.name in MODES and inv.origin != "agent" and parts.toolbox.get(inv.name) is None:
        inv.args = _as_search(inv.name, inv.args)
        inv.name = "search"
    inv.tool = parts.toolbox.get(inv.name)
    if inv.tool is not None:
        return None
    near = parts.toolbox.near(inv.name)
    hint = f". Did you mean {' or '.join(near)}?" if near else ""
    return failed("unknown_tool", f"Unknown tool: {inv.name}{hint}")


def _as_search(mode: str, args: JsonObject) -> JsonObject:
    renamed = {"pattern": "query", "glob": "include"}
    return {"mode": mode, **{renamed.get(key, key): value for key, value in args.items()}}


def validate(inv: Invocation, parts: Parts) -> ToolOutput | None:
    """Step 3: the schema, with defaults filled in; nothing to do for arguments that came out of this check."""
    if inv.checked is inv.args:
        return None
    args, fault = inv.registered.check(inv.args)
    if args is None:
        return failed("invalid_argument", fault or "invalid arguments")
    inv.args = inv.checked = args
    return None


def no_recursion(inv: Invocation, parts: Parts) -> ToolOutput | None:
    """Step 4."""
    if (inv.name in CONTAINERS and inv.name in inv.stack) or len(inv.stack) >= MAX_DEPTH:
        return failed("recursion", f"Recursive invocation of '{inv.name}' refused")
    return None


def guardrails(inv: Invocation, parts: Parts) -> ToolOutput | None:
    """Step 6: no model changes the record of what it did, whatever the policy says (tools.md §4.4)."""
    path = inv.args.get("file_path")
    if inv.origin in ("host", "host_nested") or inv.name not in _WRITERS or not isinstance(path, str):
        return None
    place = parts.workspace.locate(path)
    for name in (place.path.casefold(), place.real.casefold()):
        if name == LOG_DIRECTORY or name.startswith(LOG_DIRECTORY + "/"):
            return failed("protected_path", f"The session's log is written by the runtime only: {path}")
    return None


def refused_by(verdict: Verdict) -> ToolOutput | None:
    """The refusal of a call that may not run, whoever is asked."""
    if verdict.decision != "deny":
        return None
    output = failed(verdict.kind or "permission_denied", verdict.reason)
    return replace(output, metadata={**output.metadata, **verdict.permission()})
