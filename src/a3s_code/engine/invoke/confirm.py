"""Asking about calls that can't park (tools.md §2.1, step 10): nested ones and ``governed_tool``. In: a call that asks.
Out: go on, or a refusal.

One rule: one request is for one invocation and one digest of its arguments, and ends with the call: by an answer, the
policy's timeout, a cancel or a close.
Known weakness: these requests live in memory. After a crash the call that asked is gone with what called it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec
from msgspec.structs import replace

from a3s_code.core import project
from a3s_code.core.content import Call, JsonObject, Verdict
from a3s_code.core.digest import args_digest
from a3s_code.core.policy.confirmation import answerable
from a3s_code.engine.firing import Firing
from a3s_code.engine.invoke.admission import refused_by
from a3s_code.engine.invoke.hooked import confirming
from a3s_code.engine.invoke.invocation import Invocation, failed
from a3s_code.engine.parts import Parts
from a3s_code.ports.tool import ToolOutput


class _Answer(msgspec.Struct, frozen=True):
    approved: bool
    reason: str | None


class _Request:
    """``answer`` gets ``None`` when the call is cancelled."""

    def __init__(self, inv: Invocation, verdict: Verdict, since_ms: int) -> None:
        self.call = Call(inv.id, inv.name, inv.args, verdict)
        self.run_id = inv.run_id or None
        self.digest = args_digest(inv.args)
        self.since_ms = since_ms
        self.answer: asyncio.Future[_Answer | None] = asyncio.get_running_loop().create_future()

    def settle(self, answer: _Answer | None) -> bool:
        """False when it was settled before."""
        if self.answer.done():
            return False
        self.answer.set_result(answer)
        return True

    def withdraw(self) -> None:
        self.settle(None)


class Confirmations:
    """The requests of one session that wait now."""

    def __init__(self, parts: Parts, firing: Firing) -> None:
        self._parts = parts
        self._firing = firing
        self._waiting: dict[str, _Request] = {}

    async def ask(self, inv: Invocation, verdict: Verdict) -> ToolOutput | None:
        """Waits for an answer to this call; ``None`` lets it run."""
        policy = self._parts.governance.confirmations
        if policy is None:
            return refused_by(answerable(None, inv.name, verdict))
        request = self._waiting[inv.id] = _Request(inv, verdict, self._parts.env.now_ms())
        inv.token.on_cancel(request.withdraw)
        inv.announce(project.asked(request.call, verdict.reason))
        limit_ms = policy.default_timeout_ms
        try:
            with self._clock_stopped(inv):
                await confirming(self._firing, inv, "required")
                async with asyncio.timeout(limit_ms / 1000):
                    answer = await request.answer
        except TimeoutError:
            inv.announce(project.unanswered(inv.id, policy.timeout_action))
            await confirming(self._firing, inv, "timeout", policy.timeout_action != "reject")
            if policy.timeout_action == "reject":
                refusal = failed("confirmation_timeout", f"Confirmation timed out after {limit_ms} ms")
                return _explained(refusal, verdict)
            answer = _Answer(True, None)
        else:
            if answer is None:
                return failed("cancelled", "Cancelled", exit_code=130)
            inv.announce(project.answered(inv.id, answer.approved, answer.reason))
            await confirming(self._firing, inv, "answered", answer.approved, answer.reason)
        finally:
            inv.token.off_cancel(request.withdraw)
            del self._waiting[inv.id]
        if answer.approved and args_digest(inv.args) != request.digest:
            answer = _Answer(False, "the arguments were changed while the call waited")
        if not answer.approved:
            reason = answer.reason or "no reason given"
            return _explained(failed("confirmation_rejected", f"Rejected: {reason}"), verdict)
        inv.approved, inv.scope = True, verdict.scope
        return None

    @contextmanager
    def _clock_stopped(self, inv: Invocation) -> Iterator[None]:
        """The time of waiting counts against no deadline, neither this call's nor those of the calls around it."""
        around = [inv]
        while (outer := around[-1].outer) is not None:
            around.append(outer)
        began = self._parts.clock.monotonic()
        for each in around:
            each.waiting += 1
        try:
            yield
        finally:
            waited = self._parts.clock.monotonic() - began
            for each in around:
                each.waiting -= 1
                if each.deadline is not None:
                    each.deadline += waited
                    if each.context is not None:
                        each.context.deadline = each.deadline

    def answer(self, call_id: str, approved: bool, reason: str | None) -> bool:
        """False when that call doesn't wait (any more)."""
        request = self._waiting.get(call_id)
        return request is not None and request.settle(_Answer(approved, reason))

    def pending(self) -> list[JsonObject]:
        """What waits for ``confirm_tool_use``, in the order in which it was asked."""
        return [
            {
                "tool_id": request.call.id,
                "tool_name": request.call.name,
                "args": request.call.args,
                "reason": request.call.verdict.reason,
                "run_id": request.run_id,
                "since_ms": request.since_ms,
                **project.escalation(request.call.verdict),
            }
            for request in self._waiting.values()
        ]


def _explained(refusal: ToolOutput, verdict: Verdict) -> ToolOutput:
    return replace(refusal, metadata={**refusal.metadata, **verdict.permission()})
