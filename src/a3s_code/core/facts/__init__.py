"""Every kind of fact (facts.md, *Facts*). In: nothing. Out: frozen values, and the table from kind to type.

One rule: a fact's type says its kind; a kind this version doesn't know becomes ``UnknownData`` and is kept as it came.
Known weakness: members that a newer writer added to a known kind are kept in the file, not in the value.
"""

from __future__ import annotations

from typing import Final, TypeAlias

import msgspec

from a3s_code.core.facts.conversation import CompactionDone, ModelTurn, UserSaid
from a3s_code.core.facts.decisions import BudgetDenied, CallJudged, ConfirmationAnswered, QuestionAnswered
from a3s_code.core.facts.runs import RunClosed, RunOpened
from a3s_code.core.facts.tools import ToolResulted, ToolStarted


class UnknownData(msgspec.Struct, frozen=True):
    """The data of a kind that a newer writer knows."""

    raw: msgspec.Raw


FactData: TypeAlias = (
    UserSaid
    | ModelTurn
    | CallJudged
    | ToolStarted
    | ToolResulted
    | ConfirmationAnswered
    | QuestionAnswered
    | CompactionDone
    | BudgetDenied
    | RunOpened
    | RunClosed
    | UnknownData
)

KINDS: Final[dict[str, type[FactData]]] = {
    "user.message": UserSaid,
    "model.turn": ModelTurn,
    "call.judged": CallJudged,
    "tool.started": ToolStarted,
    "tool.result": ToolResulted,
    "confirmation.answered": ConfirmationAnswered,
    "question.answered": QuestionAnswered,
    "compaction.done": CompactionDone,
    "budget.denied": BudgetDenied,
    "run.opened": RunOpened,
    "run.closed": RunClosed,
}
KIND_OF: Final[dict[type[FactData], str]] = {data: kind for kind, data in KINDS.items()}


class Fact(msgspec.Struct, frozen=True):
    """One line of a log without its sum. ``seq`` counts from 1; ``ts`` is Unix milliseconds."""

    seq: int
    id: str
    ts: int
    run: str
    kind: str
    data: FactData


__all__ = [
    "KINDS",
    "KIND_OF",
    "BudgetDenied",
    "CallJudged",
    "CompactionDone",
    "ConfirmationAnswered",
    "Fact",
    "FactData",
    "ModelTurn",
    "QuestionAnswered",
    "RunClosed",
    "RunOpened",
    "ToolResulted",
    "ToolStarted",
    "UnknownData",
    "UserSaid",
]
