"""Limits that end a run. In: a view and the rules. Out: a Settle, or nothing.

One rule: a limit that is reached is named in the error, with its option.
Known weakness: the execution time limit is kept by the shell, which has a clock.
"""

from __future__ import annotations

from a3s_code.core.decide.settle import settle
from a3s_code.core.facts.runs import Failure
from a3s_code.core.rules import Rules
from a3s_code.core.state import View
from a3s_code.core.steps import Step


def rule(view: View, rules: Rules) -> Step | None:
    if view.budget_denied is not None:
        why = f"the tool budget of {view.budget_denied} results was used up"
        return settle(view, "completed", stop_reason="tool_budget", why=why)
    if view.parse_faults > rules.max_parse_retries:
        fault = next((s.call.fault for s in view.turn if s.call.fault), "malformed arguments")
        message = (
            f"The model sent malformed tool calls {view.parse_faults} times in a row "
            f"(max_parse_retries={rules.max_parse_retries}); the last: {fault}"
        )
        return settle(view, "failed", error=Failure("LLM_ERROR", message))
    if view.repeated is not None:
        name = view.repeated.split(" ", 1)[0]
        message = f"The model repeated a call to '{name}' that had been refused as a duplicate"
        return settle(view, "failed", error=Failure("DUPLICATE_TOOL_CALL", message))
    if view.rounds > rules.max_tool_rounds and not view.open_calls and view.ends_with == "results":
        return settle(view, "completed")
    return None
