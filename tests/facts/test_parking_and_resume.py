"""Calls that wait for a person, and calls whose process died: what is asked, what runs, what is never done twice."""

from __future__ import annotations

import pytest
from factstory import ASK, DENY, Story, a_call, a_question, a_read, faults

from a3s_code.core.content import ALLOW, Call, Verdict
from a3s_code.core.decide.approvals import asks
from a3s_code.core.decide.settle import UNKNOWN_OUTCOME, settle
from a3s_code.core.digest import args_digest
from a3s_code.core.facts import BudgetDenied, RunClosed
from a3s_code.core.rules import Rules
from a3s_code.core.steps import Confirm, Idle, Infer, Question, Record, Run, Settle, Step


def asked(step: Step) -> list[str]:
    assert isinstance(step, Confirm), step
    return [call.id for call in step.calls]


def running(step: Step) -> list[str]:
    assert isinstance(step, Run), step
    return [call.id for call in step.calls]


def outcomes(step: Step) -> list[tuple[str, str]]:
    assert isinstance(step, Record | Settle), step
    return [(item.call.id, item.outcome) for item in step.results]


def ask(call_id: str) -> Call:
    return a_call("bash", call_id, ASK, command=call_id)


# Confirmations


def test_all_asks_of_a_turn_are_published_and_answered_in_any_order() -> None:
    """Everything before the first ask settles; then all asks are put at once, and calls run in call order."""
    story = Story().prompt().turn(a_read("r"), ask("a"), a_call("write", "w"), ask("b"), ask("c"))
    assert running(story.step) == ["r"]
    assert asked(story.ran("r").step) == ["a", "b", "c"]
    assert asked(story.confirmed("c").step) == ["a", "b"]
    assert asked(story.confirmed("b", False, "not that").step) == ["a"]
    assert running(story.confirmed("a").step) == ["a"]
    assert running(story.ran("a", read_only=False).step) == ["w"]
    step = story.ran("w", read_only=False).step
    assert outcomes(step) == [("b", "denied")]
    assert isinstance(step, Record)
    assert (step.results[0].output, step.results[0].kind) == ("Rejected: not that", "confirmation_rejected")
    assert running(story.recorded().step) == ["c"]
    assert isinstance(story.ran("c", read_only=False).step, Infer)


def test_a_call_can_be_answered_before_it_is_asked() -> None:
    """An answer that comes while calls before it still run is used when its turn comes."""
    story = Story().prompt().turn(a_read("r"), ask("a")).confirmed("a").ran("r")
    assert running(story.step) == ["a"]


def test_an_answer_counts_for_its_call_and_arguments_only() -> None:
    """D02, D03, E14: another digest, another call or a second answer changes nothing; changed arguments ask anew."""
    story = Story().prompt().turn(ask("a"), a_call("bash", "free", command="x"))
    before = story.view.turn
    story.confirmed("a", digest=args_digest({"command": "other"})).confirmed("free", False)
    assert story.view.turn == before
    story.confirmed("a").confirmed("a", False)
    assert running(story.step) == ["a"]
    story.judged("a", ASK, command="changed")
    assert asked(story.step) == ["a"]
    story.confirmed("a", digest=args_digest({"command": "a"}))
    assert asked(story.step) == ["a"]
    assert running(story.confirmed("a").step) == ["a"]


def test_digests_depend_on_the_value_only() -> None:
    """D06: the order of members and a round trip through the log are nothing to an approval."""
    story = Story().prompt().turn(Call("a", "bash", {"b": {"y": 1, "x": "\ud800"}, "a": [1]}, ASK))
    story.confirmed("a", digest=args_digest({"a": [1], "b": {"x": "\ufffd", "y": 1}}))
    assert running(story.step) == ["a"]


def test_an_approval_is_used_up_by_a_start() -> None:
    """D02: what ran on an approval has none left; answers that come later are not kept for another time."""
    story = Story(unknown_outcome="ask", can_ask=True).prompt().turn(ask("a")).confirmed("a")
    story.started("a", rerun="unsafe").resumed()
    assert asked(story.step) == ["a"]
    story.confirmed("a").started("a", rerun="unsafe").resumed("r3")
    assert asked(story.step) == ["a"]
    assert story.state("a").attempts == 2


@pytest.mark.parametrize("outcome", ["ok", "error", "unknown"])
def test_answers_after_the_result_change_nothing(outcome: str) -> None:
    """A call that has its result takes no answer, judgement, start or second result."""
    story = Story().prompt().turn(ask("a"), a_question("q"), ask("b")).confirmed("a").started("a", rerun="unsafe")
    story.result("a", outcome="ok" if outcome == "ok" else "error")
    before = story.view
    story.confirmed("a", False).judged("a", DENY).started("a").result("a", output="other").answered("a", "x")
    assert [getattr(story.view, name) for name in before.__struct_fields__ if name != "seq"] == [
        getattr(before, name) for name in before.__struct_fields__ if name != "seq"
    ]


def test_a_second_look_can_only_tighten_what_was_not_changed() -> None:
    """A call judged stricter before it runs is denied or asked for; one that is changed waits apart from its group."""
    story = Story().prompt().turn(a_read("a"), a_read("b"), a_read("c")).judged("a", DENY)
    assert outcomes(story.step) == [("a", "denied")]
    assert asked(story.recorded().judged("b", ASK).step) == ["b"]
    story.confirmed("b").ran("b").judged("c", ALLOW, path="elsewhere")
    assert running(story.step) == ["c"]
    assert not story.state("c").call.parallel


def test_a_call_that_began_and_is_judged_stricter_asks_before_it_runs_again() -> None:
    """A policy that was tightened while the process was gone counts for the second run of an allowed call; D14: an
    answer that was used stays given for the same arguments."""
    story = Story().prompt().turn(a_call("bash", "a")).started("a", rerun="unsafe").resumed()
    assert running(story.step) == ["a"]
    assert asked(story.judged("a", ASK).step) == ["a"]
    assert running(story.confirmed("a").step) == ["a"]
    assert running(story.judged("a", ASK).started("a", rerun="unsafe").resumed("r3").judged("a", ASK).step) == ["a"]
    denied = Story().prompt().turn(a_call("bash", "a")).started("a", rerun="unsafe").resumed().judged("a", DENY)
    assert outcomes(denied.step) == [("a", "unknown")]


def test_questions_wait_in_call_order_and_one_by_one() -> None:
    """D03: an answer is for its own question; the next one waits for its own."""
    story = Story().prompt().turn(a_question("q1"), ask("a"), a_question("q2"))
    step = story.answered("q2", "early").step
    assert isinstance(step, Question)
    assert step.call.id == "q1"
    assert outcomes(story.answered("q1", "one").step) == [("q1", "ok")]
    assert asked(story.recorded().step) == ["a"]
    assert outcomes(story.confirmed("a").ran("a", read_only=False).step) == [("q2", "ok")]


# Resume


def test_a_call_that_never_began_simply_runs() -> None:
    """Without tool.started there was no effect, whatever unknown_outcome says."""
    for rule in ("run", "ask", "report"):
        story = Story(unknown_outcome=rule, can_ask=True).prompt().turn(a_call("bash", "a")).resumed()
        assert running(story.step) == ["a"]


def test_safe_calls_run_again_and_one_by_one() -> None:
    """C10: a read-only call that was interrupted runs again, under every rule; those that never began still group."""
    for rule in ("run", "ask", "report"):
        story = Story(unknown_outcome=rule, can_ask=True).prompt()
        story.turn(*(a_read(f"c{i}") for i in range(4))).started("c0", "c1").resumed()
        assert running(story.step) == ["c0"]
        assert running(story.ran("c0").step) == ["c1"]
        assert running(story.ran("c1").step) == ["c2", "c3"]
        assert story.ran("c2", "c3").at_work.steps == 3


def test_an_unsafe_call_whose_outcome_is_unknown_runs_once_more_by_default() -> None:
    """``run``: it runs again, asked for or not, as its approval was given for these arguments."""
    for call in (a_call("bash", "a"), ask("a")):
        story = Story().prompt().turn(call)
        if call.verdict.decision == "ask":
            story.confirmed("a")
        assert running(story.started("a", rerun="unsafe").resumed().step) == ["a"]


@pytest.mark.parametrize(("rule", "can_ask"), [("report", True), ("report", False), ("ask", False)])
def test_an_unknown_outcome_is_reported(rule: str, can_ask: bool) -> None:
    """``report``, or ``ask`` with nobody to answer: the model is told to look first, and nothing runs."""
    story = Story(unknown_outcome=rule, can_ask=can_ask).prompt().turn(a_call("bash", "a"), a_call("bash", "b"))
    step = story.started("a", rerun="unsafe").resumed().step
    assert outcomes(step) == [("a", "unknown")]
    assert isinstance(step, Record)
    assert step.results[0].output == UNKNOWN_OUTCOME
    assert running(story.recorded().step) == ["b"]


def test_an_unknown_outcome_is_asked_about() -> None:
    """``ask``: approved, it runs; rejected, the model hears that the outcome is unknown, not that nothing happened."""
    story = Story(unknown_outcome="ask", can_ask=True).prompt().turn(a_call("bash", "a")).started("a", rerun="unsafe")
    assert not asks(story.state("a"), Rules(unknown_outcome="ask", can_ask=False))
    assert asked(story.resumed().step) == ["a"]
    assert running(story.confirmed("a").step) == ["a"]
    story = Story(unknown_outcome="ask", can_ask=True).prompt().turn(a_call("bash", "a")).started("a", rerun="unsafe")
    assert outcomes(story.resumed().confirmed("a", False).step) == [("a", "unknown")]


def test_a_parked_call_stays_parked_over_a_restart_and_under_other_options() -> None:
    """D09: what was parked is asked by the next process too, also one where nobody was to be asked."""
    story = Story(can_ask=False).prompt().turn(ask("a"), a_question("q")).resumed()
    assert asked(story.step) == ["a"]
    story.confirmed("a").ran("a", read_only=False).resumed("r3")
    assert isinstance(story.step, Question)


def test_a_resumed_run_goes_on_with_text_usage_and_counts() -> None:
    """Nothing is asked anew: the turn stands, its budget is as it was, and what was said is joined."""
    story = Story().prompt("the prompt").turn(a_read("a")).ran("a").turn(text="half ", finish="length").goes_on()
    story.steer("more").turn(text="half ", finish="length").goes_on().resumed()
    assert story.step == Infer(4)
    assert (story.at_work.prompt, story.at_work.resumes) == ("the prompt", "r1")
    assert story.turn(text="whole").at_work.text == "half whole"
    assert story.at_work.tool_calls == 1


def test_a_budget_that_was_refused_before_the_process_died_still_ends_the_run() -> None:
    """budget.denied is a fact: the next process settles, and runs nothing."""
    story = Story(tool_budget=0).prompt().turn(a_read("a")).add(BudgetDenied("a", 0, 0)).resumed()
    step = story.step
    assert isinstance(step, Settle)
    assert step.stop_reason == "tool_budget"


def test_a_call_that_began_is_finished_under_lower_limits() -> None:
    """The turns with calls are counted when calls begin: one that did is not called denied afterwards."""
    story = Story(max_tool_rounds=0).prompt().turn(a_read("a"), a_read("b")).started("a").resumed()
    assert outcomes(story.step) == [("b", "denied")]
    assert running(story.recorded().step) == ["a"]


# How a run ends


def test_a_new_prompt_settles_what_was_left_open() -> None:
    """B01: calls that began get ``unknown``, the others ``cancelled``; finished results are kept (B11)."""
    story = Story().prompt().turn(a_read("a"), a_call("bash", "b"), ask("c"))
    story.ran("a").started("b", rerun="unsafe")
    story.perform_settle(settle(story.view, "cancelled", why="a new prompt came"))
    assert story.step == Idle()
    assert story.view.open_calls == ()
    assert story.texts()[2:] == ["result of a", UNKNOWN_OUTCOME, "Cancelled: a new prompt came"]
    assert story.view.closed
    assert story.view.closed.stop_reason == "cancelled"


def test_a_run_closed_without_results_is_well_formed_all_the_same() -> None:
    """B01: whatever wrote the log, each open call has one result before the next model turn."""
    story = Story().prompt().turn(a_read("a"), a_read("b")).ran("b")
    story.add(RunClosed("cancelled", 1, stop_reason="cancelled")).prompt("again", "r2").turn(text="hi")
    assert faults(story.view) == []
    assert story.texts() == ["do it", "", "No result was recorded for this call.", "result of b", "again", "hi"]


def test_the_first_closing_fact_wins() -> None:
    """B14: a closing fact of a run that is closed, or of another run, changes nothing."""
    story = Story().prompt().turn(text="done").settled().add(RunClosed("cancelled", 9, stop_reason="cancelled"))
    assert story.view.closed
    assert story.view.closed.status == "completed"
    story.prompt("next", "r2")
    story.run = "r1"
    story.add(RunClosed("cancelled", 9))
    assert story.at_work.id == "r2"


def test_denied_calls_say_why_and_how() -> None:
    """The kind of a denial is the error kind of its result; an unknown tool is an error and not a denial."""
    unknown_tool = Verdict("deny", "Unknown tool: reed. Did you mean read?", "unknown_tool")
    story = Story().prompt().turn(a_call("bash", "a", DENY), a_call("reed", "b", unknown_tool))
    step = story.step
    assert isinstance(step, Record)
    assert [(i.outcome, i.kind, i.output) for i in step.results] == [
        ("denied", "permission_denied", DENY.reason),
        ("error", "unknown_tool", unknown_tool.reason),
    ]
