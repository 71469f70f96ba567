"""What facts mean to hooks. In: a fact of the run at work. Out: events for the next ``flush``.

One rule: a result is told because it was recorded, whoever recorded it.
Known weakness: the results of calls that ran together are told when all of them are there.
"""

from __future__ import annotations

from collections.abc import Container

from a3s_code.core.content import Json
from a3s_code.core.facts import ConfirmationAnswered, Fact, ModelTurn, ToolResulted
from a3s_code.core.state import View
from a3s_code.engine.firing import Firing
from a3s_code.engine.invoke.hooked import confirmation, ended, was_no_call


def of_fact(firing: Firing, fact: Fact, view: View, published: Container[str]) -> None:
    """``published`` are the calls whose confirmation was asked for."""
    match fact.data:
        case ToolResulted(source=None) as result:
            if firing.wants("post_tool_use"):
                _result(firing, fact.run, result, view)
        case ConfirmationAnswered() as answer:
            if answer.call in published:
                answered(firing, fact.run, answer, view)
        case ModelTurn(source="model") as turn:
            firing.tokens += turn.usage.total_tokens
        case _:
            return


def answered(firing: Firing, run_id: str, answer: ConfirmationAnswered, view: View) -> None:
    state = view.call(answer.call)
    if state is not None and firing.wants("on_confirmation"):
        call = state.call
        args = firing.filled_in(call.name, call.args)
        payload = confirmation(call.id, call.name, args, "answered", answer.approved, answer.reason)
        firing.note("on_confirmation", payload, run_id)


def _result(firing: Firing, run_id: str, result: ToolResulted, view: View) -> None:
    error = result.metadata.get("error")
    kind: Json = error.get("type") if isinstance(error, dict) else None
    state = view.call(result.call)
    if was_no_call(kind, began=state is not None and state.attempts > 0):
        return
    args = firing.filled_in(result.name, state.call.args) if state is not None else {}
    payload = ended(result.name, result.call, args, "agent", result.exit_code, result.output)
    firing.note("post_tool_use", payload | {"error_kind": kind, "duration_ms": result.took_ms}, run_id)
