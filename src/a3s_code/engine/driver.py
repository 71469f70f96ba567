"""The only loop. In: a run that was opened on the log. Out: the same run, settled (or parked, when closing).

One rule: the core chooses each step and ``perform`` does it; nothing here knows what a step is about.
Known weakness: none known.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from a3s_code.core.decide import next_step
from a3s_code.core.decide.settle import settle
from a3s_code.core.facts import RunClosed
from a3s_code.core.facts.runs import Failure
from a3s_code.core.steps import Idle, Settle, Step
from a3s_code.engine.active import ActiveRun
from a3s_code.engine.control import Control
from a3s_code.engine.heartbeat import Heartbeat
from a3s_code.engine.perform import perform
from a3s_code.engine.token import Interrupted
from a3s_code.engine.tool_calls import result_of
from a3s_code.errors import CodeError, LeaseLost, StoreError


async def drive(run: ActiveRun, control: Control) -> None:
    """Advances the run until its log is quiescent; ``control`` holds what steers it. A failing step settles the run as
    failed and is kept in ``run.error``; a failing log is raised, since nothing more can be recorded."""
    while True:
        if run.firing.noted:
            await run.firing.flush(run.token)
        if run.left is not None:
            return
        step = _stop(run) if run.token.is_cancelled() else next_step(run.view, run.rules)
        if step is None or isinstance(step, Idle):
            return
        try:
            if run.keeper is not None and not run.keeper.is_sure() and not run.token.is_cancelled():
                await run.keeper.made_sure(run)
                continue
            if not control.apply(run, step):
                await perform(run, step)
            if not run.results_kept and run.keeper is not None:
                await run.keeper.checkpoint(run)
        except Interrupted:
            continue
        except (StoreError, LeaseLost):
            raise
        except CodeError as error:
            run.error = error
            await perform(run, settle(run.view, "failed", error=Failure(error.code, str(error))))


async def drive_to_its_end(
    run: ActiveRun, control: Control, first: Callable[[], Awaitable[None]] | None = None
) -> None:
    """The same, with ``first`` before it, and whatever happens kept in ``run.error``."""
    run.worktime.start()
    heartbeat = Heartbeat(run)
    heartbeat.start()
    try:
        if first is not None:
            await first()
        await drive(run, control)
    except CodeError as error:
        run.error = error
    except asyncio.CancelledError:
        run.error = CodeError("The event loop was stopped while the run was at work", "CLOSED")
        _close_now(run, Failure("CLOSED", str(run.error)))
        raise
    except Exception as error:  # noqa: BLE001  a fault of ours must end the run, not the session
        run.error = CodeError(f"{type(error).__name__}: {error}")
        run.error.__cause__ = error
        _close_now(run, Failure("INTERNAL_ERROR", str(run.error)))
    finally:
        run.worktime.pause()
        heartbeat.stop()


def _close_now(run: ActiveRun, why: Failure) -> None:
    """Settles without waiting, where the log still takes it; else the next prompt settles the run."""
    try:
        if run.view.run is not None:
            step = settle(run.view, "failed", error=why)
            run.append(*(result_of(item) for item in step.results), RunClosed("failed", run.view.run.steps, why))
    except (StoreError, LeaseLost) as error:
        run.error = error


def _stop(run: ActiveRun) -> Settle | Step | None:
    """How a cancelled run ends; a run that is parked while its session closes stays as it is."""
    if run.view.run is None:
        return None
    if run.closing and run.parked:
        return None
    if run.deadline_hit:
        limit = run.parts.max_execution_time_ms
        message = f"The run worked longer than max_execution_time_ms={limit} allows"
        return settle(run.view, "failed", error=Failure("DEADLINE_EXCEEDED", message))
    return settle(run.view, "cancelled", why=run.token.reason or "the run was interrupted")
