"""How a session ends (api.md, *Close*; durability.md, *Passivation*). In: an open session. Out: a closed one.

One rule: what is given back is given back last: log and lease, when nothing of the session is at work any more.
Known weakness: none known.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from a3s_code.core import project
from a3s_code.engine.active import ActiveRun
from a3s_code.engine.opening import session_end
from a3s_code.errors import LeaseLost, SessionClosed

if TYPE_CHECKING:
    from a3s_code.engine.session import EngineSession

DRAIN_S: Final = 5.0
"""How long the end of an operation waits for hooks in the background."""


async def end(session: EngineSession, run: ActiveRun | None, reason: str) -> None:
    """Once everything was told to stop."""
    if run is not None:
        await asyncio.wait([run.finished])
    await session.kernel.settled()
    await session_end(session.firing, reason)
    await session.firing.hooks.drained(DRAIN_S)
    session.firing.hooks.dropped()
    if session.parts.sandbox is not None:
        await session.parts.sandbox.aclose()
    await session.parts.callbacks.in_thread(session.writer.keep_shortcut)
    if session.seat is not None:
        await session.seat.inbox.closed()
        await session.seat.keeper.holding.release()
    session.writer.release()


async def passivated(session: EngineSession, deadline_ms: int | None) -> str | None:
    """Stops admitting, lets the step at work settle (or interrupts it at ``deadline_ms``, Unix time), keeps the session
    in its store, and closes it. The run at work stays open, a call that was interrupted without a result. A store that
    fails is raised when the session is closed: its log has everything."""
    session.closed = True
    run = session.active
    try:
        if run is not None:
            await _left(session, run, deadline_ms)
        if session.keeper is not None and (run is not None or session.parts.log.exists()):
            await session.hold()
            await session.keeper.save()
    finally:
        await session.close("passivated")
    left = session.writer.view.run
    return left.id if left is not None else None


async def _left(session: EngineSession, run: ActiveRun, deadline_ms: int | None) -> None:
    run.left = SessionClosed(
        f"Session '{session.parts.session_id}' was passivated; resume_run('{run.id}') goes on with its run anywhere"
    )
    if run.parked:
        run.token.cancel("the session was passivated")
    if deadline_ms is not None:
        left_s = max(0, deadline_ms - session.parts.clock.now_ms()) / 1000
        await asyncio.wait([run.finished], timeout=left_s)
        run.token.cancel("the session was passivated")
    await asyncio.wait([run.finished])


def put_away(session: EngineSession, run: ActiveRun) -> None:
    """A run's last event and its record, once nothing of it is at work. What a run came to is nobody's result if the
    store refused it."""
    if isinstance(run.left, LeaseLost) and run.held:
        run.held.clear()
        run.outcome = None
    run.end()
    if run.left is not None and run.outcome is None:
        run.error, run.parked = run.error or run.left, True
    elif run.closing and (run.outcome is None or run.outcome.status != "completed"):
        run.error = SessionClosed(f"Session '{session.parts.session_id}' is closed")
    if run.outcome is None and run.error is not None:
        run.emit(project.failed(str(run.error), run.error.code))
        if not run.parked:
            run.record.fail(run.error, session.parts.env.now_ms())
    if run.outcome is None and run.parked:
        run.record.status = "parked"
    session.control.end(run.id)
    run.fanout.end()
    run.owner = None
    session.active = None
