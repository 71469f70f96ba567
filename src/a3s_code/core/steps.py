"""What can be done next. In: nothing. Out: one frozen type a step; together the union ``Step``.

One rule: a step says all that is needed to perform it; whoever performs it never asks the view again why.
Known weakness: none known.
"""

from __future__ import annotations

from typing import ClassVar, Literal, TypeAlias

import msgspec

from a3s_code.core.content import Call, JsonObject
from a3s_code.core.facts.runs import Closing, Failure
from a3s_code.core.facts.tools import Outcome

Phase: TypeAlias = Literal["idle", "infer", "compact", "confirm", "question", "tool", "deny", "done"]


class Idle(msgspec.Struct, frozen=True, tag=True):
    """Nothing to do: no run is open."""

    phase: ClassVar[Phase] = "idle"


class Infer(msgspec.Struct, frozen=True, tag=True):
    """Call the model for turn number ``turn``; without ``tools`` it has to answer in text."""

    phase: ClassVar[Phase] = "infer"
    turn: int
    tools: bool = True


class Continue(msgspec.Struct, frozen=True, tag=True):
    """Ask the model, which stopped early, to go on."""

    phase: ClassVar[Phase] = "infer"
    text: str


class Compact(msgspec.Struct, frozen=True, tag=True):
    """Summarise: the window is too full. ``tokens`` is the estimate that led here."""

    phase: ClassVar[Phase] = "compact"
    tokens: int


class Confirm(msgspec.Struct, frozen=True, tag=True):
    """Parked: these calls ask and have no answer."""

    phase: ClassVar[Phase] = "confirm"
    calls: tuple[Call, ...]


class Question(msgspec.Struct, frozen=True, tag=True):
    """Parked: this ``ask_user`` call has no answer."""

    phase: ClassVar[Phase] = "question"
    call: Call


class Run(msgspec.Struct, frozen=True, tag=True):
    """Run these calls; several only when each is read-only and safe beside the others."""

    phase: ClassVar[Phase] = "tool"
    calls: tuple[Call, ...]


class Recorded(msgspec.Struct, frozen=True):
    """The result of a call that doesn't run. ``kind`` is its error kind, empty for a good result."""

    call: Call
    outcome: Outcome
    output: str
    kind: str = ""
    metadata: JsonObject = {}


class Record(msgspec.Struct, frozen=True, tag=True):
    """Write these results; nothing runs."""

    phase: ClassVar[Phase] = "tool"
    results: tuple[Recorded, ...]


class Deny(msgspec.Struct, frozen=True, tag=True):
    """Record that the tool budget refused ``call``."""

    phase: ClassVar[Phase] = "deny"
    call: Call
    limit: int
    used: int


class Settle(msgspec.Struct, frozen=True, tag=True):
    """Close the run; ``results`` are given to the calls still open."""

    phase: ClassVar[Phase] = "done"
    status: Closing
    stop_reason: str = "done"
    error: Failure | None = None
    results: tuple[Recorded, ...] = ()


Step: TypeAlias = Idle | Infer | Continue | Compact | Confirm | Question | Run | Record | Deny | Settle
LIMITED: tuple[type[Step], ...] = (Infer, Compact, Run, Continue)
"""The steps that the step limit stops. ``Continue`` is no step, but leads to one."""
