"""What a tool gets beside its arguments. In: an invocation. Out: a ToolContext.

One rule: a tool that is asked about a call gets the context it would run with, but can't do anything in it.
Known weakness: none known.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any

from a3s_code.core.content import Json, Verdict
from a3s_code.core.policy.confirmation import answerable
from a3s_code.engine.invoke.guarded import hidden_from
from a3s_code.engine.invoke.invocation import Invocation
from a3s_code.engine.parts import Parts
from a3s_code.ports.tool import ToolContext, ToolFailure, ToolResult

_ASK = Verdict("ask")


def context_of(
    inv: Invocation, parts: Parts, invoke: Callable[[str, Mapping[str, Json]], Awaitable[Any]] | None = None
) -> ToolContext:
    """Without ``invoke`` for a call that is only being judged."""
    return ToolContext(
        session_id=parts.session_id,
        run_id=inv.run_id,
        invocation_id=inv.id,
        origin=inv.origin,
        workspace=parts.workspace,
        deadline=inv.deadline,
        cancelled=asyncio.Event(),
        emit=_silent if invoke is None else inv.emit,
        invoke=invoke or _not_now,
        clock=parts.clock,
        new_id=partial(inv.new_id, parts.env),
        sandbox=parts.sandbox,
        approved=inv.approved or _approved_always(inv, parts),
        approved_scope=inv.scope if inv.approved else None,
        hidden=hidden_from(inv, parts),
        limit_ms=inv.limit_ms,
    )


def _approved_always(inv: Invocation, parts: Parts) -> bool:
    """Whether the host answers every ask about this tool with yes, without being asked."""
    return answerable(parts.governance.confirmations, inv.name, _ASK).decision == "allow"


def _silent(text: str) -> None:
    """Nothing is streamed while a call is judged."""


async def _not_now(name: str, args: Mapping[str, Json]) -> ToolResult:
    raise ToolFailure("unavailable", f"'{name}' can't be called while a call is being judged")
