"""One model turn. In: the conversation. Out: a ``model.turn`` fact with a verdict on each call, and events meanwhile.

One rule: a call is only taken from a whole answer; an attempt that was cut leaves nothing behind but its events, an
interrupted one its text.
Known weakness: the tokens of an attempt that was cut or interrupted are not counted.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

from msgspec.structs import replace

from a3s_code.core import project
from a3s_code.core.assemble import AssembledTurn, Assembler
from a3s_code.core.content import Call, Usage, Verdict
from a3s_code.core.decide.approvals import ASK_USER
from a3s_code.core.decide.context import estimated_tokens
from a3s_code.core.facts import ModelTurn
from a3s_code.core.steps import Infer
from a3s_code.engine import points
from a3s_code.engine.active import ActiveRun
from a3s_code.engine.capabilities import capabilities_of
from a3s_code.engine.deltas import Deltas
from a3s_code.engine.idle import Silent, Watchdog
from a3s_code.engine.invoke.judging import judged
from a3s_code.engine.retry import with_retries
from a3s_code.engine.token import Interrupted
from a3s_code.errors import BudgetExhausted, CodeError, LlmError
from a3s_code.ports.model import ModelDelta, ModelRequest
from a3s_code.ports.tasks import breathe

NO_TOOLS = "This model is declared without tools (tool_call = false): answer in text"
CLIENTS_FIRST_MS = 1000
BREATHE_EVERY = 16
"""Deltas that may come in one piece before readers and other sessions have their turn; about 0.1 ms."""

ROUNDS_USED_UP = "No tools are left in this turn (max_tool_rounds): answer in text"


async def infer(run: ActiveRun, step: Infer) -> None:
    """Calls the model for turn ``step.turn`` and appends its answer."""
    await run.durable()
    await points.reasoning(run, step.turn)
    request = request_for(run, step)
    attempt = _Attempt(run, step, request)
    started = run.parts.env.now_ms()
    try:
        turn = await with_retries(run, attempt, lambda: attempt.delivered)
        calls = await run.token.guard(_all_judged(run, step, turn.calls)) if turn.calls else ()
    except Interrupted:
        _keep_what_was_said(run, attempt, request)
        raise
    if turn.finish == "content_filter":
        raise LlmError("The provider refused the content of this request or answer")
    text, model = _clean(run, turn.text), turn.model or request.model
    fact = ModelTurn(text, "model", calls, turn.reasoning, turn.usage, model, turn.finish)
    run.append(fact)
    await run.guard.after_model(turn.usage)
    await points.reasoned(run, step.turn, fact)
    run.trace("model_call", fact.model, started, "ok", usage=project.usage(turn.usage))


def _keep_what_was_said(run: ActiveRun, attempt: _Attempt, request: ModelRequest) -> None:
    """An interrupted answer's text stays in the conversation: its reader has seen it. Calls and reasoning don't: they
    may be cut in the middle. A run that is left open asks again elsewhere."""
    text = attempt.text()
    if text and run.left is None:
        run.append(ModelTurn(_clean(run, text), "model", (), (), Usage(estimated=True), request.model, "cancelled"))


def _clean(run: ActiveRun, text: str) -> str:
    """What the model said, as its readers have seen it."""
    sanitizer = run.parts.governance.sanitizer
    return text if sanitizer is None else sanitizer.shown(text)


def request_for(run: ActiveRun, step: Infer) -> ModelRequest:
    """The request of a turn: the conversation so far and what the session offers."""
    parts, view = run.parts, run.view
    settings = parts.model_settings
    return ModelRequest(
        model=settings.name,
        messages=view.messages,
        system=parts.system(),
        tools=parts.toolbox.specs() if step.tools and settings.tools else (),
        temperature=settings.temperature,
        max_output_tokens=settings.max_output_tokens,
        timeout_ms=settings.timeout_ms,
        session_id=parts.session_id,
        run_id=run.id,
        turn=step.turn,
        generation=view.generation,
        memo=parts.memo,
        load=parts.blobs.load,
    )


class _Attempt:
    """One call of the provider; made again for a retry. ``delivered`` says whether a reader has seen any of it."""

    def __init__(self, run: ActiveRun, step: Infer, request: ModelRequest) -> None:
        self.run = run
        self.step = step
        self.request = request
        self.delivered = False
        self._deltas = Deltas(run)
        self.generation = points.Generation(run, request)
        self._assembler: Assembler | None = None

    def text(self) -> str:
        """What the present attempt has said so far."""
        return self._assembler.turn().text if self._assembler is not None else ""

    async def __call__(self) -> AssembledTurn:
        run = self.run
        run.turn = self.step.turn
        tokens = estimated_tokens(run.view, run.rules)
        denied = await run.token.guard(run.guard.before_model(tokens, run.emit)) if run.guard.asks else None
        if denied is not None:
            raise BudgetExhausted(denied)
        run.emit(project.turn_started(self.step.turn))
        await self.generation.begins(tokens)
        try:
            turn = await run.token.guard(self._stream())
        except (CodeError, Interrupted) as error:
            await self.generation.ends(error=str(error) or "interrupted")
            raise
        await self.generation.ends(project.usage(turn.usage), turn.finish)
        return turn

    async def _stream(self) -> AssembledTurn:
        run = self.run
        run_id, turn = run.id, self.step.turn
        self._deltas = Deltas(run)
        assembler = self._assembler = Assembler(lambda position: f"{run_id}-t{turn}-c{position}", run.view.call_ids)
        stream: AsyncIterator[ModelDelta] | None = None
        try:
            stream = run.parts.model.stream(self.request)
            await self._read(stream, assembler)
        except CodeError:
            raise
        except Silent as error:
            raise LlmError(f"The model was {error}", retryable=True) from None
        except (Exception, SystemExit) as error:  # a host's own client may raise anything; no retry mends it
            raise LlmError(f"The model client failed: {type(error).__name__}: {str(error)[:2048]}") from error
        finally:
            self._deltas.end()
            close = getattr(stream, "aclose", None)
            if close is not None:
                await close()
        return assembler.turn()

    async def _read(self, stream: AsyncIterator[ModelDelta], assembler: Assembler) -> None:
        """Takes the deltas as they come. A client that keeps its own deadline of ``timeout_ms`` fails first and says
        more; the watchdog is for those that don't."""
        fanout = self.run.fanout
        untold = BREATHE_EVERY - 1 if fanout.has_readers else 0  # whoever reads is told the first one at once
        with Watchdog(self.request.timeout_ms + CLIENTS_FIRST_MS) as dog:
            async for delta in stream:
                dog.touch()
                self._take(assembler, delta)
                untold += 1
                if untold == BREATHE_EVERY:
                    untold = 0
                    await breathe()
                if fanout.congested:
                    dog.hold()
                    await fanout.flow()
                    dog.touch()

    def _take(self, assembler: Assembler, delta: ModelDelta) -> None:
        deltas = self._deltas
        progress = assembler.add(delta)
        if delta.text:
            self.delivered = True
            deltas.text(delta.text)
        if delta.reasoning:
            self.delivered = True
            deltas.reasoning(delta.reasoning)
        for piece in progress:
            self.delivered = True
            if piece.begun:
                deltas.begun(piece.id, piece.name)
            if piece.arguments:
                deltas.arguments(piece.id, piece.name, piece.arguments)


async def _all_judged(run: ActiveRun, step: Infer, calls: tuple[Call, ...]) -> tuple[Call, ...]:
    return tuple([await _judged(run, step, call) for call in calls])


async def _judged(run: ActiveRun, step: Infer, call: Call) -> Call:
    """The call with the verdict on what the model sent."""
    if not run.parts.model_settings.tools:
        return replace(call, verdict=Verdict("deny", NO_TOOLS, "unavailable"))
    if not step.tools:
        return replace(call, verdict=Verdict("deny", ROUNDS_USED_UP, "limit_exceeded"))
    registered = run.parts.toolbox.get(call.name)
    if registered is None:
        near = run.parts.toolbox.near(call.name)
        hint = f". Did you mean {' or '.join(near)}?" if near else ""
        return replace(call, verdict=Verdict("deny", f"Unknown tool: {call.name}{hint}", "unknown_tool"))
    args, fault = registered.check(call.args) if call.fault is None else (None, call.fault)
    if args is None or fault is not None:
        malformed = fault if call.name == ASK_USER and call.fault is None else None  # one that would park unchecked
        return replace(call, verdict=Verdict("deny", malformed, "invalid_argument")) if malformed else call
    invocation = run.invocation(call)
    invocation.args, invocation.tool = args, registered
    verdict = await judged(invocation, run.parts)
    return replace(call, verdict=verdict, parallel=capabilities_of(registered, args).parallel_safe)
