"""Facts to view. In: a view and the next fact. Out: the view after it.

One rule: ``fold`` is total: a fact that makes no sense where it stands (a result nobody waits for, a second answer,
an unknown kind) changes nothing but ``seq``.
Known weakness: the carried size is counted in characters, so a token estimate is only an estimate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, TypeAlias

from msgspec.structs import replace

from a3s_code.core.content import AssistantMessage, Call, Message, ToolMessage, UserMessage, Verdict
from a3s_code.core.digest import args_digest
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
from a3s_code.core.foldcompaction import compaction, size_of
from a3s_code.core.groups import counts_as_step
from a3s_code.core.state import DUPLICATE_WINDOW, CallState, ClosedRun, RunState, View

MISSING_RESULT = "No result was recorded for this call."
FROM_HISTORY = Verdict("deny", "This call came with the history and was not run.", "cancelled")

Changes: TypeAlias = dict[str, Any]


def fold(view: View, fact: Fact) -> View:
    """The view after ``fact``. Costs the same at any length of the log."""
    handler = _HANDLERS.get(type(fact.data))
    if handler is None:
        return replace(view, seq=fact.seq)
    return replace(view, seq=fact.seq, **handler(view, fact, fact.data))


def fold_all(facts: Iterable[Fact], view: View | None = None) -> View:
    """Folds every fact, from the empty view unless one is given."""
    view = view or View()
    for fact in facts:
        view = fold(view, fact)
    return view


def _user_said(view: View, fact: Fact, said: UserSaid) -> Changes:
    changes = _say(view, fact, *_results(view), UserMessage(said.text, said.attachments))
    changes.update(ends_with="user", turn=())
    if said.source == "continuation":
        changes["continuations"] = view.continuations + 1
        return changes
    changes["finish"] = ""
    if said.source in ("prompt", "steer"):
        changes.update(used=0, rounds=0, continuations=0, parse_faults=0, budget_denied=None)
        changes.update(recent=(), refused=(), repeated=None)
    if said.source == "prompt":
        changes.update(prompt=said.text, compacted=False)
        if view.run is not None:
            changes["run"] = replace(view.run, prompt=said.text)
    return changes


def _model_turn(view: View, fact: Fact, turn: ModelTurn) -> Changes:
    calls = _each_id_once(turn.calls)
    changes = _say(view, fact, *_results(view), AssistantMessage(turn.text, turn.reasoning, calls))
    changes.update(finish=turn.finish, ends_with="assistant", turn_ms=fact.ts)
    changes["call_ids"] = view.call_ids.add([call.id for call in calls]) if calls else view.call_ids
    if turn.source == "history":
        changes["turn"] = tuple([_waiting(replace(call, verdict=FROM_HISTORY)) for call in calls])
        return changes
    changes["turn"] = tuple([_waiting(call) for call in calls])
    changes["turns"] = view.turns + 1
    changes["compacted"] = False
    changes["parse_faults"] = view.parse_faults + 1 if any(call.fault is not None for call in calls) else 0
    changes["rounds"] = view.rounds + bool(calls)
    if not turn.usage.estimated:
        changes["reported_tokens"] = turn.usage.prompt_tokens + turn.usage.completion_tokens
    if (run := view.run) is not None:
        continued = view.finish == "length" and view.ends_with == "user"
        text = run.text + turn.text if continued else turn.text or run.text
        changes["run"] = replace(run, steps=run.steps + 1, usage=run.usage + turn.usage, text=text)
    return changes


def _each_id_once(calls: tuple[Call, ...]) -> tuple[Call, ...]:
    """Two calls with one id can't have one result each; the first is kept."""
    if len(calls) < 2 or len({call.id for call in calls}) == len(calls):
        return calls
    first: dict[str, Call] = {}
    for call in calls:
        first.setdefault(call.id, call)
    return tuple(first.values())


def _waiting(call: Call) -> CallState:
    return CallState(call, args_digest(call.args), must_ask=call.verdict.decision == "ask")


def _call_judged(view: View, fact: Fact, judged: CallJudged) -> Changes:
    state = _open_call(view, judged.call)
    if state is None:
        return {}
    digest = args_digest(judged.args)
    kept = digest == state.digest
    asks = judged.verdict.decision == "ask"
    asked_before = kept and state.call.verdict.decision == "ask"
    call = Call(state.call.id, state.call.name, judged.args, judged.verdict, state.call.parallel and kept)
    changed = replace(
        state,
        call=call,
        digest=digest,
        must_ask=asks and (state.must_ask or not asked_before),
        approved=state.approved if kept else None,
    )
    return {"turn": _with(view.turn, changed)}


def _tool_started(view: View, fact: Fact, started: ToolStarted) -> Changes:
    state = _open_call(view, started.call)
    if state is None:
        return {}
    begun = replace(
        state,
        attempts=state.attempts + 1,
        rerun=started.rerun,
        read_only=started.read_only,
        must_ask=False,
        approved=None,
    )
    changes: Changes = {"turn": _with(view.turn, begun)}
    if view.run is not None and counts_as_step(view.turn, state):
        changes["run"] = replace(view.run, steps=view.run.steps + 1)
    return changes


def _tool_resulted(view: View, fact: Fact, result: ToolResulted) -> Changes:
    state = _open_call(view, result.call)
    if state is None:
        return {}
    message = ToolMessage(result.call, result.name, result.output, result.outcome != "ok", result.attachments)
    turn = _with(view.turn, replace(state, result=message))
    changes: Changes = {"turn": turn}
    if result.source != "history":
        changes.update(_counted(view, state, result.outcome))
    results = [state.result for state in turn if state.result is not None]
    if len(results) == len(turn):
        changes.update(_say(view, fact, *results), ends_with="results")
    return changes


def _counted(view: View, state: CallState, outcome: Outcome) -> Changes:
    """What a result does to the counters and to the duplicate guard's window (tools.md §2.3)."""
    changes: Changes = {}
    identity = state.identity
    if outcome == "ok":
        changes["used"] = view.used + 1
    if outcome in ("ok", "error") and state.attempts:
        recent = view.recent
        if outcome == "ok" and not state.read_only:
            recent = tuple([other for other in recent if other == identity])
        changes["recent"] = (*recent, identity)[-DUPLICATE_WINDOW:]
        changes["refused"] = ()
    elif outcome == "blocked":
        changes["refused"] = (*view.refused, (identity, view.turns))
        if any(other == identity and turn < view.turns for other, turn in view.refused):
            changes["repeated"] = identity
    if (run := view.run) is not None:
        asked = outcome == "ok" and state.answer is not None
        tool_calls = run.tool_calls + bool(state.attempts)
        changes["run"] = replace(run, tool_calls=tool_calls, questions=run.questions + asked)
    return changes


def _confirmation(view: View, fact: Fact, answer: ConfirmationAnswered) -> Changes:
    state = _open_call(view, answer.call)
    if state is None or state.approved is not None or state.digest != answer.args_digest:
        return {}
    if not state.must_ask and not state.attempts:
        return {}
    answered = replace(state, approved=answer.approved, reject_reason=answer.reason)
    return {"turn": _with(view.turn, answered)}


def _question(view: View, fact: Fact, answer: QuestionAnswered) -> Changes:
    state = _open_call(view, answer.call)
    if state is None or state.answer is not None:
        return {}
    return {"turn": _with(view.turn, replace(state, answer=answer.answer))}


def _budget_denied(view: View, fact: Fact, denied: BudgetDenied) -> Changes:
    return {"budget_denied": denied.limit} if _open_call(view, denied.call) is not None else {}


def _compaction(view: View, fact: Fact, done: CompactionDone) -> Changes:
    changes = compaction(view, done)
    changes["compacted"] = True
    if (run := view.run) is not None:
        changes["run"] = replace(run, steps=run.steps + 1, compactions=run.compactions + 1)
    return changes


def _run_opened(view: View, fact: Fact, opened: RunOpened) -> Changes:
    """A run that goes on from another keeps its open calls, what it said and used, and whether it is hidden."""
    run = RunState(opened.run, opened.cause, opened.context, opened.side, opened.resumes, view.prompt)
    earlier = view.run or (view.closed.run if view.closed else None)
    if opened.resumes is None:
        changes = _turn_ended(view, fact)
    else:
        changes = {}
        if earlier is not None:
            used = {"usage": earlier.usage, "tool_calls": earlier.tool_calls}
            run = replace(run, text=earlier.text, side=earlier.side, **used)
    length = len(changes.get("messages", view.messages))
    sides = _side_ended(view, length)
    changes.update(run=run, sides=(*sides, (length, -1)) if run.side else sides)
    return changes


def _run_closed(view: View, fact: Fact, closed: RunClosed) -> Changes:
    if view.run is None or view.run.id != fact.run:
        return {}
    changes = _turn_ended(view, fact)
    changes.update(run=None, closed=ClosedRun(view.run, closed.status, closed.error, closed.stop_reason))
    changes["sides"] = _side_ended(view, len(changes.get("messages", view.messages)))
    return changes


def _side_ended(view: View, length: int) -> tuple[tuple[int, int], ...]:
    """The ranges that ``history`` leaves out, the last one closed at ``length``."""
    sides = view.sides
    if sides and sides[-1][1] < 0:
        return (*sides[:-1], (sides[-1][0], length))
    return sides


def _turn_ended(view: View, fact: Fact) -> Changes:
    """Puts away the calls of the last turn, each with its result."""
    if view.ends_with != "assistant" or not view.turn:
        return {"turn": ()}
    return {**_say(view, fact, *_results(view)), "turn": (), "ends_with": "results"}


def _results(view: View) -> list[Message]:
    """The results of the turn that the conversation ends with, in call order; a call without one gets a note."""
    if view.ends_with != "assistant":
        return []
    return [
        state.result or ToolMessage(state.call.id, state.call.name, MISSING_RESULT, is_error=True)
        for state in view.turn
    ]


def _say(view: View, fact: Fact, *messages: Message) -> Changes:
    """The conversation with ``messages`` at its end."""
    chain, seqs, carried = view.messages, view.message_seqs, view.carried
    for message in messages:
        chain = chain.append(message)
        seqs = seqs.append(fact.seq)
        carried += size_of(message)
    return {"messages": chain, "message_seqs": seqs, "carried": carried}


def _open_call(view: View, call_id: str) -> CallState | None:
    state = view.call(call_id)
    return state if state is not None and state.result is None else None


def _with(turn: tuple[CallState, ...], changed: CallState) -> tuple[CallState, ...]:
    return tuple([changed if state.call.id == changed.call.id else state for state in turn])


_HANDLERS: Final[dict[type, Callable[[View, Fact, Any], Changes]]] = {
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
