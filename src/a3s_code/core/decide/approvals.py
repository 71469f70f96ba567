"""Calls that wait for a person. In: a view and the rules. Out: Confirm, Question, or nothing.

One rule: a call that asks parks only itself and what comes after it; everything before it has settled first.
Known weakness: none known.
"""

from __future__ import annotations

from a3s_code.core.content import Call
from a3s_code.core.rules import Rules
from a3s_code.core.state import CallState, View
from a3s_code.core.steps import Confirm, Question, Step

ASK_USER = "ask_user"


def rule(view: View, rules: Rules) -> Step | None:
    waiting = view.open_calls
    if not waiting or budget_left(view, rules) == 0:
        return None
    first = waiting[0]
    if is_question(first):
        return Question(first.call) if first.answer is None else None
    if asks(first, rules):
        return Confirm(tuple(state.call for state in waiting if asks(state, rules)))
    return None


def is_question(state: CallState) -> bool:
    return asks_person(state.call)


def asks_person(call: Call) -> bool:
    """Whether a call is a question put to the host. A rule that would have it confirmed adds nothing: whoever could
    confirm answers it. Without a question it is run like any other call, which says what is missing."""
    return call.name == ASK_USER and call.verdict.decision != "deny" and isinstance(call.args.get("question"), str)


def asks(state: CallState, rules: Rules) -> bool:
    """Whether this call needs an answer that is not there. One that began and was interrupted had its answer; it
    asks again only under ``unknown_outcome="ask"``."""
    if state.approved is not None or is_question(state):
        return False
    if state.must_ask:
        return True
    return state.attempts > 0 and state.rerun == "unsafe" and rules.unknown_outcome == "ask" and rules.can_ask


def budget_left(view: View, rules: Rules) -> int | None:
    """How many more successful results the tool budget takes; ``None`` without a budget."""
    return None if rules.tool_budget is None else max(0, rules.tool_budget - view.used)
