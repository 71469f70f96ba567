"""``a3s-code answer``. In: a session, a call of it, an answer. Out: the answer in the log, or posted to its holder.

One rule: nothing runs here; the answer is a fact, and `run --resume` goes on with it. A session that somebody holds, or
that only a store has, is asked through the store.
Known weakness: without a store a session that is open in a living program is answered there.
"""

from __future__ import annotations

import argparse
import asyncio
import os
from pathlib import Path
from typing import Any

from a3s_code.api.agent import Agent
from a3s_code.cli.asking import answer_of
from a3s_code.cli.found import find_log, holder_of, id_of
from a3s_code.cli.setup import workspace_of
from a3s_code.cli.stores import Chosen, chosen_store, opened
from a3s_code.cli.waiting import Waiting, say_what_waits, waiting_in, waiting_of
from a3s_code.config.model import OFFLINE, SCOUT
from a3s_code.errors import CodeError
from a3s_code.system.clock import SystemClock

_YES = frozenset({"y", "yes"})
_NO = frozenset({"n", "no"})


def go(args: argparse.Namespace) -> int:
    workspace = workspace_of(args.workspace)
    stored = chosen_store(args, workspace, os.environ)
    if stored is not None and (code := asyncio.run(_posted(workspace, stored, args))) is not None:
        return code
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


async def _posted(workspace: Path, stored: Chosen, args: argparse.Namespace) -> int | None:
    """The exit code; ``None`` when the log is here and nobody has the session's lease."""
    from a3s_code.cli.control import post, tell  # loaded when there is a store
    from a3s_code.cli.known import find_known, view_of  # the same

    async with opened(stored) as store:
        if store is None:
            return None
        known = await find_known(workspace, store, args.session, SystemClock().now_ms())
        if known.lease is None and known.log is not None:
            return None
        view = await view_of(known, store)
        receipt = await post(store, known.id, _request(waiting_of(view) if view else [], known.id, args), args.wait)
    return tell(known, receipt, args.wait, as_json=args.json)


def _request(waiting: list[Waiting], session: str, args: argparse.Namespace) -> dict[str, Any]:
    """What is posted. A call that isn't known here, as its log is elsewhere, is taken by its whole id."""
    if not waiting:
        if (word := args.answer.strip().lower()) not in _YES | _NO:
            return {"kind": "answer", "tool_id": args.call, "answer": args.answer.strip()}
        return {"kind": "confirm", "tool_id": args.call, "approved": word in _YES, "reason": args.reason}
    chosen = _chosen(waiting, args.call, session)
    decision = _decision(chosen, args.answer, args.reason)
    if decision is None:
        text = answer_of(args.answer.strip(), chosen.asked.get("options"))
        return {"kind": "answer", "tool_id": chosen.call, "answer": text}
    return {"kind": "confirm", "tool_id": chosen.call, "approved": decision, "reason": args.reason}


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
