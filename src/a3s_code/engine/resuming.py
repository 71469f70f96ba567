"""What a resume begins with (facts.md, *Resume*). In: a log that was read. Out: the fact that opens the new run.

One rule: the log alone says what is left to do; nothing is opened over a log that has nothing left.
Known weakness: none known.
"""

from __future__ import annotations

from a3s_code.core.facts import RunOpened
from a3s_code.core.facts.runs import Cause
from a3s_code.engine import recovery
from a3s_code.engine.parts import Parts
from a3s_code.engine.writer import Writer
from a3s_code.errors import CodeError


def opened(
    parts: Parts, writer: Writer, run_id: str, *, accept_changes: bool, cause: Cause, new_id: str | None = None
) -> RunOpened | None:
    """``None`` when the log is quiescent. ``CONTEXT_ERROR`` when something else stands behind the run by now;
    ``SESSION_CONFIGURATION_ERROR`` or ``SESSION_ERROR`` when there is nothing to go on from."""
    if writer.view.seq == 0:
        if parts.keeping is None:
            message = "resume_run requires a session_store on this session"
            raise CodeError(message, "SESSION_CONFIGURATION_ERROR")
        raise CodeError(f"no loop checkpoint found for run '{run_id}'", "SESSION_ERROR")
    writer.acquire()
    view = writer.view
    earlier = recovery.last_run(view)
    if earlier is None or recovery.is_quiescent(view, parts.rules):
        return None
    context = parts.context()
    if not accept_changes:
        recovery.check_context(earlier.context, context)
    return RunOpened(new_id or parts.env.new_id(), cause, context, earlier.side, earlier.id)
