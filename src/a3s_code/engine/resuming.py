"""What a resume begins with (facts.md, *Resume*). In: the id of a run. Out: the fact that opens the run which goes on.

One rule: the log alone says what is left to do, once it holds what the run's checkpoint holds; nothing is opened over a
log that has nothing left.
Known weakness: none known.
"""

from __future__ import annotations

from typing import cast, get_args

import msgspec

from a3s_code.core.facts import RunOpened
from a3s_code.core.facts.runs import Cause, Closing
from a3s_code.core.state import ClosedRun, RunState, View
from a3s_code.engine import recovery
from a3s_code.engine.parts import Parts
from a3s_code.engine.persistence import Persistence
from a3s_code.engine.runs import RunBook
from a3s_code.engine.writer import Writer
from a3s_code.errors import CodeError


class Wanted(msgspec.Struct, frozen=True):
    """``recovery`` is the id under which a host wants the run's work to go on, whatever becomes of this process."""

    run_id: str
    accept_changes: bool = False
    recovery: str | None = None
    input_digest: str | None = None


async def opened(parts: Parts, writer: Writer, keeper: Persistence | None, wanted: Wanted) -> RunOpened | None:
    """``None`` when the log is quiescent. ``CONTEXT_ERROR`` when something else stands behind the run by now;
    ``SESSION_CONFIGURATION_ERROR`` or ``SESSION_ERROR`` when there is nothing to go on from."""
    checkpoint = None if keeper is None else await _rebuilt(keeper, wanted)
    if writer.view.seq == 0:
        raise _nothing(keeper, wanted.run_id)
    writer.acquire()
    earlier = recovery.last_run(writer.view)
    if earlier is None or recovery.is_quiescent(writer.view, parts.rules):
        if keeper is not None:
            await keeper.make_up(earlier.id if earlier else None, checkpoint)
        return None
    context = parts.context()
    if not wanted.accept_changes:
        recovery.check_context(earlier.context, context)
    if keeper is not None and wanted.recovery is None:
        keeper.goes_on(earlier.id, checkpoint)
    cause: Cause = "resume" if wanted.recovery is None else "recovery"
    new_id = wanted.recovery or parts.env.new_id()
    return RunOpened(new_id, cause, context, earlier.side, earlier.id, wanted.input_digest)


def last_result(view: View, book: RunBook) -> ClosedRun:
    """What a quiescent log came to. One that began with a snapshot's messages has no run of its own: then it is what
    the snapshot says of the last one, which is all but the number of its tool calls."""
    if view.closed is not None:
        return view.closed
    last = next(reversed(book.all()), None)
    if last is None or last.status not in get_args(Closing):
        raise CodeError("this session's log holds no run that could be resumed", "SESSION_ERROR")
    run = RunState(last.id, last.cause, prompt=last.prompt, steps=last.steps, usage=last.usage, text=last.text)
    return ClosedRun(run, cast(Closing, last.status), last.error, last.stop_reason or "done")


async def _rebuilt(keeper: Persistence, wanted: Wanted) -> str | None:
    """The run whose checkpoint there is: a recovery that was left behind goes on from its own."""
    for run_id in (wanted.recovery, wanted.run_id):
        if run_id is not None and await keeper.rebuild(run_id):
            return run_id
    return None


def _nothing(keeper: Persistence | None, run_id: str) -> CodeError:
    if keeper is None:
        return CodeError("resume_run requires a session_store on this session", "SESSION_CONFIGURATION_ERROR")
    return CodeError(f"no loop checkpoint found for run '{run_id}'", "SESSION_ERROR")
