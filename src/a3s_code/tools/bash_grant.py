"""Network grants of ``bash`` (tools.md §3.7). In: a call's arguments, who asks, the session's sandbox. Out: the one
origin that the command may reach; or a refusal.

One rule: a grant is for one call, by somebody who was shown the origin and the digest of the sandbox's policy; under
another policy it is refused.
Known weakness: where the host approves everything in advance nobody was shown anything, and no digest is compared.
"""

from __future__ import annotations

from typing import Final, cast

from a3s_code.core.content import JsonObject
from a3s_code.core.netpolicy import exact_host, refused_origin
from a3s_code.ports.sandbox import Confinement, NetworkGrant
from a3s_code.ports.tool import Escalation, ToolContext, ToolFailure

OF_THE_HOST: Final = ("host", "host_nested")
_DEFAULT_PORT: Final = 443


async def granted(args: JsonObject, ctx: ToolContext) -> NetworkGrant | None:
    """What this call may reach; ``None`` for one that doesn't ask. Raises ``ToolFailure`` when it may not."""
    grant = _wanted(args)
    if grant is None:
        return None
    if (why := refused_origin(grant.host, grant.port)) is not None:
        raise ToolFailure("ssrf_blocked", f"Blocked address for {grant.host}: {why}")
    reason = await _no_grants(ctx)
    if reason is not None or ctx.sandbox is None:
        raise ToolFailure("unavailable", f"Network grants are not available here: {reason}", exit_code=126)
    if ctx.origin in OF_THE_HOST:
        return grant
    if not ctx.approved:
        raise ToolFailure(
            "confirmation_unavailable",
            "Reaching the network needs a confirmation, and this call had none; set confirmation_policy to be asked",
        )
    if ctx.approved_scope is not None and ctx.approved_scope != _scope(grant, ctx.sandbox):
        raise ToolFailure(
            "conflict",
            "The network grant was approved under another sandbox policy than the present one; make the call again to "
            "ask anew",
        )
    return grant


async def grant_escalation(args: JsonObject, ctx: ToolContext) -> Escalation | None:
    """What somebody has to confirm; nothing for a grant that is refused anyway."""
    try:
        grant = _wanted(args)
    except ValueError:
        return None
    if grant is None or ctx.sandbox is None or refused_origin(grant.host, grant.port) is not None:
        return None
    if await _no_grants(ctx) is not None:
        return None
    return Escalation(
        f"The command asks to reach {grant.host}:{grant.port}: {args.get('justification') or 'no reason given'}",
        _scope(grant, ctx.sandbox),
        "it may send there whatever it can read, and run what it gets from there",
    )


def described(grant: NetworkGrant | None, sandbox: Confinement | None) -> JsonObject:
    """``metadata["network_grant"]`` of a result; nothing without a grant."""
    if grant is None or sandbox is None:
        return {}
    return {"network_grant": {"host": grant.host, "port": grant.port, "policy_digest": sandbox.policy_digest}}


def _wanted(args: JsonObject) -> NetworkGrant | None:
    """The origin in its one form; ``ValueError`` for a host that is none."""
    asked = cast("JsonObject | None", args.get("network_grant"))
    if asked is None:
        return None
    return NetworkGrant(exact_host(str(asked["host"])), cast("int", asked.get("port", _DEFAULT_PORT)))


def _scope(grant: NetworkGrant, sandbox: Confinement) -> str:
    return f"{grant.host}:{grant.port} from inside the sandbox; policy {sandbox.policy_digest}"


async def _no_grants(ctx: ToolContext) -> str | None:
    if ctx.sandbox is None:
        return "there is no sandbox"
    await ctx.sandbox.state()
    return ctx.sandbox.no_grants()
