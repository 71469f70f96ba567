"""Calls that wait for a person. In: parked calls; answers from anywhere. Out: answer facts, and the run goes on.

One rule: an answer is a fact that names call and argument digest; nothing is answered by default or twice.
Known weakness: an answer from another process while this one lives comes with the stores' control inbox.
"""

from __future__ import annotations

from collections.abc import Set
from copy import deepcopy

from a3s_code.core import project
from a3s_code.core.content import Call, JsonObject
from a3s_code.core.decide.approvals import asks, is_question
from a3s_code.core.digest import args_digest
from a3s_code.core.facts import ConfirmationAnswered, QuestionAnswered
from a3s_code.core.rules import Rules
from a3s_code.core.state import CallState, View
from a3s_code.engine import points
from a3s_code.engine.active import ActiveRun

BEGAN_BEFORE = (
    "This call had begun when the run was interrupted; whether it took effect is not known. Approve it to run it once "
    "more, or reject it to have the model look at the present state first."
)


async def park(run: ActiveRun, calls: tuple[Call, ...]) -> None:
    """Publishes what is asked, once each, and waits until the log changes. Nothing but an answer, a cancel or a close
    ends the wait; one that comes before the event is published counts too."""
    at = run.view.seq
    await run.durable()
    news = [call for call in calls if call.id not in run.published]
    for call in news:
        state = run.view.call(call.id)
        if state is not None:
            run.published.add(call.id)
            run.emit(deepcopy(project.parked(call, why_asked(state))))  # what a reader does to it is its own affair
    run.parked, run.record.status = True, "parked"
    run.worktime.pause()
    try:
        await points.confirmations_required(run, news)
        while run.view.seq == at and run.left is None:
            run.answered.clear()
            await run.token.guard(run.answered.wait())
    finally:
        if not run.token.is_cancelled():
            run.parked, run.record.status = False, "running"
            run.worktime.start()


def why_asked(state: CallState) -> str:
    """What the host is told: the verdict's reason, or that the call may have had its effect already."""
    return BEGAN_BEFORE if state.attempts and not state.must_ask else state.call.verdict.reason


def pending_confirmations(view: View, rules: Rules, begun: Set[str] = frozenset()) -> list[JsonObject]:
    """What waits for ``confirm_tool_use``, in call order. ``begun`` are the calls that the run at work has begun: the
    log can't tell those from calls that were interrupted."""
    waiting = [state for state in view.open_calls if asks(state, rules) and state.call.id not in begun]
    return [
        {
            "tool_id": state.call.id,
            "tool_name": state.call.name,
            "args": state.call.args,
            "reason": why_asked(state),
            "run_id": view.run.id if view.run else None,
            "since_ms": view.turn_ms,
            **project.escalation(state.call.verdict),
        }
        for state in waiting
    ]


def pending_questions(view: View) -> list[JsonObject]:
    """What waits for ``answer_question``."""
    waiting = [state for state in view.open_calls if is_question(state) and state.answer is None]
    return [
        {
            "tool_id": state.call.id,
            "question": state.call.args.get("question"),
            "options": state.call.args.get("options"),
            "multi_select": bool(state.call.args.get("multi_select", False)),
            "run_id": view.run.id if view.run else None,
            "since_ms": view.turn_ms,
        }
        for state in waiting
    ]


def confirmation(
    view: View, rules: Rules, begun: Set[str], call_id: str, approved: bool, reason: str | None
) -> ConfirmationAnswered | None:
    """The fact for an answer, or ``None`` when that call does not wait."""
    state = view.call(call_id)
    if state is None or not state.open or call_id in begun or not asks(state, rules):
        return None
    return ConfirmationAnswered(call_id, args_digest(state.call.args), approved, reason)


def answer(view: View, call_id: str, text: str) -> QuestionAnswered | None:
    """The fact for an answer, or ``None`` when that question does not wait."""
    state = view.call(call_id)
    if state is None or not state.open or not is_question(state) or state.answer is not None:
        return None
    return QuestionAnswered(call_id, text)
