"""Where a command of ``bash`` runs (tools.md §3.7, *Sandbox*). In: its arguments, who asks, the session's sandbox.
Out: ``native``, ``custom``, ``process_host`` or ``escalated``; or a refusal.

One rule: what a model wrote runs outside a sandbox only if the host chose that for the session, or somebody approved
it for this call.
Known weakness: none known.
"""

from __future__ import annotations

from typing import Literal, cast

from a3s_code.core.content import JsonObject
from a3s_code.core.netpolicy import exact_host
from a3s_code.ports.tool import Escalation, ToolContext, ToolFailure
from a3s_code.tools.bash_grant import OF_THE_HOST, grant_escalation

Ground = Literal["native", "custom", "process_host", "escalated"]


def check_permissions(args: JsonObject) -> None:
    """The arguments that need each other."""
    asked = args.get("sandbox_permissions", "use_default")
    grant = cast("JsonObject | None", args.get("network_grant"))
    justification = args.get("justification")
    if asked == "require_escalated" and not str(justification or "").strip():
        raise _invalid("justification: is required with sandbox_permissions 'require_escalated'")
    if asked == "request_network_grant" and grant is None:
        raise _invalid("network_grant: is required with sandbox_permissions 'request_network_grant'")
    if grant is not None and asked != "request_network_grant":
        raise _invalid("network_grant: needs sandbox_permissions 'request_network_grant'")
    if grant is not None and any(sign in str(grant["host"]) for sign in "*/@: \t\n"):
        raise _invalid("network_grant.host: expected one exact host name, without scheme, port or wildcard")
    if grant is not None:
        try:
            exact_host(str(grant["host"]))
        except ValueError as error:
            raise _invalid(f"network_grant.host: {error}") from error


async def ground_of(args: JsonObject, ctx: ToolContext) -> Ground:
    """Raises ``ToolFailure`` when this command may run nowhere."""
    asked = args.get("sandbox_permissions", "use_default")
    if ctx.sandbox is None:
        return "process_host"
    by_host = ctx.origin in OF_THE_HOST
    known = ctx.sandbox.known
    if known is not None and known.kind == "process_host":
        return "process_host"
    if asked == "require_escalated":
        if by_host or ctx.approved:
            return "escalated"
        raise ToolFailure(
            "confirmation_unavailable",
            "Running a command outside the sandbox needs a confirmation, and this call had none; set "
            "confirmation_policy to be asked",
        )
    state = await ctx.sandbox.state()
    if state.kind != "none":
        return state.kind
    if by_host:
        return "process_host"
    if ctx.approved:
        return "escalated"
    raise unavailable(state.reason)


async def escalation_of(args: JsonObject, ctx: ToolContext) -> Escalation | None:
    """What of this call somebody has to confirm."""
    asked = args.get("sandbox_permissions", "use_default")
    if ctx.sandbox is None:
        return None
    if asked == "request_network_grant":
        return await grant_escalation(args, ctx)
    known = ctx.sandbox.known
    if known is not None and known.kind == "process_host":
        return None
    if asked == "require_escalated":
        return Escalation(
            f"The command asks to run outside the sandbox: {args.get('justification') or 'no reason given'}",
            "outside the sandbox",
            "it may read, change and send whatever the host's user may",
        )
    state = await ctx.sandbox.state()
    if state.kind == "none" and ctx.sandbox.can_ask:
        return Escalation(
            f"There is no sandbox for the command: {state.reason}",
            "outside a sandbox",
            "it may read, change and send whatever the host's user may",
        )
    return None


def unavailable(reason: str) -> ToolFailure:
    return ToolFailure("unavailable", f"Bash sandbox unavailable: {reason}", exit_code=126)


def _invalid(problem: str) -> ToolFailure:
    return ToolFailure("invalid_argument", f"Invalid arguments for tool 'bash':\n- {problem}")
