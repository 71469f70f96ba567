"""Each step to its doer. In: a step the core chose. Out: the fact that records what came of it.

One rule: one branch a step; what takes more than a line is a module of its own.
Known weakness: none known.
"""

from __future__ import annotations

from typing import assert_never

from a3s_code.core.facts import BudgetDenied, RunClosed, UserSaid
from a3s_code.core.steps import (
    Compact,
    Confirm,
    Continue,
    Deny,
    Idle,
    Infer,
    Question,
    Record,
    Run,
    Settle,
    Step,
)
from a3s_code.engine import approvals, consulting, model_call, points, tool_calls
from a3s_code.engine.active import ActiveRun
from a3s_code.engine.tool_calls import result_of
from a3s_code.errors import CodeError


async def perform(run: ActiveRun, step: Step) -> None:
    """Does what ``step`` says. Raises ``Interrupted`` when the run's token fired, ``CodeError`` when it failed."""
    match step:
        case Infer():
            await model_call.infer(run, step)
        case Run():
            if not await consulting.changed(run, step.calls):
                await tool_calls.run_batch(run, step.calls)
        case Record():
            run.append(*(result_of(item) for item in step.results))
        case Confirm():
            if not await consulting.changed(run, step.calls) and not await consulting.settled(run, step.calls):
                await approvals.park(run, step.calls)
        case Question():
            if not await consulting.changed(run, (step.call,)):
                await approvals.park(run, (step.call,))
        case Continue():
            run.append(UserSaid(step.text, "continuation"))
        case Deny():
            run.append(BudgetDenied(step.call.id, step.limit, step.used))
        case Settle():
            await _settle(run, step)
        case Compact():
            raise CodeError("Compaction is not available in this version", "CONTEXT_ERROR")
        case Idle():
            return
        case _:
            assert_never(step)


async def _settle(run: ActiveRun, step: Settle) -> None:
    await points.response(run, step)
    open_run = run.view.run
    steps = open_run.steps if open_run else 0
    closed = RunClosed(step.status, steps, step.error, step.stop_reason)
    run.append(*(result_of(item) for item in step.results), closed)
    await run.durable()
    run.outcome = run.view.closed
