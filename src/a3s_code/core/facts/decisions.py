"""Facts about what was decided. In: nothing. Out: CallJudged, ConfirmationAnswered, QuestionAnswered, BudgetDenied.

One rule: an answer names the call it is for, and a confirmation also the digest of the arguments it was given for.
Known weakness: none known.
"""

from __future__ import annotations

import msgspec

from a3s_code.core.content import JsonObject, Verdict


class CallJudged(msgspec.Struct, frozen=True, omit_defaults=True):
    """``call.judged``: a hook, the tool or a second look changed a call's arguments or verdict."""

    call: str
    args: JsonObject
    verdict: Verdict


class ConfirmationAnswered(msgspec.Struct, frozen=True, omit_defaults=True):
    """``confirmation.answered``: the host (or the hook ``by``) approved or rejected a call that asks."""

    call: str
    args_digest: str
    approved: bool
    reason: str | None = None
    by: str | None = None


class QuestionAnswered(msgspec.Struct, frozen=True, omit_defaults=True):
    """``question.answered``: the host answered a parked ``ask_user``."""

    call: str
    answer: str


class BudgetDenied(msgspec.Struct, frozen=True, omit_defaults=True):
    """``budget.denied``: the tool budget refused a further call and ended the turn."""

    call: str
    limit: int
    used: int
