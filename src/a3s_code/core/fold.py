"""Facts to view. In: a view and the next fact. Out: the view after it.

One rule: ``fold`` is total: a fact that makes no sense where it stands (a result nobody waits for, a second answer,
an unknown kind) changes nothing but ``seq``.
Known weakness: the carried size is counted in characters, so a token estimate is only an estimate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from msgspec.structs import replace

from a3s_code.core.content import AssistantMessage, Call, Message, ToolMessage, UserMessage
from a3s_code.core.digest import args_digest, call_identity
from a3s_code.core.facts import (
    BudgetDenied,
    CallJudged,
    CompactionDone,
    ConfirmationAnswered,
    Fact,
    ModelTurn,
    QuestionAnswered,
    RunClosed,
    RunOpened,
    ToolResulted,
    ToolStarted,
    UserSaid,
)
from a3s_code.core.facts.tools import Outcome
from a3s_code.core.foldcompaction import compacted
from a3s_code.core.groups import counts_as_step
from a3s_code.core.state import DUPLICATE_WINDOW, CallState, ClosedRun, RunState, View

MISSING_RESULT = "No result was recorded for this call."


def fold(view: View, fact: Fact) -> View:
    """The view after ``fact``. Costs the same at any length of the log."""
    handler = _HANDLERS.get(type(fact.data))
    if handler is None:
        return replace(view, seq=fact.seq)
    return handler(view, fact, fact.data)


def fold_all(facts: Iterable[Fact], view: View | None = None) -> View:
    """Folds every fact, from the empty view unless one is given."""
    view = view or View()
    for fact in facts:
        view = fold(view, fact)
    return view


def _user_said(view: View, fact: Fact, said: UserSaid) -> View:
    view = _say(close_turn(view), UserMessage(said.text, said.attachments), fact.seq, len(said.text))
    changes: dict[str, Any] = {"seq": fact.seq, "ends_with": "user", "turn": ()}
    if said.source != "continuation":
        changes["finish"] = ""
    if said.source in ("prompt", "steer"):
        changes.update(used=0, rounds=0, continuations=0, parse_faults=0, budget_denied=None)
        changes.update(recent=(), refused=None, repeated=None, prompt=said.text, last_request=said.request_id)
        if view.run is not None and said.source == "prompt":
            changes["run"] = replace(view.run, prompt=said.text)
    elif said.source == "continuation":
        changes["continuations"] = view.continuations + 1
    return replace(view, **changes)


def _model_turn(view: View, fact: Fact, turn: ModelTurn) -> View:
    continued = view.finish == "length" and view.ends_with == "user"
    view = close_turn(view)
    size = len(turn.text) + sum(len(r.text) for r in turn.reasoning) + sum(_call_size(call) for call in turn.calls)
    view = _say(view, AssistantMessage(turn.text, turn.reasoning, turn.calls), fact.seq, size)
    changes: dict[str, Any] = {
        "seq": fact.seq,
        "finish": turn.finish,
        "ends_with": "assistant",
        "turn": tuple(CallState(call) for call in turn.calls),
        "turn_ms": fact.ts,
        "call_ids": view.call_ids.add(call.id for call in turn.calls),
    }
    if turn.source != "history":
        faults = any(call.fault is not None for call in turn.calls)
        changes["turns"] = view.turns + 1
        changes["parse_faults"] = view.parse_faults + 1 if faults else 0
        changes["rounds"] = view.rounds + bool(turn.calls)
        if not turn.usage.estimated:
            changes["reported_tokens"] = turn.usage.prompt_tokens + turn.usage.completion_tokens
        if view.run is not None:
            text = view.run.text + turn.text if continued else turn.text or view.run.text
            changes["run"] = replace(view.run, steps=view.run.steps + 1, usage=view.run.usage + turn.usage, text=text)
    return replace(view, **changes)


def _call_size(call: Call) -> int:
    return len(call.name) + len(call.raw or "") + len(str(call.args)) + 16


def _call_judged(view: View, fact: Fact, judged: CallJudged) -> View:
    def change(state: CallState) -> CallState:
        call = replace(state.call, args=judged.args, verdict=judged.verdict, raw=None, fault=None)
        kept = args_digest(judged.args) == args_digest(state.call.args)
        return replace(state, call=call, approved=state.approved if kept else None)

    return _on_open_call(view, fact, judged.call, change)


def _tool_started(view: View, fact: Fact, started: ToolStarted) -> View:
    state = view.call(started.call)
    if state is None or state.result is not None:
        return replace(view, seq=fact.seq)
    run = view.run
    if run is not None and counts_as_step(view.turn, started.call):
        run = replace(run, steps=run.steps + 1)
    begun = replace(
        state,
        attempts=max(started.attempt, state.attempts + 1),
        rerun=started.rerun,
        read_only=started.read_only,
        approved=None,
        counted=True,
    )
    return replace(view, seq=fact.seq, turn=_with(view.turn, begun), run=run)


def _tool_resulted(view: View, fact: Fact, result: ToolResulted) -> View:
    state = view.call(result.call)
    if state is None or state.result is not None:
        return replace(view, seq=fact.seq)
    failed = result.outcome != "ok"
    message = ToolMessage(result.call, result.name, result.output, failed, result.attachments)
    settled = replace(state, outcome=result.outcome, result=message)
    changes: dict[str, Any] = {"seq": fact.seq, "turn": _with(view.turn, settled)}
    if result.source != "history":
        changes.update(_counted(view, state, result.outcome))
    view = replace(view, **changes)
    return close_turn(view, fact.seq) if not view.open_calls else view


def _counted(view: View, state: CallState, outcome: Outcome) -> dict[str, Any]:
    """What a result does to the counters and to the duplicate guard's window (tools.md §2.3)."""
    changes: dict[str, Any] = {}
    identity = call_identity(state.call.name, state.call.args)
    if outcome == "ok":
        changes["used"] = view.used + 1
    if outcome in ("ok", "error") and state.attempts:
        recent = view.recent
        if outcome == "ok" and not state.read_only and identity not in recent:
            recent = ()
        changes["recent"] = (*recent, identity)[-DUPLICATE_WINDOW:]
        changes["refused"] = None
    elif outcome == "blocked":
        changes["refused" if view.refused != identity else "repeated"] = identity
    if view.run is not None and state.attempts:
        changes["run"] = replace(view.run, tool_calls=view.run.tool_calls + 1)
    return changes


def _confirmation(view: View, fact: Fact, answer: ConfirmationAnswered) -> View:
    state = view.call(answer.call)
    if state is None or state.approved is not None or args_digest(state.call.args) != answer.args_digest:
        return replace(view, seq=fact.seq)
    return _on_open_call(
        view, fact, answer.call, lambda s: replace(s, approved=answer.approved, reject_reason=answer.reason)
    )


def _question(view: View, fact: Fact, answer: QuestionAnswered) -> View:
    state = view.call(answer.call)
    if state is None or state.answer is not None:
        return replace(view, seq=fact.seq)
    view = _on_open_call(view, fact, answer.call, lambda s: replace(s, answer=answer.answer))
    return replace(view, run=replace(view.run, questions=view.run.questions + 1)) if view.run else view


def _budget_denied(view: View, fact: Fact, denied: BudgetDenied) -> View:
    return replace(view, seq=fact.seq, budget_denied=denied.limit)


def _compaction(view: View, fact: Fact, done: CompactionDone) -> View:
    view = compacted(view, done)
    run = view.run and replace(view.run, steps=view.run.steps + 1, compactions=view.run.compactions + 1)
    return replace(view, seq=fact.seq, run=run, compacted_at=fact.seq)


def _run_opened(view: View, fact: Fact, opened: RunOpened) -> View:
    run = RunState(opened.run, opened.cause, opened.context, opened.side, opened.resumes, view.prompt, fact.ts)
    earlier = view.run or (view.closed.run if view.closed else None)
    if opened.resumes is not None and earlier is not None:
        run = replace(run, text=earlier.text, usage=earlier.usage, tool_calls=earlier.tool_calls)
    sides = _side_ended(view)
    if opened.side:
        sides = (*sides, (len(view.messages), -1))
    return replace(view, seq=fact.seq, run=run, sides=sides)


def _side_ended(view: View) -> tuple[tuple[int, int], ...]:
    """The ranges of messages that belong to runs with explicit history, the last one closed at the present end."""
    sides = view.sides
    if sides and sides[-1][1] < 0:
        return (*sides[:-1], (sides[-1][0], len(view.messages)))
    return sides


def _run_closed(view: View, fact: Fact, closed: RunClosed) -> View:
    if view.run is None:
        return replace(view, seq=fact.seq)
    ended = ClosedRun(view.run, closed.status, closed.error, closed.stop_reason)
    view = close_turn(view)
    return replace(view, seq=fact.seq, run=None, closed=ended, sides=_side_ended(view), turn=())


def close_turn(view: View, seq: int | None = None) -> View:
    """Moves a turn's results into the conversation, in call order; a call without one gets a note in its place."""
    if not view.turn or view.ends_with != "assistant":
        return view
    at = view.seq if seq is None else seq
    for state in view.turn:
        missing = ToolMessage(state.call.id, state.call.name, MISSING_RESULT, is_error=True)
        message = state.result or missing
        view = _say(view, message, at, len(message.output))
    return replace(view, ends_with="results")


def _say(view: View, message: Message, seq: int, size: int) -> View:
    return replace(
        view,
        messages=view.messages.append(message),
        message_seqs=view.message_seqs.append(seq),
        carried=view.carried + size,
    )


def _on_open_call(view: View, fact: Fact, call_id: str, change: Callable[[CallState], CallState]) -> View:
    state = view.call(call_id)
    if state is None or state.result is not None:
        return replace(view, seq=fact.seq)
    return replace(view, seq=fact.seq, turn=_with(view.turn, change(state)))


def _with(turn: tuple[CallState, ...], changed: CallState) -> tuple[CallState, ...]:
    return tuple(changed if state.call.id == changed.call.id else state for state in turn)


_HANDLERS: Final[dict[type, Callable[[View, Fact, Any], View]]] = {
    UserSaid: _user_said,
    ModelTurn: _model_turn,
    CallJudged: _call_judged,
    ToolStarted: _tool_started,
    ToolResulted: _tool_resulted,
    ConfirmationAnswered: _confirmation,
    QuestionAnswered: _question,
    BudgetDenied: _budget_denied,
    CompactionDone: _compaction,
    RunOpened: _run_opened,
    RunClosed: _run_closed,
}
