"""A log told fact by fact. In: what happened, in plain verbs. Out: the facts, the view after them, the next step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from a3s_code.core.content import ALLOW, AssistantMessage, Call, Message, ToolMessage, UserMessage, Verdict
from a3s_code.core.decide import next_step
from a3s_code.core.digest import args_digest
from a3s_code.core.facts import (
    KIND_OF,
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
from a3s_code.core.facts.tools import Outcome
from a3s_code.core.fold import fold
from a3s_code.core.foldcompaction import size_of
from a3s_code.core.rules import Rules
from a3s_code.core.state import CallState, RunState, View
from a3s_code.core.steps import Record, Recorded, Settle, Step

ASK = Verdict("ask", "rule ask: write")
DENY = Verdict("deny", "Permission denied: bash matches deny rule 'bash'", "permission_denied")


def a_call(
    name: str = "read", call_id: str = "c1", verdict: Verdict = ALLOW, parallel: bool = False, **args: Any
) -> Call:
    return Call(call_id, name, args, verdict, parallel)


def a_read(call_id: str, path: str = "") -> Call:
    """A call that may run beside its neighbours."""
    return a_call("read", call_id, parallel=True, path=path or call_id)


def a_question(call_id: str = "q1", question: str = "Which?", **more: Any) -> Call:
    return a_call("ask_user", call_id, question=question, **more)


class Story:
    """A log that grows, with the view folded along."""

    def __init__(self, **rules: Any) -> None:
        self.rules = Rules(**rules)
        self.facts: list[Fact] = []
        self.view = View()
        self.run = ""

    def add(self, *data: FactData, kind: str = "") -> Story:
        for item in data:
            seq = len(self.facts) + 1
            fact = Fact(seq, f"f-{seq}", 1_000 + seq, self.run, kind or KIND_OF[type(item)], item)
            self.facts.append(fact)
            self.view = fold(self.view, fact)
        return self

    @property
    def step(self) -> Step:
        return next_step(self.view, self.rules)

    def state(self, call_id: str) -> CallState:
        state = self.view.call(call_id)
        assert state is not None
        return state

    @property
    def at_work(self) -> RunState:
        assert self.view.run is not None
        return self.view.run

    def texts(self) -> list[str]:
        return [text_of(message) for message in self.view.messages]

    # Runs

    def opened(self, run: str, *, side: bool = False, resumes: str | None = None) -> Story:
        self.run = run
        return self.add(RunOpened(run, "resume" if resumes else "send", {"policy": "p"}, side, resumes))

    def prompt(self, text: str = "do it", run: str = "r1", *, side: bool = False) -> Story:
        return self.opened(run, side=side).add(UserSaid(text, "prompt"))

    def resumed(self, run: str = "r2") -> Story:
        """The process died and another goes on."""
        earlier = self.view.run or (self.view.closed.run if self.view.closed else None)
        return self.opened(run, resumes=earlier.id if earlier else self.run)

    def settled(self) -> Story:
        """Performs the Settle that must come next."""
        step = self.step
        assert isinstance(step, Settle), step
        return self.perform_settle(step)

    def perform_settle(self, step: Settle) -> Story:
        steps = self.view.run.steps if self.view.run else 0
        results = [recorded(item) for item in step.results]
        return self.add(*results, RunClosed(step.status, steps, step.error, step.stop_reason))

    # The conversation

    def steer(self, text: str = "other way") -> Story:
        return self.add(UserSaid(text, "steer", request_id="req-1"))

    def goes_on(self) -> Story:
        return self.add(UserSaid("Go on.", "continuation"))

    def turn(self, *calls: Call, text: str = "", finish: str = "", **more: Any) -> Story:
        finish = finish or ("tool_calls" if calls else "stop")
        return self.add(ModelTurn(text, "model", calls, finish=finish, **more))

    # Calls

    def started(self, *ids: str, rerun: Any = "safe", read_only: bool = True) -> Story:
        return self.add(*(ToolStarted(each, self.state(each).attempts + 1, rerun, read_only) for each in ids))

    def result(self, *ids: str, outcome: Outcome = "ok", output: str = "") -> Story:
        for each in ids:
            name = self.state(each).call.name
            self.add(ToolResulted(each, name, output or f"result of {each}", int(outcome != "ok"), outcome))
        return self

    def ran(self, *ids: str, outcome: Outcome = "ok", read_only: bool = True) -> Story:
        """Calls that begin together and end one after the other."""
        rerun = "safe" if read_only else "unsafe"
        return self.started(*ids, rerun=rerun, read_only=read_only).result(*ids, outcome=outcome)

    def judged(self, call_id: str, verdict: Verdict, **args: Any) -> Story:
        return self.add(CallJudged(call_id, args or self.state(call_id).call.args, verdict))

    def confirmed(self, call_id: str, approved: bool = True, reason: str | None = None, digest: str = "") -> Story:
        digest = digest or args_digest(self.state(call_id).call.args)
        return self.add(ConfirmationAnswered(call_id, digest, approved, reason))

    def answered(self, call_id: str, answer: str) -> Story:
        return self.add(QuestionAnswered(call_id, answer))

    def recorded(self) -> Story:
        """Writes the results that the core gives without running anything."""
        step = self.step
        assert isinstance(step, Record), step
        return self.add(*(recorded(item) for item in step.results))

    # The rest

    def compacted(self, upto: int, summary: str = "what happened", pruned: tuple[str, ...] = ()) -> Story:
        return self.add(CompactionDone(summary, upto, 1000, 100, pruned))

    def unknown(self) -> Story:
        return self.add(UnknownData(msgspec.Raw(b'{"x":1}')), kind="moon.phase")


def recorded(item: Recorded) -> ToolResulted:
    metadata = dict(item.metadata)
    return ToolResulted(item.call.id, item.call.name, item.output, int(item.outcome != "ok"), item.outcome, metadata)


def text_of(message: Message) -> str:
    return message.output if isinstance(message, ToolMessage) else message.text


def faults(view: View) -> list[str]:
    """What is wrong with a view's conversation: nothing, whatever was folded."""
    found = []
    waiting: list[str] = []
    for message in view.messages:
        match message:
            case ToolMessage():
                if not waiting or waiting.pop(0) != message.call:
                    found.append(f"an orphan result of {message.call}")
            case UserMessage() | AssistantMessage():
                found += [f"no result of {call}" for call in waiting]
                waiting = [call.id for call in message.calls] if isinstance(message, AssistantMessage) else []
                if len(set(waiting)) != len(waiting):
                    found.append("two calls of a turn have one id")
    if waiting and view.ends_with != "assistant":
        found.append("the last turn lacks results")
    if view.ends_with == "assistant" and waiting != [state.call.id for state in view.turn]:
        found.append("the turn is not the one that the conversation ends with")
    if view.open_calls != tuple(state for state in view.turn if state.open):
        found.append("a call is open and not seen")
    return found + _uneven(view.messages, view)


def _uneven(messages: Sequence[Message], view: View) -> list[str]:
    found = []
    if view.carried != sum(size_of(message) for message in messages):
        found.append("the carried size is wrong")
    seqs = list(view.message_seqs)
    if len(seqs) != len(messages) or seqs != sorted(seqs):
        found.append("the positions don't fit the messages")
    if any(b >= 0 and not 0 <= a <= b <= len(messages) for a, b in view.sides):
        found.append("a hidden range reaches outside")
    if any(b < 0 for _, b in view.sides[:-1]) or (bool(view.sides) and view.sides[-1][1] < 0) != is_side(view):
        found.append("a hidden range is open and no hidden run is")
    return found


def is_side(view: View) -> bool:
    return view.run is not None and view.run.side


__all__ = ["ASK", "DENY", "Story", "a_call", "a_question", "a_read", "faults", "recorded", "text_of"]
