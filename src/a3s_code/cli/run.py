"""``a3s-code run``. In: one prompt. Out: the run as it happens, an exit code, and how to go on.

One rule: the answer and its story go to the standard output, everything else to the standard error output.
Known weakness: a resumed run is watched from where it goes on; what came before is in ``a3s-code log show``.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Protocol

from a3s_code.api.agent import Agent
from a3s_code.api.result import AgentResult
from a3s_code.api.session import Session
from a3s_code.api.stream import EventStream
from a3s_code.cli.found import find_session
from a3s_code.cli.interrupts import Interrupts
from a3s_code.cli.narrate import Event
from a3s_code.cli.render import Renderer, choose_renderer
from a3s_code.cli.setup import Setup, command_line, notice, open_session, set_up, tell, workspace_of
from a3s_code.errors import CodeError


class Stoppable(Protocol):
    def cancel(self) -> bool: ...


def go(args: argparse.Namespace) -> int:
    workspace = workspace_of(args.workspace)
    prompt = _prompt(args)
    session_id = find_session(workspace, args.session) if args.session else None
    setup = set_up(workspace, args.config, args.model, os.environ)
    attachments = [{"path": str(Path(name).absolute())} for name in args.attach]
    if not args.json:
        tell(setup)
    try:
        return asyncio.run(_run(args, setup, session_id, prompt, attachments))
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


async def _run(
    args: argparse.Namespace, setup: Setup, session_id: str | None, prompt: str, attachments: list[dict[str, str]]
) -> int:
    async with await Agent.create_from_config_async(setup.config) as agent:
        session = await open_session(agent, setup, session_id, quiet=args.json)
        if args.resume:
            events = await _resumed(session)
            if events is None:
                notice(f"session {session.session_id} has no run that was left open")
                return 0
        else:
            events = await session.stream_async(prompt, attachments=attachments or None)
        with choose_renderer(sys.stdout, as_json=args.json) as renderer:
            code = await watch(events, session, renderer)
    if not args.json:
        _say_how_to_go_on(session.session_id, setup.workspace, code)
    return code


async def _resumed(session: Session) -> EventStream | None:
    last = session.current_run()
    if last is None:
        return None
    started = await session.resume_stream_async(str(last["id"]))
    return None if isinstance(started, AgentResult) else started


async def watch(events: AsyncIterator[Event], run: Stoppable, renderer: Renderer) -> int:
    """Shows a run to its end and gives its exit code. The first Ctrl-C interrupts it, the second leaves."""
    code = 1

    def interrupt() -> None:
        renderer.close()
        notice("interrupting (Ctrl-C again leaves at once)")
        run.cancel()

    with Interrupts(interrupt, renderer.close) as interrupts:
        async for event in events:
            renderer.render(event)
            if event.type == "agent_end":
                code = 130 if event.payload.get("stop_reason") == "cancelled" else 0
    return interrupts.code or code


def _say_how_to_go_on(session_id: str, workspace: Path, code: int) -> None:
    again = command_line("run", "--session", session_id, workspace=workspace)
    if code == 1:
        resume = command_line("run", "--resume", "--session", session_id, workspace=workspace)
        notice(f"session {session_id}: try the rest again with `{resume}`, or ask something else with `{again} PROMPT`")
    else:
        notice(f'session {session_id}: go on with `{again} "..."`')
