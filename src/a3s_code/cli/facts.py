"""A fact in one line. In: a fact. Out: what it says, for a person.

One rule: no control character and no line end of a fact's text comes out.
Known weakness: long texts are cut; ``a3s-code log show --json`` has them whole.
"""

from __future__ import annotations

import datetime

from a3s_code.cli.words import call_words, count, one_line, result_words
from a3s_code.core.facts import (
    BudgetDenied,
    CallJudged,
    CompactionDone,
    ConfirmationAnswered,
    Fact,
    FactData,
    ModelTurn,
    QuestionAnswered,
    RunClosed,
    RunOpened,
    ToolResulted,
    ToolStarted,
    UnknownData,
    UserSaid,
)

_WIDTH = 120


def told(fact: Fact) -> str:
    """``seq``, time, kind and words. Times are local."""
    return f"{fact.seq:>5}  {_time(fact.ts)}  {fact.kind:<21} {_words(fact.data)}".rstrip()


def _time(ts: int) -> str:
    try:
        when = datetime.datetime.fromtimestamp(ts / 1000, datetime.UTC).astimezone()
    except (OverflowError, OSError, ValueError):
        return str(ts)
    return when.strftime("%Y-%m-%d %H:%M:%S.") + f"{ts % 1000:03}"


def _words(data: FactData) -> str:
    match data:
        case UserSaid(text=text, source=source, attachments=attachments):
            more = f" (+{count(len(attachments), 'attachment')})" if attachments else ""
            return f"{source}: {one_line(text, _WIDTH)}{more}"
        case ModelTurn():
            return _turn(data)
        case ToolStarted(call=call, attempt=attempt, rerun=rerun):
            return f"{call}{f' attempt {attempt}' if attempt > 1 else ''} ({rerun} to run again)"
        case ToolResulted():
            words = result_words(data.name, data.output, data.exit_code, data.metadata, data.took_ms)
            outcome = "" if data.outcome in ("ok", "error") else f" {data.outcome}"
            return f"{data.call} {data.name}{outcome}: {words}"
        case CallJudged(call=call, verdict=verdict):
            return f"{call} {verdict.decision} {one_line(verdict.reason)}"
        case ConfirmationAnswered(call=call, approved=approved, reason=reason):
            return f"{call} {'approved' if approved else 'rejected'} {one_line(reason or '')}"
        case QuestionAnswered(call=call, answer=answer):
            return f"{call}: {one_line(answer)}"
        case CompactionDone(upto=upto, tokens_before=before, tokens_after=after):
            return f"facts up to {upto} summarised: {before:,} to {after:,} tokens"
        case BudgetDenied(call=call, limit=limit):
            return f"{call}: the tool budget of {limit} is used up"
        case RunOpened(run=run, cause=cause, resumes=resumes):
            return f"{run} by {cause}" + (f", goes on from {resumes}" if resumes else "")
        case RunClosed(status=status, steps=steps, error=error):
            why = f": {error.code}: {one_line(error.message)}" if error else ""
            return f"{status} after {count(steps, 'step')}{why}"
        case UnknownData():
            return "(written by a newer version)"


def _turn(turn: ModelTurn) -> str:
    said = [one_line(turn.text, _WIDTH)] if turn.text.strip() else []
    calls = [f"{call_words(call.name, call.args)} [{call.id}]" for call in turn.calls]
    return f"{turn.model or turn.source}: " + " | ".join([*said, *calls])
