"""What of a log can run again. In: its facts. Out: stretches, each with its rules, or why it is taken as recorded.

The log holds what happened and never what was configured, so rules are read off where a limit was reached; a limit
that was never reached is lifted, as it decided nothing.

One rule: a run is replayed in whole or not at all.
Known weakness: a run that was steered or compacted is not replayed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import msgspec

from a3s_code.core.facts import (
    BudgetDenied,
    CompactionDone,
    ConfirmationAnswered,
    Fact,
    ModelTurn,
    RunClosed,
    RunOpened,
    ToolResulted,
    UnknownData,
    UserSaid,
)
from a3s_code.core.fold import fold
from a3s_code.core.rules import Rules
from a3s_code.core.state import View

NEVER: Final = 2**31
OPEN: Final = "it was left open: its process ended, or is still at work"
CANCELLED: Final = "it was cancelled, and no log says at which moment"
_FROM_THE_LOOP: Final = frozenset({"STEP_LIMIT", "LLM_ERROR", "DUPLICATE_TOOL_CALL"})
_STEP_LIMIT: Final = re.compile(r"step_limit=(\d+)")
_PARSE_RETRIES: Final = re.compile(r"max_parse_retries=(\d+)")


class Stretch(msgspec.Struct, frozen=True):
    """The facts from ``start`` to before ``end`` (indexes), all of ``run``. With ``why`` they can't be replayed."""

    start: int
    end: int
    run: str
    rules: Rules
    why: str = ""


def stretches(facts: Sequence[Fact]) -> list[Stretch]:
    """The whole log in stretches, in order, without gaps."""
    found: list[Stretch] = []
    view = View()
    start = 0
    while start < len(facts):
        end = _end(facts, start)
        run = facts[start:end]
        rules, view = _rules(run, view)
        found.append(Stretch(start, end, facts[start].run, rules, _obstacle(run)))
        start = end
    return found


def _end(facts: Sequence[Fact], start: int) -> int:
    """Behind the closing fact of the run at ``start``, or where the next run begins."""
    for at in range(start, len(facts)):
        if at > start and isinstance(facts[at].data, RunOpened):
            return at
        if isinstance(facts[at].data, RunClosed):
            return at + 1
    return len(facts)


def _obstacle(run: Sequence[Fact]) -> str:
    closed = run[-1].data
    if not isinstance(run[0].data, RunOpened):
        return f"fact {run[0].seq} begins no run"
    if not isinstance(closed, RunClosed):
        return OPEN
    if closed.status == "cancelled":
        return CANCELLED
    if closed.error is not None and closed.error.code not in _FROM_THE_LOOP:
        return f"it failed with {closed.error.code}, which came from outside the loop"
    for fact in run:
        match fact.data:
            case UnknownData():
                return f"fact {fact.seq} is a {fact.kind}, which this version doesn't know"
            case CompactionDone() | UserSaid(source="steer") | ModelTurn(source="delegation"):
                return f"fact {fact.seq} is a {fact.kind} that came from outside the loop"
    return ""


def _rules(run: Sequence[Fact], view: View) -> tuple[Rules, View]:
    """What the run shows of its rules, and the view after it."""
    shown: dict[str, object] = {
        "tool_budget": None,
        "step_limit": NEVER,
        "max_tool_rounds": NEVER,
        "continuation": False,
        "max_parse_retries": NEVER,
        "duplicate_threshold": NEVER,
    }
    for fact in run:
        before, view = view, fold(view, fact)
        match fact.data:
            case BudgetDenied(limit=limit):
                shown["tool_budget"] = limit
            case UserSaid(source="continuation"):
                shown.update(continuation=True, max_continuations=view.continuations)
            case ModelTurn(calls=calls) if any(call.verdict.kind == "limit_exceeded" for call in calls):
                shown["max_tool_rounds"] = before.rounds
            case ConfirmationAnswered(call=call_id):
                state = before.call(call_id)
                if state is not None and not state.must_ask:
                    shown.update(unknown_outcome="ask", can_ask=True)
            case ToolResulted(outcome="unknown"):
                shown.setdefault("unknown_outcome", "report")
            case ToolResulted(outcome="blocked", call=call_id):
                if (state := before.call(call_id)) is not None:
                    shown["duplicate_threshold"] = before.recent.count(state.identity)
            case RunClosed(error=error) if error is not None:
                for name, pattern in (("step_limit", _STEP_LIMIT), ("max_parse_retries", _PARSE_RETRIES)):
                    if found := pattern.search(error.message):
                        shown[name] = int(found.group(1))
    return msgspec.convert(shown, Rules), view
