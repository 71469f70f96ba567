"""A log once more through the loop. In: its header and lines. Out: whether every fact comes out byte for byte the same.

The recorded model turns, tool results and answers are given again to the engine itself; ids and times are the recorded
ones. Runs that depend on what no log holds (``stretches``) are taken as recorded, and the report says which.

One rule: the first fact that differs ends the replay; nothing after it is claimed.
Known weakness: retries that led to a recorded turn leave no facts, so they are not replayed either.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from a3s_code.core.codec import Header, Line
from a3s_code.core.content import JsonObject
from a3s_code.core.facts import ConfirmationAnswered, QuestionAnswered, RunOpened, UserSaid
from a3s_code.core.fold import fold_all
from a3s_code.core.history import history
from a3s_code.core.policy import ConfirmationPolicy
from a3s_code.core.rules import Rules
from a3s_code.engine.active import ActiveRun
from a3s_code.engine.parts import Governance, Labels, Limits, ModelSettings, Parts
from a3s_code.engine.replay.hooks import PlayedHooks
from a3s_code.engine.replay.players import Inline, PlayedBlobs, PlayedModel, PlayedTime, PlayedTools, played_workspace
from a3s_code.engine.replay.stretches import Stretch, stretches
from a3s_code.engine.replay.tape import Difference, Left, Tape
from a3s_code.engine.resuming import Wanted
from a3s_code.engine.session import EngineSession
from a3s_code.errors import CodeError
from a3s_code.ports.tasks import spawn

_LOOK_AGAIN_S = 0.5  # how often a run is looked at that may wait for an answer nobody gave


class Taken(msgspec.Struct, frozen=True):
    """Facts ``first`` to ``last`` of a run that was not replayed."""

    first: int
    last: int
    run: str
    why: str


class Replayed(msgspec.Struct, frozen=True):
    """``same`` facts came out as they are in the log, of ``total``; without a ``difference`` the rest was ``taken``."""

    total: int
    same: int
    taken: tuple[Taken, ...] = ()
    difference: Difference | None = None


async def replay(header: Header, lines: Sequence[Line]) -> Replayed:
    """Plays the whole log; nothing outside this process is touched."""
    tape = Tape(header, lines)
    session = EngineSession(_parts(header, tape))
    tape.on_move = lambda: _answer(session, tape)
    taken: list[Taken] = []
    same = 0
    for stretch in stretches([line.fact for line in lines]):
        if stretch.why:
            tape.take(stretch.end)
            session.writer.acquire()
            taken.append(Taken(stretch.start + 1, stretch.end, stretch.run, stretch.why))
            continue
        await _play(session, tape, stretch)
        same += tape.at - stretch.start
        if tape.difference is not None:
            break
    await session.close()
    return Replayed(len(lines), same, tuple(taken), tape.difference)


def _parts(header: Header, tape: Tape) -> Parts:
    tools, time = PlayedTools(tape), PlayedTime(tape)
    return Parts(
        session_id=header.session_id,
        labels=Labels(),
        workspace=played_workspace(tape),
        log=tape,
        blobs=PlayedBlobs(tape),
        env=tape,
        clock=time,
        entropy=time,
        callbacks=Inline(),
        model=PlayedModel(tape),
        model_settings=ModelSettings("replay"),
        system=str,
        toolbox=tools,
        hooks=PlayedHooks(tape),
        judge=tools.judge,
        context=tape.context,
        rules=Rules(),
        governance=Governance(confirmations=ConfirmationPolicy(), guarded=False, as_recorded=True),
        limits=Limits(runs=1, events=1, event_bytes=1024, traces=1),
        durable=False,
    )


async def _play(session: EngineSession, tape: Tape, stretch: Stretch) -> None:
    session.parts = replace(session.parts, rules=stretch.rules)
    tape.end = stretch.end
    try:
        run = await _begin(session, tape, stretch)
    except Left:
        return
    except CodeError as error:
        tape.left(f"the loop refuses the run: {error}")
        return
    while not run.finished.done():
        await asyncio.wait([run.finished], timeout=_LOOK_AGAIN_S)
        if run.parked and not isinstance(tape.next, ConfirmationAnswered | QuestionAnswered):
            tape.left("the loop waits for an answer that the log doesn't have")
            run.token.cancel("the replay left the record")
    if tape.at < stretch.end:
        tape.left("the run ends before the recorded one does")


async def _begin(session: EngineSession, tape: Tape, stretch: Stretch) -> ActiveRun:
    facts = [line.fact for line in tape.lines[stretch.start : stretch.end]]
    opened = facts[0].data
    if not isinstance(opened, RunOpened):
        raise tape.left("a run begins without being opened")
    if opened.resumes is not None:
        tape.give_run_id(opened.run)
        resumed = await session.resume(Wanted(opened.resumes, accept_changes=True))
        if not isinstance(resumed, ActiveRun):
            raise tape.left("the loop finds nothing to resume")
        return resumed
    at = next((i for i, f in enumerate(facts) if isinstance(f.data, UserSaid) and f.data.source == "prompt"), None)
    prompt = facts[at].data if at is not None else None
    if at is None or not isinstance(prompt, UserSaid):
        raise tape.left("a run begins without a prompt")
    messages: list[JsonObject] | None = history(fold_all(facts[1:at])) if opened.side else None
    attachments = prompt.attachments
    return await session.begin(
        prompt.text,
        cause=opened.cause,
        messages=messages,
        attach=lambda: attachments,
        run_id=opened.run,
        input_digest=opened.input_digest,
    )


def _answer(session: EngineSession, tape: Tape) -> None:
    """Gives the answer that the log holds next, as a host did then."""
    match tape.next:
        case ConfirmationAnswered(call=call, approved=approved, reason=reason):
            spawn(session.confirm(call, approved, reason), "replay answer")
        case QuestionAnswered(call=call, answer=answer):
            spawn(session.answer(call, answer), "replay answer")
