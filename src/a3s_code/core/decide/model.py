"""When the model is called. In: a view without open calls, and the rules. Out: Infer, Continue, or Settle.

One rule: an answer in text that was not cut short ends the run.
Known weakness: a model that ends with nothing to say after its tools did the work is asked to go on.
"""

from __future__ import annotations

from a3s_code.core.content import AssistantMessage
from a3s_code.core.decide.settle import settle
from a3s_code.core.facts.runs import Failure
from a3s_code.core.rules import Rules
from a3s_code.core.state import View
from a3s_code.core.steps import Continue, Infer, Step

GO_ON_CUT = "Your answer was cut off by the output limit. Go on exactly where it stopped, without repeating anything."
GO_ON_EMPTY = "Your last answer was empty. Go on: call a tool, or give the answer in text."


def rule(view: View, rules: Rules) -> Step | None:
    if view.ends_with in ("user", "results"):
        return Infer(view.turns + 1, tools=view.rounds < rules.max_tool_rounds)
    if view.ends_with != "assistant" or view.run is None:
        return settle(view, "completed")
    empty = not last_text(view)
    if view.finish != "length" and not empty:
        return settle(view, "completed")
    if rules.continuation and view.continuations < rules.max_continuations:
        return Continue(GO_ON_EMPTY if empty else GO_ON_CUT)
    if empty and not view.run.text.strip() and view.run.tool_calls == 0:
        times = view.continuations + 1
        message = f"The model gave neither text nor a tool call, {times} time(s) in a row"
        return settle(view, "failed", error=Failure("LLM_ERROR", message))
    return settle(view, "completed")


def last_text(view: View) -> str:
    """The text of the message that the conversation ends with."""
    last = view.messages[-1] if view.messages else None
    return last.text.strip() if isinstance(last, AssistantMessage) else ""
