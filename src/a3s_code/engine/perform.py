"""Each step to its doer. In: a step the core chose. Out: the fact that records what came of it.

One rule: one branch a step; what takes more than a line is a module of its own.
Known weakness: none known.
"""

from __future__ import annotations

from typing import assert_never

from a3s_code.core.facts import BudgetDenied, RunClosed, ToolResulted, UserSaid
from a3s_code.core.steps import (
    Compact,
    Confirm,
    Continue,
    Deny,
    Idle,
    Infer,
    Question,
    Record,
    Recorded,
    Run,
    Settle,
    Step,
)
from a3s_code.engine import approvals, model_call, tool_calls
from a3s_code.engine.active import ActiveRun
from a3s_code.errors import CodeError


async def perform(run: ActiveRun, step: Step) -> None:
    """Does what ``step`` says. Raises ``Interrupted`` when the run's token fired, ``CodeError`` when it failed."""
    match step:
        case Infer():
            await model_call.infer(run, step)
        case Run():
            await tool_calls.run_batch(run, step.calls)
        case Record():
            run.append(*(result_of(item) for item in step.results))
        case Confirm():
            await approvals.park(run, step.calls)
        case Question():
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
    open_run = run.view.run
    steps = open_run.steps if open_run else 0
    closed = RunClosed(step.status, steps, step.error, step.stop_reason)
    run.append(*(result_of(item) for item in step.results), closed)
    await run.durable()
    run.outcome = run.view.closed


def result_of(item: Recorded) -> ToolResulted:
    """The fact for a call that gets its result without running."""
    metadata = dict(item.metadata)
    if item.kind:
        metadata["error"] = {"type": item.kind, "message": item.output}
    exit_code = {"ok": 0, "cancelled": 130}.get(item.outcome, 1)
    return ToolResulted(item.call.id, item.call.name, item.output, exit_code, item.outcome, metadata)
