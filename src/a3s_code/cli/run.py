"""``a3s-code run``. In: one prompt. Out: the run as it happens, an exit code, and how to go on.

One rule: the answer and its story go to the standard output, everything else to the standard error output.
Known weakness: a resumed run is watched from where it goes on; what came before is in ``a3s-code log show``.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from a3s_code.api.result import AgentResult
from a3s_code.api.session import Session
from a3s_code.api.stream import EventStream
from a3s_code.cli.asking import PARKS, Answers, answers_for
from a3s_code.cli.found import find_session
from a3s_code.cli.governed import NOBODY, Governed, governed
from a3s_code.cli.interrupts import Interrupts
from a3s_code.cli.narrate import Event
from a3s_code.cli.render import Renderer, choose_renderer
from a3s_code.cli.setup import Setup, agent_of, command_line, notice, open_session, set_up, tell, workspace_of
from a3s_code.cli.stores import Chosen, named_store, with_store
from a3s_code.cli.waiting import say_what_waits, warn_of_what_waits
from a3s_code.errors import CodeError

WAITS = 3
"""The exit code of a run that was left open because something of it waits for an answer."""


class Watched(NamedTuple):
    """How a run ended for who watched it. ``refused`` says that a call was refused because nobody could be asked."""

    code: int
    refused: bool


class Task(NamedTuple):
    """What the session is asked, or with ``--resume`` nothing."""

    prompt: str
    session_id: str | None = None
    attachments: Sequence[Mapping[str, str]] = ()


class Stoppable(Protocol):
    def cancel(self) -> bool: ...


def go(args: argparse.Namespace) -> int:
    workspace = workspace_of(args.workspace)
    prompt = _prompt(args)
    chosen = named_store(args, os.environ)
    task = Task(prompt, attachments=[{"path": str(Path(name).absolute())} for name in args.attach])
    if args.session is not None and chosen is None:
        task = task._replace(session_id=find_session(workspace, args.session))
    elif args.session is not None:
        from a3s_code.cli.known import look_up  # loaded when a store is named

        task = task._replace(session_id=asyncio.run(look_up(workspace, chosen, args.session)).id)
    return work(args, workspace, chosen, task)


def work(args: argparse.Namespace, workspace: Path, chosen: Chosen | None, task: Task) -> int:
    """Sets up what the arguments of ``run`` say, and shows the run."""
    setup, rights = with_store(
        set_up(workspace, args.config, args.model, os.environ), governed(args, os.environ), chosen
    )
    if not args.json:
        tell(setup)
    try:
        return asyncio.run(_run(args, setup, rights, task))
    except asyncio.CancelledError:
        return 130


def _prompt(args: argparse.Namespace) -> str:
    if args.resume:
        if args.prompt is not None or args.attach or not args.session:
            raise CodeError("--resume goes with --session ID, and without a prompt", "INVALID_REQUEST")
        return ""
    if args.prompt is None:
        raise CodeError('what is to be done? a3s-code run "PROMPT" (- reads it from standard input)', "INVALID_REQUEST")
    text: str = sys.stdin.read() if args.prompt == "-" else args.prompt
    if not text.strip():
        raise CodeError("the prompt is empty", "INVALID_REQUEST")
    return text


async def _run(args: argparse.Namespace, setup: Setup, rights: Governed, task: Task) -> int:
    async with agent_of(setup) as agent:
        session = await open_session(agent, setup, task.session_id, rights.options(), quiet=args.json)
        if args.resume:
            events = await _resumed(session)
            if events is None:
                notice(f"session {session.session_id} has no run that was left open")
                return 0
        else:
            if not args.json:
                warn_of_what_waits(session, setup.workspace, rights.words)
            events = await session.stream_async(task.prompt, attachments=task.attachments or None)
        with choose_renderer(sys.stdout, as_json=args.json) as renderer:
            watched = await watch(events, session, renderer, answers_for(session, rights))
        if watched.code == WAITS:
            await leave_open(session, setup.workspace, rights)
            return WAITS
    if not args.json:
        if watched.refused:
            notice(NOBODY)
        _say_how_to_go_on(session.session_id, setup.workspace, rights, watched.code)
    return watched.code


async def _resumed(session: Session) -> EventStream | None:
    last = session.current_run()
    if last is None:
        return None
    started = await session.resume_stream_async(str(last["id"]))
    return None if isinstance(started, AgentResult) else started


async def watch(events: AsyncIterator[Event], run: Stoppable, renderer: Renderer, answers: Answers) -> Watched:
    """Shows a run to its end, asking what it asks, and gives its exit code; ``WAITS`` when nobody answered. The first
    Ctrl-C interrupts the run, the second leaves."""
    code, refused = 1, False
    answers.begin()

    def interrupt() -> None:
        renderer.close()
        answers.interrupt()
        notice("interrupting (Ctrl-C again leaves at once)")
        run.cancel()

    with Interrupts(interrupt, renderer.close) as interrupts:
        async for event in events:
            renderer.render(event)
            if event.type == "agent_end":
                code = 130 if event.payload.get("stop_reason") == "cancelled" else 0
            elif event.type == "tool_end":
                refused = refused or _nobody_was_asked(event)
            elif event.type in PARKS:
                renderer.close()
                if await answers.take(event) == "left":
                    code = WAITS
                    break
    return Watched(interrupts.code or code, refused)


def _nobody_was_asked(event: Event) -> bool:
    metadata = event.payload.get("metadata")
    error = metadata.get("error") if isinstance(metadata, dict) else None
    return isinstance(error, dict) and error.get("type") == "confirmation_unavailable"


async def leave_open(session: Session, workspace: Path, rights: Governed) -> None:
    """Closes the session while its run waits, so that the run stays open in the log, and says how to answer."""
    waiting = [*session.pending_confirmations(), *session.pending_questions()]
    await session.close_async()
    say_what_waits(session.session_id, waiting, workspace, rights.words)


def _say_how_to_go_on(session_id: str, workspace: Path, rights: Governed, code: int) -> None:
    again = command_line("run", "--session", session_id, *rights.words, workspace=workspace)
    if code == 1:
        resume = command_line("run", "--resume", "--session", session_id, *rights.words, workspace=workspace)
        notice(f"session {session_id}: try the rest again with `{resume}`, or ask something else with `{again} PROMPT`")
    else:
        notice(f'session {session_id}: go on with `{again} "..."`')
