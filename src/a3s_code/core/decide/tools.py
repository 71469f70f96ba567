"""Calls that have no result. In: a view and the rules. Out: Record, Run, Deny, or nothing.

One rule: calls are looked at in call order; what is refused gets its result without running.
Known weakness: none known.
"""

from __future__ import annotations

from a3s_code.core.content import Call, Json, JsonObject
from a3s_code.core.decide.approvals import budget_left, is_question
from a3s_code.core.decide.settle import unknown
from a3s_code.core.facts.tools import Outcome
from a3s_code.core.groups import together
from a3s_code.core.rules import Rules
from a3s_code.core.state import DUPLICATE_WINDOW, CallState, View
from a3s_code.core.steps import Deny, Record, Recorded, Run, Step

ROUNDS_USED_UP = "No tools are left in this turn (max_tool_rounds): answer in text"
_OUTCOMES: dict[str, Outcome] = {"unknown_tool": "error", "invalid_argument": "error", "cancelled": "cancelled"}


def refusals(view: View, rules: Rules) -> Step | None:
    """Denied and malformed calls get their result at once, wherever they stand in the turn."""
    waiting = view.open_calls
    if not waiting:
        return None
    too_late = view.rounds > rules.max_tool_rounds
    refused = tuple([r for state in waiting if (r := _refused_outright(state, too_late)) is not None])
    if refused:
        return Record(refused)
    if (recorded := _refused_in_turn(waiting[0], view, rules)) is not None:
        return Record((recorded,))
    return None


def rule(view: View, rules: Rules) -> Step | None:
    """Runs what is next, as many together as may be and as the tool budget still takes."""
    waiting = view.open_calls
    if not waiting:
        return None
    left = budget_left(view, rules)
    if left == 0 and rules.tool_budget is not None:
        return Deny(waiting[0].call, rules.tool_budget, view.used)
    group = _group(waiting, view.recent, rules.duplicate_threshold)
    return Run(group[:left] or (waiting[0].call,))


def _group(waiting: tuple[CallState, ...], recent: tuple[str, ...], threshold: int) -> tuple[Call, ...]:
    """The calls that begin ``waiting`` and may run together, up to one that the others make a duplicate."""
    group: list[Call] = []
    for state in waiting:
        if not together(state) or state.attempts or is_question(state) or recent.count(state.identity) >= threshold:
            break
        group.append(state.call)
        recent = (*recent, state.identity)[-DUPLICATE_WINDOW:]
    return tuple(group)


def _refused_outright(state: CallState, too_late: bool) -> Recorded | None:
    """``too_late`` says that the turns with calls are used up."""
    call = state.call
    if call.fault is not None:
        text = f"Arguments for tool '{call.name}' are not a JSON object: {call.fault}"
        return Recorded(call, "error", text, "invalid_argument")
    if call.verdict.decision == "deny":
        if state.attempts and state.rerun == "unsafe":
            return unknown(state)
        kind = call.verdict.kind or "permission_denied"
        return Recorded(call, _OUTCOMES.get(kind, "denied"), call.verdict.reason, kind, call.verdict.permission())
    if too_late and state.attempts == 0:
        return Recorded(call, "denied", ROUNDS_USED_UP, "limit_exceeded")
    return None


def _refused_in_turn(state: CallState, view: View, rules: Rules) -> Recorded | None:
    """Refusals that depend on what came before; asked for the first open call only."""
    call = state.call
    if state.approved is False:
        if state.attempts:
            return unknown(state)
        text = f"Rejected: {state.reject_reason or 'no reason given'}"
        return Recorded(call, "denied", text, "confirmation_rejected", call.verdict.permission())
    if state.attempts and state.rerun == "unsafe" and state.approved is None and _report_unknown(rules):
        return unknown(state)
    if is_question(state):
        return _question(state, view, rules)
    times = view.recent.count(state.identity)
    if state.attempts == 0 and times >= rules.duplicate_threshold:
        text = (
            f"Refused: identical call to '{call.name}' already ran {times} times in the last {DUPLICATE_WINDOW} "
            "calls; change the arguments or use the earlier result"
        )
        return Recorded(call, "blocked", text, "duplicate_call")
    return None


def _question(state: CallState, view: View, rules: Rules) -> Recorded | None:
    if view.run is not None and view.run.questions >= rules.question_cap:
        return Recorded(state.call, "error", "ask_user question cap exceeded", "limit_exceeded")
    if state.answer is None or budget_left(view, rules) == 0:
        return None
    metadata: JsonObject = {"question_id": state.call.id, "answer": state.answer, "selected": _selected(state)}
    return Recorded(state.call, "ok", state.answer, "", metadata)


def _selected(state: CallState) -> list[Json]:
    """The offered options that the answer names; an answer in free words selects none."""
    options = state.call.args.get("options")
    if not isinstance(options, list) or state.answer is None:
        return []
    labels = [option.get("label") if isinstance(option, dict) else option for option in options]
    named = {part.strip() for part in state.answer.split(",")} | {state.answer}
    return [label for label in labels if label in named]


def _report_unknown(rules: Rules) -> bool:
    return rules.unknown_outcome == "report" or (rules.unknown_outcome == "ask" and not rules.can_ask)
