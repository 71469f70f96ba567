"""Facts at random. In: a seed, or hypothesis. Out: runs as a shell would write them, and sequences that make no sense.

``Simulation`` is a shell over ``next_step``: it performs each step with a random outcome, dies and resumes, is
interrupted, steered and answered early, late and twice.
"""

from __future__ import annotations

from random import Random
from typing import assert_never

import msgspec
from factstory import Story, recorded
from hypothesis import strategies as st

from a3s_code.core.content import ALLOW, Call, JsonObject, Usage, Verdict
from a3s_code.core.decide.approvals import asks, is_question
from a3s_code.core.decide.settle import settle
from a3s_code.core.digest import args_digest
from a3s_code.core.facts import (
    KIND_OF,
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
from a3s_code.core.facts.runs import Failure
from a3s_code.core.facts.tools import Outcome
from a3s_code.core.steps import (
    Compact,
    Confirm,
    Continue,
    Deny,
    Idle,
    Infer,
    Phase,
    Question,
    Record,
    Run,
    Settle,
    Step,
)

NAMES = ("read", "write", "bash", "ask_user")
OUTCOMES: tuple[Outcome, ...] = ("ok", "ok", "ok", "error", "denied")
MOST_CALLS = 4
MOST_DEATHS = 3


class Simulation(Story):
    """``phases`` are the pairs of phases that followed each other; ``steps`` all steps that were performed."""

    def __init__(self, seed: int) -> None:
        chance = Random(seed)
        super().__init__(
            step_limit=chance.choice((1, 5, 12, 32)),
            tool_budget=chance.choice((None, 0, 1, 3, 8)),
            max_tool_rounds=chance.choice((0, 1, 3, 50)),
            continuation=chance.random() < 0.8,
            max_continuations=chance.choice((1, 3)),
            max_parse_retries=chance.choice((0, 2)),
            question_cap=chance.choice((1, 8)),
            auto_compact=chance.random() < 0.6,
            window=chance.choice((200, 2_000)),
            unknown_outcome=chance.choice(("run", "ask", "report")),
            can_ask=chance.random() < 0.5,
        )
        self.chance = chance
        self.absent = chance.random() < 0.1  # nobody ever answers
        self.wild = chance.random()  # how often the model calls tools
        self.stubborn = chance.random() < 0.1  # it calls the same thing again and again
        self.runs = 0
        self.calls = 0
        self.deaths = 0
        self.phases: set[tuple[Phase, Phase]] = set()
        self.steps: list[Step] = []

    def likely(self, odds: float) -> bool:
        return self.chance.random() < odds

    def label(self, what: str) -> str:
        """A text that says whether ``history`` may show it."""
        return f"{'hidden' if self.view.run and self.view.run.side else 'shown'} {what} {len(self.facts)}"

    def play(self, prompts: int = 3) -> Simulation:
        """Prompts one after the other, each driven until the log is quiescent or stays parked."""
        for _ in range(prompts):
            if self.view.run is not None:
                self.perform_settle(settle(self.view, "cancelled", why="a new prompt"))
            self.runs += 1
            self.opened(f"r{self.runs}", side=self.likely(0.25))
            self.add(UserSaid(self.label("prompt"), "prompt"))
            self.drive()
            if self.view.run is None and self.likely(0.2):
                self.run = ""
                self.compact()
            if self.view.closed is not None and self.view.run is None and self.likely(0.2):
                self.go_on()
                self.drive()
        return self

    def drive(self) -> None:
        """The loop. More rounds than any rule allows are a failure."""
        before: Phase = "idle"
        for _ in range(1_000):
            step = self.step
            if self.likely(0.01) and not isinstance(step, Idle):
                step = settle(self.view, "cancelled", why="the run was interrupted")
            self.phases.add((before, step.phase))
            before = step.phase
            self.steps.append(step)
            if isinstance(step, Idle):
                return
            if self.likely(0.05) and self.deaths < MOST_DEATHS:
                self.deaths += 1
                self.go_on()
                before = "idle"
                continue
            if self.likely(0.1):
                self.answer_something()
            if not self.perform(step):
                return
        raise AssertionError("the run does not end")

    def go_on(self) -> None:
        self.runs += 1
        self.resumed(f"r{self.runs}")

    def perform(self, step: Step) -> bool:
        """Does what the step says; false when nobody will ever answer."""
        match step:
            case Infer():
                self.infer(step)
            case Run():
                self.run_calls(step.calls)
            case Record():
                self.add(*(recorded(item) for item in step.results))
            case Confirm() | Question():
                self.answer_something()
                return not self.absent
            case Continue():
                self.add(UserSaid(self.label(step.text), "continuation"))
            case Deny():
                self.add(BudgetDenied(step.call.id, step.limit, step.used))
            case Settle():
                self.end(step)
            case Compact():
                self.compact()
            case Idle():
                raise AssertionError("there is nothing to perform")
            case _:
                assert_never(step)
        return True

    def infer(self, step: Infer) -> None:
        if self.likely(0.05):
            self.add(UserSaid(self.label("steer"), "steer", request_id="q"))
        calls = (
            tuple(self.a_call() for _ in range(self.chance.randint(1, MOST_CALLS))) if self.likely(self.wild) else ()
        )
        text = "" if self.likely(0.3) else self.label("x" * self.chance.choice((1, 100, 400)))
        usage = Usage(self.chance.randint(0, 300), 5, 5, estimated=self.likely(0.5))
        finish = self.chance.choice(("stop", "length", ""))
        self.add(ModelTurn(text, "model", calls, usage=usage, finish=finish))

    def a_call(self) -> Call:
        self.calls += 1
        call_id = f"c{self.calls}" if self.likely(0.95) else f"c{max(1, self.calls - 1)}"
        if self.stubborn:
            return Call(call_id, "read", {"path": "a"}, parallel=True)
        if self.likely(0.1):
            return Call(call_id, "read", {}, raw='{"a', fault="it ends too early")
        name = self.chance.choice(NAMES)
        if name == "ask_user":
            return Call(call_id, name, {"question": "Which?"} if self.likely(0.9) else {})
        verdict = self.chance.choice((ALLOW, ALLOW, ALLOW, Verdict("ask", "why"), Verdict("deny", "no")))
        return Call(call_id, name, {"path": self.chance.choice("ab")}, verdict, parallel=name == "read")

    def run_calls(self, calls: tuple[Call, ...]) -> None:
        if calls[0].verdict.decision == "allow" and self.likely(0.05):
            verdict = self.chance.choice((Verdict("ask", "now"), Verdict("deny", "now")))
            self.add(CallJudged(calls[0].id, calls[0].args if self.likely(0.5) else {"path": "c"}, verdict))
            return
        for call in calls:
            safe = call.name == "read"
            self.add(ToolStarted(call.id, self.state(call.id).attempts + 1, "safe" if safe else "unsafe", safe))
        for call in self.chance.sample(calls, len(calls)):
            if self.likely(0.1) and self.deaths < MOST_DEATHS:
                self.deaths += 1
                self.go_on()
                return
            outcome = self.chance.choice(OUTCOMES)
            self.add(ToolResulted(call.id, call.name, self.label("y" * 50), int(outcome != "ok"), outcome))

    def end(self, step: Settle) -> None:
        if step.status == "completed" and self.likely(0.05):  # a steer that waits makes the run go on
            self.add(*(recorded(item) for item in step.results), UserSaid(self.label("steer"), "steer"))
        else:
            self.perform_settle(step)

    def compact(self) -> None:
        upto = self.chance.randint(0, len(self.facts) + 3)
        summary = "" if self.likely(0.1) and self.view.run is None else "summary"
        pruned = tuple(f"c{self.chance.randint(1, self.calls + 1)}" for _ in range(self.chance.randint(0, 3)))
        self.add(CompactionDone(summary, upto, 1000, 100, pruned))

    def answer_something(self) -> None:
        """Answers any call that waits, the first or a later one; sometimes one that doesn't, or with a wrong digest."""
        if self.absent:
            return
        waiting = [s for s in self.view.turn if self.likely(0.1) or asks(s, self.rules) or is_question(s)]
        if not waiting:
            return
        state = self.chance.choice(waiting)
        if is_question(state):
            self.add(QuestionAnswered(state.call.id, "that one"))
        else:
            digest = args_digest(state.call.args) if self.likely(0.9) else "0" * 32
            self.add(ConfirmationAnswered(state.call.id, digest, self.likely(0.7)))


ids = st.sampled_from(("c1", "c2", "c3"))
runs = st.sampled_from(("r1", "r2"))
words = st.sampled_from(("", "a", "b", "x" * 3_000, "\ud800"))
args: st.SearchStrategy[JsonObject] = st.sampled_from(
    ({}, {"path": "a"}, {"path": "b"}, {"question": "Which?"}, {"lone": "\udfff"})
)
verdicts = st.sampled_from((ALLOW, Verdict("ask", "why"), Verdict("deny", "no"), Verdict("deny", "?", "unknown_tool")))
calls = st.builds(
    Call, ids, st.sampled_from(NAMES), args, verdicts, st.booleans(), fault=st.sampled_from((None, None, "bad"))
)
outcomes = st.sampled_from(("ok", "error", "denied", "blocked", "cancelled", "unknown"))
digests = args.map(args_digest)
counts = st.integers(0, 40)
histories = st.sampled_from((None, None, "history"))
turns = st.builds(
    ModelTurn,
    words,
    st.sampled_from(("model", "model", "history", "delegation")),
    st.lists(calls, max_size=3).map(tuple),
    usage=st.builds(Usage, counts, counts, counts, estimated=st.booleans()),
    finish=st.sampled_from(("stop", "length", "")),
)
anything: st.SearchStrategy[FactData] = st.one_of(
    st.builds(UserSaid, words, st.sampled_from(("prompt", "steer", "history", "continuation"))),
    turns,
    turns,
    st.builds(CallJudged, ids, args, verdicts),
    st.builds(ToolStarted, ids, st.integers(0, 3), st.sampled_from(("safe", "unsafe")), st.booleans()),
    st.builds(ToolResulted, ids, st.sampled_from(NAMES), words, st.integers(0, 1), outcomes, source=histories),
    st.builds(ConfirmationAnswered, ids, digests, st.booleans()),
    st.builds(QuestionAnswered, ids, words),
    st.builds(CompactionDone, words, counts, counts, counts, st.lists(ids, max_size=2).map(tuple)),
    st.builds(BudgetDenied, ids, counts, counts),
    st.builds(RunOpened, runs, st.just("send"), side=st.booleans(), resumes=st.none() | runs),
    st.builds(
        RunClosed,
        st.sampled_from(("completed", "failed", "cancelled")),
        counts,
        st.sampled_from((None, Failure("LLM_ERROR", "x"))),
    ),
    st.just(UnknownData(msgspec.Raw(b"{}"))),
)


def numbered(items: list[tuple[FactData, str]]) -> list[Fact]:
    """Facts of these data, in this order."""
    return [
        Fact(seq, f"f-{seq}", 1_000 + seq, run, KIND_OF.get(type(data), "moon.phase"), data)
        for seq, (data, run) in enumerate(items, 1)
    ]


garbage = st.lists(st.tuples(anything, runs), max_size=25).map(numbered)
"""Facts in an order that no shell would write."""

simulations = st.integers(0, 2**32).map(lambda seed: Simulation(seed).play())
"""Runs as a shell writes them."""

logs = st.one_of(garbage, simulations.map(lambda simulation: simulation.facts))
