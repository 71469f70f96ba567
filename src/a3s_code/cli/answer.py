"""``a3s-code answer``. In: a session whose program is gone, a call of it, an answer. Out: the answer in the log.

One rule: nothing runs here; the answer is a fact, and `run --resume` goes on with it.
Known weakness: a session that is open in a living program is answered there.
"""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path

from a3s_code.api.agent import Agent
from a3s_code.cli.asking import answer_of
from a3s_code.cli.found import find_log, holder_of, id_of
from a3s_code.cli.setup import workspace_of
from a3s_code.cli.waiting import Waiting, say_what_waits, waiting_in
from a3s_code.config.model import OFFLINE, SCOUT
from a3s_code.errors import CodeError

_YES = frozenset({"y", "yes"})
_NO = frozenset({"n", "no"})


def go(args: argparse.Namespace) -> int:
    workspace = workspace_of(args.workspace)
    path = find_log(workspace, args.session)
    session = id_of(path)
    if (holder := holder_of(path)) is not None:
        raise CodeError(f"session {session} is open in process {holder}: answer there", "SESSION_BUSY")
    waiting = waiting_in(path)
    chosen = _chosen(waiting, args.call, session)
    decision = _decision(chosen, args.answer, args.reason)
    if not asyncio.run(_append(workspace, session, chosen, decision, args.answer, args.reason)):
        raise CodeError(f"{args.call} doesn't wait any more", "INVALID_REQUEST")
    told = "answered" if decision is None else "approved" if decision else "rejected"
    print(f"{told}: {chosen.words}")
    say_what_waits(session, [each.asked for each in waiting if each is not chosen], workspace)
    return 0


def _chosen(waiting: list[Waiting], given: str, session: str) -> Waiting:
    """The call with this id, or the only one whose id begins so."""
    exact = [each for each in waiting if each.call == given]
    found = exact or [each for each in waiting if each.call.startswith(given)]
    if len(found) == 1:
        return found[0]
    if found:
        raise CodeError(f"{given!r} begins several: {', '.join(each.call for each in found)}", "INVALID_REQUEST")
    known = ", ".join(each.call for each in waiting) or "nothing"
    raise CodeError(f"no call {given!r} waits in session {session}; there waits: {known}", "INVALID_REQUEST")


def _decision(chosen: Waiting, answer: str, reason: str | None) -> bool | None:
    """``None`` for a question."""
    if chosen.question:
        if reason is not None or not answer.strip():
            raise CodeError("a question is answered by a text, without --reason", "INVALID_REQUEST")
        return None
    word = answer.strip().lower()
    if word not in _YES | _NO:
        raise CodeError(f"a call is answered by yes or no, got {answer!r:.60}", "INVALID_REQUEST")
    return word in _YES


async def _append(
    workspace: Path, session_id: str, chosen: Waiting, decision: bool | None, answer: str, reason: str | None
) -> bool:
    """No model is asked for anything, so none has to be configured."""
    agent = await Agent.create_from_config_async({"default_model": f"{OFFLINE}/{SCOUT}"})
    async with agent:
        session = await agent.session_async(workspace, {"session_id": session_id})
        if decision is None:
            text = answer_of(answer.strip(), chosen.asked.get("options"))
            return await session.answer_question_async(chosen.call, text)
        return await session.confirm_tool_use_async(chosen.call, decision, reason)
