"""Hooks around one call (tools.md §2.1, steps 7 and 16). In: an invocation. Out: a refusal, or arguments rewritten.

One rule: what a hook rewrote passes the steps before it once more; a hook that fails has refused.
Known weakness: none known.
"""

from __future__ import annotations

from typing import Final

from a3s_code.core.content import Json, JsonObject, Verdict
from a3s_code.core.text.clip import utf8_head
from a3s_code.engine.firing import Firing
from a3s_code.engine.invoke.invocation import Finished, Invocation, failed
from a3s_code.engine.token import Interrupted
from a3s_code.ports.hooks import Denied
from a3s_code.ports.tool import ToolOutput

SHOWN_OUTPUT: Final = 64 * 1024
_NEVER_A_CALL: Final = frozenset({"unknown_tool", "invalid_argument"})


async def before_call(inv: Invocation, firing: Firing) -> ToolOutput | None:
    """``pre_tool_use``: a refusal, or the arguments as the hooks left them, not yet validated."""
    payload: JsonObject = {"tool": inv.name, "tool_call_id": inv.id, "args": inv.args, "origin": inv.origin}
    properties = inv.registered.tool.parameters.get("properties")
    own_args = isinstance(properties, dict) and "args" in properties
    try:
        gated = await firing.gate("pre_tool_use", payload, inv.token, inv.run_id, own_args=own_args)
    except Interrupted:
        return failed("cancelled", "Cancelled", exit_code=130)
    if gated.denied is not None:
        return refusal(gated.denied)
    inv.consulted = gated.consulted
    args = gated.payload["args"]
    assert isinstance(args, dict)
    inv.args = args
    return None


async def permission(inv: Invocation, verdict: Verdict, firing: Firing) -> tuple[Denied | None, str | None, str | None]:
    """``permission_request``: the refusal, or which hook allowed the call and why; nothing at all leaves it to a
    person. May raise ``Interrupted``."""
    payload: JsonObject = {"tool": inv.name, "tool_call_id": inv.id, "args": inv.args, "rule": verdict.rule}
    gated = await firing.gate("permission_request", payload, inv.token, inv.run_id)
    return gated.denied, gated.allowed_by, gated.reason


async def confirming(
    firing: Firing, inv: Invocation, phase: str, approved: bool | None = None, reason: str | None = None
) -> None:
    """``on_confirmation`` for a call that can't park."""
    if firing.wants("on_confirmation"):
        payload = confirmation(inv.id, inv.name, inv.args, phase, approved, reason)
        await firing.tell_anyway("on_confirmation", payload, inv.token, inv.run_id)


def confirmation(
    call_id: str, tool: str, args: JsonObject, phase: str, approved: bool | None, reason: str | None
) -> JsonObject:
    return {"phase": phase, "tool_id": call_id, "tool": tool, "args": args, "approved": approved, "reason": reason}


async def after_call(inv: Invocation, finished: Finished, firing: Firing) -> None:
    """``post_tool_use`` of a call that leaves no facts. Those of the model are told when their result is recorded."""
    output = finished.output
    if was_no_call(output.error_kind, began=inv.context is not None):
        return
    payload = ended(inv.name, inv.id, inv.args, inv.origin, output.exit_code, output.output)
    payload |= {"error_kind": output.error_kind, "duration_ms": finished.took_ms}
    await firing.tell_anyway("post_tool_use", payload, inv.token, inv.run_id)


def ended(name: str, call_id: str, args: JsonObject, origin: str, exit_code: int, output: str) -> JsonObject:
    """What ``post_tool_use`` says of any call; the rest is the caller's."""
    return {
        "tool": name,
        "tool_call_id": call_id,
        "args": args,
        "origin": origin,
        "exit_code": exit_code,
        "output": _beginning(output),
    }


def _beginning(output: str) -> str:
    if len(output) * 4 <= SHOWN_OUTPUT:
        return output
    raw = output.encode("utf-8", "surrogatepass")
    return output if len(raw) <= SHOWN_OUTPUT else utf8_head(raw[:SHOWN_OUTPUT]).decode("utf-8", "replace")


def was_no_call(kind: Json, *, began: bool) -> bool:
    """Unknown tools and invalid arguments run no hook; a tool that itself found its arguments wrong did run."""
    return kind in _NEVER_A_CALL and not began


def refusal(denied: Denied) -> ToolOutput:
    """The result of a call that a hook denied: exactly the documented keys."""
    return ToolOutput(str(denied), 1, {"error": denied.detail()}, "hook_denied")
