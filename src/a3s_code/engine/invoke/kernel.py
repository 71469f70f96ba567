"""The order of an invocation's steps (tools.md §2.1). In: a call of any origin. Out: its result.

One rule: there is no other way to a tool; a nested call comes back here as ``nested`` and is always governed.
Known weakness: none known.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

from msgspec.structs import replace

from a3s_code.core.content import Json, JsonObject, Verdict
from a3s_code.core.evidence import with_evidence
from a3s_code.engine.firing import Firing
from a3s_code.engine.guard import Guard
from a3s_code.engine.invoke import admission, hooked
from a3s_code.engine.invoke.confirm import Confirmations
from a3s_code.engine.invoke.context import context_of
from a3s_code.engine.invoke.execute import execute, failure_output
from a3s_code.engine.invoke.guarded import GOVERNED
from a3s_code.engine.invoke.invocation import Finished, Invocation, failed
from a3s_code.engine.invoke.judging import beside_the_policy, judged
from a3s_code.engine.invoke.results import Results
from a3s_code.engine.parts import Parts
from a3s_code.engine.token import CancelToken, Interrupted
from a3s_code.ports.tool import Origin, ToolContext, ToolFailure, ToolOutput, ToolResult

Step = Callable[[Invocation, Parts], ToolOutput | None]

CHECKS: Final[tuple[Step, ...]] = (admission.validate, admission.no_recursion, admission.guardrails)
"""What arguments pass, and pass once more when a hook rewrote them."""
BEFORE: Final[tuple[Step, ...]] = (admission.still_wanted, admission.look_up, *CHECKS)


class Kernel:
    """One a session. ``active`` are the calls now running, by invocation id."""

    def __init__(self, parts: Parts, guard: Guard, firing: Firing, trace: Callable[[JsonObject], None]) -> None:
        self._parts = parts
        self.guard = guard
        self.firing = firing
        self.confirmations = Confirmations(parts, firing)
        self.results = Results(parts)
        self._trace = trace
        self.active: dict[str, Invocation] = {}
        self._idle = asyncio.Event()

    async def invoke(self, inv: Invocation) -> Finished:
        """All steps, for calls that leave no facts: those of hosts and nested ones."""
        refusal = await self.admit(inv)
        finished = refusal if refusal is not None else await self.execute(inv)
        if inv.outer is None:
            self.told(inv)
        if self.firing.wants("post_tool_use"):
            await hooked.after_call(inv, finished, self.firing)
        return finished

    def told(self, inv: Invocation) -> None:
        """Puts what is known of the call, and of those inside it, into the trace: for one of the model when its result
        is recorded, so that the trace has the order of the log."""
        for line in inv.lines:
            self._trace(line)
        inv.lines.clear()

    async def admit(self, inv: Invocation) -> Finished | None:
        """The steps before the call; a refusal has had no effect. The model's calls come here when hooks and policy
        have decided about them."""
        refusal = self._checked(inv, BEFORE)
        if refusal is None and inv.origin != "agent":
            refusal = await self._hooked(inv)
            if refusal is None and inv.origin in GOVERNED:
                refusal = await self._governed(inv)
        if refusal is None and (denied := await self.guard.before_tool(inv.name, inv.announce)) is not None:
            refusal = failed("budget_exhausted", denied)
        return None if refusal is None else await self._finished(inv, refusal, 0)

    async def consult(self, inv: Invocation) -> Finished | None:
        """Step 7 for a call of the model, ahead of the rest: hooks may refuse it or rewrite ``inv.args``. What can't
        pass the steps before isn't shown to them; ``admit`` refuses that."""
        if self._checked(inv, BEFORE) is not None:
            return None
        refusal = await self._hooked(inv)
        return None if refusal is None else await self._finished(inv, refusal, 0)

    def _checked(self, inv: Invocation, steps: tuple[Step, ...]) -> ToolOutput | None:
        try:
            return next((refusal for step in steps if (refusal := step(inv, self._parts)) is not None), None)
        except ToolFailure as failure:
            return failure_output(failure)

    async def _hooked(self, inv: Invocation) -> ToolOutput | None:
        if not self.firing.wants("pre_tool_use"):
            return None
        sent = inv.args
        refusal = await hooked.before_call(inv, self.firing)
        return refusal if refusal is not None or inv.args is sent else self._checked(inv, CHECKS)

    async def _governed(self, inv: Invocation) -> ToolOutput | None:
        """Steps 8 to 10 for calls without a recorded verdict. Those of the model are parked by the core instead; one
        that comes here was allowed or approved."""
        verdict = await judged(inv, self._parts)
        if verdict.decision == "ask" and verdict.rules and self.firing.wants("permission_request"):
            settled = await self._settled_by_hook(inv, verdict)
            if isinstance(settled, ToolOutput):
                return settled
            verdict = settled
        if verdict.decision == "ask":
            refusal = await self.confirmations.ask(inv, verdict)
            inv.approved = refusal is None
            return refusal
        return admission.refused_by(verdict)

    async def _settled_by_hook(self, inv: Invocation, verdict: Verdict) -> ToolOutput | Verdict:
        try:
            denied, by, _ = await hooked.permission(inv, verdict, self.firing)
        except Interrupted:
            return failed("cancelled", "Cancelled", exit_code=130)
        if denied is not None:
            return hooked.refusal(denied)
        if by is None:
            return verdict
        inv.approved = True
        return await beside_the_policy(inv, self._parts)

    async def execute(self, inv: Invocation) -> Finished:
        """The call and the steps after it; a call that was cancelled since it was admitted doesn't begin."""
        refusal = admission.still_wanted(inv, self._parts)
        if refusal is not None:
            return await self._finished(inv, refusal, 0)
        clock = self._parts.clock
        started = clock.monotonic()
        inv.started_at_ms = self._parts.env.now_ms()
        self.active[inv.id] = inv
        try:
            output = await execute(inv, self._context(inv, started), self._parts)
        finally:
            self.active.pop(inv.id, None)
            if not self.active:
                self._idle.set()
        took = round((clock.monotonic() - started) * 1000)
        if self._parts.env.fixed:
            took, output = 0, _timeless(output)
        return await self._finished(inv, output, took)

    async def settled(self) -> None:
        """Returns once no call is running."""
        while self.active:
            self._idle.clear()
            await self._idle.wait()

    async def _finished(self, inv: Invocation, output: ToolOutput, took_ms: int) -> Finished:
        output, whole = await self.results.settle(inv.name, output)
        finished = Finished(output, took_ms, whole)
        inv.outermost.lines.append(self._traced(inv, finished))
        return finished

    def _traced(self, inv: Invocation, finished: Finished) -> JsonObject:
        return {
            "type": "tool_call",
            "run_id": inv.run_id,
            "name": inv.name,
            "outcome": finished.output.error_kind or "ok",
            "started_ms": inv.started_at_ms,
            "took_ms": finished.took_ms,
            "id": inv.id,
            "origin": inv.origin,
            **self._parts.labels.present(),
        }

    def _context(self, inv: Invocation, started: float) -> ToolContext:
        parts = self._parts
        limits = (parts.tool_timeout_ms, getattr(inv.registered.tool, "timeout_ms", None))
        for limit in limits:
            if limit is not None and (inv.deadline is None or started + limit / 1000 < inv.deadline):
                inv.deadline, inv.limit_ms = started + limit / 1000, limit

        home = asyncio.get_running_loop()

        async def nested(name: str, args: Mapping[str, Json]) -> ToolResult:
            work = self._nested(inv, name, dict(args))
            if asyncio.get_running_loop() is home:
                return await work
            return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, home))

        inv.context = context_of(inv, parts, nested)
        return inv.context

    async def _nested(self, outer: Invocation, name: str, args: JsonObject) -> ToolResult:
        inv = Invocation(
            id=outer.new_id(self._parts.env),
            name=name,
            args=args,
            origin="nested",
            run_id=outer.run_id,
            token=outer.token,
            emit=outer.emit,
            announce=outer.announce,
            stack=(*outer.stack, outer.name),
            deadline=outer.deadline,
            limit_ms=outer.limit_ms,
            outer=outer,
        )
        return result_of(inv, await self.invoke(inv))

    def host_call(self, name: str, args: JsonObject, origin: Origin, token: CancelToken) -> Invocation:
        """A call that a host makes directly: no run, no facts, no events."""
        return Invocation(
            id=self._parts.env.new_id(), name=name, args=args, origin=origin, run_id="", token=token, emit=_silent
        )


def _timeless(output: ToolOutput) -> ToolOutput:
    """The same without the time it took, for a host that fixed what is recorded."""
    if "duration_ms" not in output.metadata:
        return output
    return replace(output, metadata={**output.metadata, "duration_ms": 0})


def _silent(text: str) -> None:
    """Nobody listens to the output of a host's direct call; its result has it all."""


def result_of(inv: Invocation, finished: Finished, *, whole: bool = False) -> ToolResult:
    """What the caller sees; ``whole`` for one that wants the text before it was shortened."""
    output = finished.output
    text = finished.whole if whole else output.output
    metadata = with_evidence(inv.name, output.output, output.metadata)
    return ToolResult(inv.name, text, output.exit_code, metadata, output.error_kind, output.attachments)
