"""The view that facts are folded to. In: nothing. Out: frozen values that ``fold`` makes and ``next_step`` reads.

One rule: everything that chooses the next step is here, and everything here comes from facts.
Known weakness: the carried conversation is held in memory whole.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from a3s_code.core.chain import Chain, IdSet
from a3s_code.core.content import Call, Message, ToolMessage, Usage
from a3s_code.core.facts.runs import Cause, Closing, Failure

DUPLICATE_WINDOW = 8


class CallState(msgspec.Struct, frozen=True):
    """A call of the last model turn. ``digest`` is that of its arguments, ``attempts`` counts ``tool.started``;
    ``must_ask`` says that it may not start without an answer, ``approved`` is the answer that waits to be used (a start
    uses both up); ``result`` is set once the call has its one result."""

    call: Call
    digest: str
    attempts: int = 0
    rerun: Literal["safe", "unsafe"] = "unsafe"
    read_only: bool = False
    must_ask: bool = False
    approved: bool | None = None
    reject_reason: str | None = None
    answer: str | None = None
    result: ToolMessage | None = None

    @property
    def open(self) -> bool:
        return self.result is None

    @property
    def identity(self) -> str:
        """What makes two calls the same call to the duplicate guard (tools.md §2.3)."""
        return f"{self.call.name} {self.digest}"


class RunState(msgspec.Struct, frozen=True):
    """The open run and what it has used so far. ``text`` is the last answer, joined where it was cut by length."""

    id: str
    cause: Cause
    context: dict[str, str] = {}
    side: bool = False
    resumes: str | None = None
    prompt: str = ""
    steps: int = 0
    tool_calls: int = 0
    questions: int = 0
    compactions: int = 0
    usage: Usage = Usage()
    text: str = ""


class ClosedRun(msgspec.Struct, frozen=True):
    """The last run that settled."""

    run: RunState
    status: Closing
    error: Failure | None = None
    stop_reason: str = "done"


class View(msgspec.Struct, frozen=True):
    """A session's conversation and where it stands.

    ``messages`` is always well formed: a turn's results join it, in call order, once all are there; until then they
    wait in ``turn``. ``message_seqs`` holds the fact that each message came with, ``sides`` the ranges of messages that
    ``history`` leaves out (an end of -1 is still open). ``generation`` grows whenever earlier messages were replaced.
    ``used``, ``rounds`` and ``continuations`` count since the last prompt or steer. ``refused`` are the calls that the
    duplicate guard refused since the last call that ran, each with its turn. ``compacted`` is true from a compaction
    to the next model turn or prompt.
    """

    seq: int = 0
    messages: Chain[Message] = msgspec.field(default_factory=Chain)
    message_seqs: Chain[int] = msgspec.field(default_factory=Chain)
    sides: tuple[tuple[int, int], ...] = ()
    generation: int = 0
    call_ids: IdSet = msgspec.field(default_factory=IdSet)
    turn: tuple[CallState, ...] = ()
    turns: int = 0
    turn_ms: int = 0
    finish: str = ""
    ends_with: Literal["nothing", "user", "assistant", "results"] = "nothing"
    prompt: str = ""
    used: int = 0
    rounds: int = 0
    continuations: int = 0
    parse_faults: int = 0
    budget_denied: int | None = None
    recent: tuple[str, ...] = ()
    refused: tuple[tuple[str, int], ...] = ()
    repeated: str | None = None
    carried: int = 0
    reported_tokens: int = 0
    compacted: bool = False
    run: RunState | None = None
    closed: ClosedRun | None = None

    @property
    def open_calls(self) -> tuple[CallState, ...]:
        if self.ends_with != "assistant":
            return ()
        return tuple([state for state in self.turn if state.result is None])

    def call(self, call_id: str) -> CallState | None:
        for state in self.turn:
            if state.call.id == call_id:
                return state
        return None
