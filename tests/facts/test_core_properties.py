"""What must hold of the core for every log, sensible or not (facts.md, *What must be proved*)."""

from __future__ import annotations

import msgspec
from factstory import Story, faults
from generated import Simulation, garbage, logs, simulations
from hypothesis import given, settings
from hypothesis import strategies as st

from a3s_code.core.codec import decode_line, encode
from a3s_code.core.content import AssistantMessage
from a3s_code.core.decide import PHASES, next_step
from a3s_code.core.decide.approvals import asks, is_question
from a3s_code.core.decide.settle import settle
from a3s_code.core.facts import (
    KIND_OF,
    BudgetDenied,
    ConfirmationAnswered,
    Fact,
    FactData,
    QuestionAnswered,
    RunClosed,
    RunOpened,
    ToolResulted,
    ToolStarted,
    UnknownData,
)
from a3s_code.core.facts.runs import Closing
from a3s_code.core.fold import fold, fold_all
from a3s_code.core.history import history
from a3s_code.core.rules import Rules
from a3s_code.core.state import View
from a3s_code.core.steps import LIMITED, Confirm, Continue, Idle, Question, Run, Settle
from a3s_code.core.viewcodec import decode_view, encode_view

RULES = [Rules(), Rules(tool_budget=None, unknown_outcome="ask", can_ask=True), Rules(unknown_outcome="report")]
NOISE: tuple[FactData, ...] = (
    ConfirmationAnswered("nobody", "", True),
    QuestionAnswered("nobody", "yes"),
    ToolStarted("nobody", 1, "safe"),
    ToolResulted("nobody", "read", "?", 0, "ok"),
    BudgetDenied("nobody", 8, 8),
    RunClosed("cancelled", 0),
    RunOpened("r9", "resume", resumes="r1"),
    UnknownData(msgspec.Raw(b"{}")),
)
STATUSES: tuple[Closing, ...] = ("completed", "failed", "cancelled")
many = settings(max_examples=150, deadline=None)


@many
@given(logs, st.data())
def test_a_fold_may_be_split_anywhere(facts: list[Fact], data: st.DataObject) -> None:
    """Folding fact by fact from any earlier view gives the same view, also after that view had another future."""
    at = data.draw(st.integers(0, len(facts)))
    whole = fold_all(facts)
    early = fold_all(facts[:at])
    other = fold_all([Fact(f.seq, f.id, f.ts, f.run, f.kind, f.data) for f in reversed(facts[at:])], early)
    assert fold_all(facts[at:], early) == whole
    assert fold_all(facts[:at]) == early
    assert fold_all(reversed(facts[at:]), early) == other


@many
@given(logs)
def test_every_call_has_exactly_one_result_right_behind_its_turn(facts: list[Fact]) -> None:
    """After every fact the conversation is well formed: results in call order behind their turn, and no orphans."""
    view = View()
    for fact in facts:
        view = fold(view, fact)
        assert faults(view) == []


@many
@given(logs)
def test_unknown_kinds_change_nothing_but_the_position(facts: list[Fact]) -> None:
    """A kind of a newer writer leaves every member of the view, and the next step, as they were."""
    story = Story().unknown()
    data = story.facts[0].data
    assert isinstance(data, UnknownData)
    plain, mixed = View(), View()
    for fact in facts:
        plain = fold(plain, fact)
        mixed = fold(fold(mixed, fact), Fact(fact.seq, "u", 0, fact.run, "moon.phase", data))
        assert mixed == plain
        assert [next_step(mixed, rules) for rules in RULES] == [next_step(plain, rules) for rules in RULES]


@many
@given(garbage)
def test_any_log_has_a_next_step(facts: list[Fact]) -> None:
    """Whatever was folded, the core decides, and names only calls that are open."""
    view = View()
    for fact in facts:
        view = fold(view, fact)
        waiting = {state.call.id for state in view.open_calls}
        for rules in RULES:
            step = next_step(view, rules)
            named = step.calls if isinstance(step, Run | Confirm) else ()
            assert {call.id for call in named} <= waiting
            assert isinstance(step, Idle) == (view.run is None)


@many
@given(garbage, st.sampled_from(STATUSES))
def test_after_a_settle_nothing_is_left_to_do(facts: list[Fact], status: Closing) -> None:
    """A performed Settle closes every call and the run; after it there is no step."""
    story = Story()
    story.facts, story.view = list(facts), fold_all(facts)
    if story.view.run is None:
        assert isinstance(story.step, Idle)
        return
    story.run = story.view.run.id
    story.perform_settle(settle(story.view, status))
    assert isinstance(story.step, Idle)
    assert story.view.open_calls == ()
    assert faults(story.view) == []


@many
@given(simulations)
def test_every_run_ends_and_leaves_no_call_open(simulation: Simulation) -> None:
    """Whatever model, tools and people do, a run settles within its limits unless it stays parked."""
    view = View()
    for fact in simulation.facts:
        view = fold(view, fact)
        if isinstance(fact.data, RunClosed):
            assert view.open_calls == ()
            assert isinstance(next_step(view, simulation.rules), Idle)
        if view.run is not None:
            assert view.run.steps <= simulation.rules.step_limit
            assert view.run.questions <= simulation.rules.question_cap
        assert simulation.rules.tool_budget is None or view.used <= simulation.rules.tool_budget
        assert view.rounds <= simulation.rules.max_tool_rounds + 1
        assert view.continuations <= simulation.rules.max_continuations
    if view.run is not None:
        assert simulation.absent
        assert isinstance(simulation.step, Confirm | Question)


@many
@given(simulations)
def test_a_parked_run_stays_parked_without_an_answer(simulation: Simulation) -> None:
    """While calls wait for a person, nothing but an answer for one of them changes what is asked: no second look at the
    log, no resume, no answer for another call or for other arguments."""
    view, rules = View(), simulation.rules
    for fact in simulation.facts:
        view = fold(view, fact)
        parked = next_step(view, rules)
        if isinstance(parked, Confirm | Question):
            first = parked.calls[0] if isinstance(parked, Confirm) else parked.call
            for data in (*NOISE, ConfirmationAnswered(first.id, "another digest", True)):
                noisy = fold(view, Fact(fact.seq + 1, "n", 0, "another run", KIND_OF.get(type(data), "x"), data))
                assert next_step(noisy, rules) == parked


@many
@given(simulations)
def test_no_call_runs_that_was_not_allowed(simulation: Simulation) -> None:
    """A call runs only when it is allowed, or after an approval given for its present arguments."""
    view = View()
    for fact in simulation.facts:
        step = next_step(view, simulation.rules)
        if isinstance(step, Run):
            for call in step.calls:
                state = view.call(call.id)
                assert state is not None
                assert call == state.call
                assert call.verdict.decision != "deny"
                assert state.approved is not False
                assert not asks(state, simulation.rules)
                assert not is_question(state)
                assert call.verdict.decision == "allow" or state.approved or state.attempts
        view = fold(view, fact)


@many
@given(simulations)
def test_hidden_runs_never_show(simulation: Simulation) -> None:
    """What was said in a run with explicit history is in no history, whatever dies or is compacted; all else is."""
    view = View()
    for fact in simulation.facts:
        view = fold(view, fact)
        shown = [str(message["content"]) for message in history(view)]
        assert not [text for text in shown if text.startswith("hidden")]
        visible = [m.text for m in view.messages if isinstance(m, AssistantMessage) and m.text.startswith("shown")]
        assert [text for text in shown if text in visible] == visible


def test_phases_follow_each_other_as_the_table_says() -> None:
    """Over many simulated runs, exactly the pairs of phases occur that the table lists."""
    seen = {pair for seed in range(1_500) for pair in Simulation(seed).play(2).phases}
    listed = {(phase, then) for phase, row in PHASES.items() for then in row.then}
    assert seen - listed == set()
    assert listed - seen == set()


def test_simulations_reach_every_kind_of_step_and_fact() -> None:
    """The generator is no straw man: it comes to every step, every ending and every kind of fact."""
    played = [Simulation(seed).play() for seed in range(300)]
    steps = {type(step) for one in played for step in one.steps}
    assert steps >= {*LIMITED, Continue, Confirm, Question, Settle, Idle, Run}
    kinds = {fact.kind for one in played for fact in one.facts}
    assert len(kinds) == 11
    codes = {s.error.code if s.error else s.stop_reason for one in played for s in one.steps if isinstance(s, Settle)}
    assert codes >= {"STEP_LIMIT", "LLM_ERROR", "DUPLICATE_TOOL_CALL", "tool_budget", "cancelled", "done"}


@given(logs)
def test_a_view_survives_encode_and_decode(facts: list[Fact]) -> None:
    """The shortcut beside a long log gives back the very view that was encoded, of facts as a log gives them."""
    view = fold_all([decode_line(encode(fact, "")[0].rstrip(b"\n")).fact for fact in facts])
    assert decode_view(encode_view(view)) == view
