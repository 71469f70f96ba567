"""The verdict on one call (tools.md §2.1, steps 8 and 9). In: an invocation with checked arguments. Out: a Verdict.

One rule: the tool itself and the paths it names can only make the policy's decision stricter; whatever goes wrong while
a tool is asked, the person is asked.
Known weakness: a plain ``escalation`` that hangs keeps its thread; it is not waited for longer than 5 s.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from typing import Any, Final

from msgspec.structs import astuple, replace

from a3s_code.core.content import ALLOW, Verdict
from a3s_code.core.policy.confirmation import answerable
from a3s_code.engine.invoke.context import context_of
from a3s_code.engine.invoke.guarded import demanded
from a3s_code.engine.invoke.invocation import Invocation
from a3s_code.engine.parts import Parts
from a3s_code.ports.tool import Escalation

ANSWER_S: Final = 5.0
FINAL: Final = frozenset({"hard_link", "credential_path"})
"""What no approval lifts: a call that was approved and now has such a verdict is refused."""
_log = logging.getLogger("a3s_code")


async def judged(inv: Invocation, parts: Parts) -> Verdict:
    """The policy's decision, made stricter by the call's paths and by the tool. An ``ask`` that nobody answers has
    become what it comes to."""
    confirmations = parts.governance.confirmations
    verdict = parts.judge(inv.name, inv.args)
    if confirmations is None and verdict.decision == "ask" and "permission_request" in parts.hooks.listening:
        verdict = replace(verdict, kind="confirmation_unavailable")  # what it comes to unless a hook allows it
    else:
        verdict = answerable(confirmations, inv.name, verdict)
    if verdict.decision == "deny":
        return verdict
    stricter = await demanded(inv, parts)
    if stricter.decision == "deny":
        return stricter
    if stricter.decision == "allow":
        stricter = await _escalated(inv, parts)
    if verdict.decision == "ask":  # once, for what the policy asks and for what the tool says of the call
        return replace(verdict, scope=stricter.scope, risk=stricter.risk)
    return verdict if stricter.decision == "allow" else answerable(confirmations, inv.name, stricter)


async def beside_the_policy(inv: Invocation, parts: Parts) -> Verdict:
    """What a call's paths and its tool demand once the policy's own ask has been answered."""
    stricter = await demanded(inv, parts)
    if stricter.decision == "allow":
        stricter = await _escalated(inv, parts)
    return answerable(parts.governance.confirmations, inv.name, stricter)


async def _escalated(inv: Invocation, parts: Parts) -> Verdict:
    """What the tool says of the call itself."""
    escalate = getattr(inv.registered.tool, "escalation", None)
    if escalate is None:
        return ALLOW
    try:
        async with asyncio.timeout(ANSWER_S):
            answer: Any = await _asked(escalate, inv, parts)
    except Exception as error:  # noqa: BLE001  a tool that can't say whether it must ask is one that must
        _log.debug("escalation of tool %s raised", inv.name, exc_info=parts.governance.loggable(error))
        return Verdict("ask", f"the tool '{inv.name}' could not say whether this call is safe")
    if answer is None:
        return ALLOW
    if not isinstance(answer, Escalation) or not all(isinstance(text, str) for text in astuple(answer)):
        return Verdict("ask", f"the tool '{inv.name}' gave {type(answer).__name__} when asked about this call")
    reason = answer.reason or f"the tool '{inv.name}' asks for a confirmation"
    return Verdict("ask", reason, scope=answer.scope, risk=answer.risk)


async def _asked(escalate: Any, inv: Invocation, parts: Parts) -> Any:
    context = context_of(inv, parts)
    if inv.registered.host:
        return await parts.callbacks.call_host(escalate, inv.args, context)
    answer = escalate(inv.args, context)
    return await answer if inspect.isawaitable(answer) else answer
