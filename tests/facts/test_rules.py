"""The rules of facts.md, *Rules*: each limit as its table says, and named when it ends a run."""

from __future__ import annotations

import pytest
from factstory import DENY, Story, a_call, a_question, a_read

from a3s_code.core.content import AssistantMessage, Call, Json, ToolMessage, Usage, Verdict
from a3s_code.core.decide.approvals import asks
from a3s_code.core.facts import BudgetDenied, CompactionDone, ModelTurn, ToolResulted, UserSaid
from a3s_code.core.facts.runs import Failure
from a3s_code.core.steps import Compact, Confirm, Continue, Deny, Infer, Question, Record, Run, Settle


def settle_of(story: Story) -> Settle:
    step = story.step
    assert isinstance(step, Settle), step
    return step


def failure_of(story: Story) -> Failure:
    error = settle_of(story).error
    assert error is not None
    return error


def names(step: object) -> list[str]:
    assert isinstance(step, Run), step
    return [call.id for call in step.calls]


# Step limit


def test_the_step_limit_counts_model_calls_single_calls_groups_and_compactions() -> None:
    """A model call, one call, a parallel group and a compaction are one step each; refusals and answers are none."""
    story = Story(step_limit=99).prompt()
    calls = (a_read("a"), a_read("b"), a_call("bash", "c"), a_call("bash", "d", DENY), a_question("e"))
    story.turn(*calls)
    assert story.at_work.steps == 1
    story.recorded().ran("a", "b").ran("c", read_only=False).answered("e", "x").recorded()
    assert story.at_work.steps == 3
    story.compacted(2)
    assert story.at_work.steps == 4


def test_a_group_that_the_budget_or_a_denied_call_parts_is_counted_as_it_ran() -> None:
    """Calls started while nothing beside them is at work are a step; ones started together are one, whatever between
    them was denied."""
    story = Story().prompt().turn(a_read("a"), a_call("bash", "x", DENY), a_read("b"), a_read("c"))
    story.recorded().ran("a", "b")
    assert story.at_work.steps == 2
    story.ran("c")
    assert story.at_work.steps == 3


def test_past_the_step_limit_the_run_fails_and_names_it() -> None:
    """With all steps taken the next counted step becomes a failure that says step_limit, and open calls are closed."""
    story = Story(step_limit=2).prompt().turn(a_read("a")).ran("a")
    step = settle_of(story)
    assert step.status == "failed"
    assert failure_of(story).code == "STEP_LIMIT"
    assert "step_limit=2" in failure_of(story).message
    story = Story(step_limit=1).prompt().turn(a_read("a"))
    assert [(item.call.id, item.outcome) for item in settle_of(story).results] == [("a", "cancelled")]


def test_at_the_step_limit_nobody_is_asked_to_go_on_in_vain() -> None:
    """A cut answer at the limit fails the run at once: the request to go on would have no step left."""
    story = Story(step_limit=1).prompt().turn(text="half", finish="length")
    assert settle_of(story).error == settle_of(Story(step_limit=1).prompt().turn(a_read("a"))).error


def test_an_answer_within_the_last_step_is_no_failure() -> None:
    """The limit stops further steps, not a run that is done."""
    assert settle_of(Story(step_limit=1).prompt().turn(text="done")).status == "completed"


def test_a_resumed_run_counts_its_own_steps() -> None:
    """The limit is one of a resume_run call: it begins anew."""
    story = Story(step_limit=2).prompt().turn(a_read("a")).ran("a").settled().resumed()
    assert story.step == Infer(2)
    assert story.at_work.steps == 0


# Tool budget


def test_the_budget_takes_successful_results_and_refuses_the_next_call() -> None:
    """Eight results are taken; the ninth call records budget.denied and the turn ends without it or those after."""
    story = Story(step_limit=99).prompt()
    for i in range(8):
        story.turn(a_read(f"c{i}")).ran(f"c{i}")
    story.turn(a_read("over"), a_read("after"))
    assert story.step == Deny(a_read("over"), 8, 8)
    story.add(BudgetDenied("over", 8, 8))
    step = settle_of(story)
    assert (step.status, step.stop_reason, step.error) == ("completed", "tool_budget", None)
    assert [(item.call.id, item.outcome) for item in step.results] == [("over", "cancelled"), ("after", "cancelled")]
    assert "8 results" in step.results[0].output


def test_failed_and_denied_results_cost_no_budget() -> None:
    """Only an ok result is counted."""
    story = Story(tool_budget=1).prompt().turn(a_read("a"), a_read("b"), a_call("bash", "c", DENY))
    story.recorded().ran("a", outcome="error")
    assert names(story.step) == ["b"]


def test_a_parallel_group_takes_at_most_what_is_left() -> None:
    """With three results left, three of five parallel calls run; after them the budget is used up, or it goes on with
    what failures left over."""
    calls = tuple(a_read(f"c{i}") for i in range(5))
    story = Story(tool_budget=3).prompt().turn(*calls)
    assert names(story.step) == ["c0", "c1", "c2"]
    assert isinstance(story.ran("c0", "c1", "c2").step, Deny)
    story = Story(tool_budget=3).prompt().turn(*calls).started("c0", "c1", "c2").result("c0", "c1")
    story.result("c2", outcome="error")
    assert names(story.step) == ["c3"]


def test_a_used_up_budget_asks_nobody() -> None:
    """Neither a confirmation nor a question is put to a person for a call that the budget refuses anyway, and an answer
    given early doesn't lift it."""
    for call in (a_call("bash", "x", Verdict("ask", "why")), a_question("x")):
        story = Story(tool_budget=1).prompt().turn(a_read("a"), call)
        if call.name == "ask_user":
            story.answered("x", "early")
        assert isinstance(story.ran("a").step, Deny)


def test_without_a_budget_nothing_is_refused() -> None:
    """tool_budget=None lifts it."""
    story = Story(tool_budget=None, step_limit=99).prompt()
    for i in range(20):
        story.turn(a_read(f"c{i}")).ran(f"c{i}")
    assert names(story.turn(a_read("more")).step) == ["more"]


@pytest.mark.parametrize("source", ["prompt", "steer"])
def test_a_prompt_or_steer_renews_budget_rounds_and_continuations(source: str) -> None:
    """An applied steer is a user.message and resets what is counted since the last one."""
    story = Story().prompt().turn(a_read("a")).ran("a").turn(text="x", finish="length").goes_on()
    assert (story.view.used, story.view.rounds, story.view.continuations) == (1, 1, 1)
    story.add(UserSaid("again", "prompt" if source == "prompt" else "steer"))
    assert (story.view.used, story.view.rounds, story.view.continuations) == (0, 0, 0)


def test_continuations_and_seeded_history_neither_reset_nor_spend() -> None:
    """Only prompts and steers reset; results and turns of history are not counted."""
    story = Story().prompt().turn(a_read("a")).ran("a").turn(text="x", finish="length").goes_on()
    before = (story.view.used, story.view.rounds, story.view.continuations, story.view.turns, story.view.run)
    story.add(UserSaid("old", "history"), ModelTurn("", "history", (a_read("h"),)))
    story.add(ToolResulted("h", "read", "old result", 0, "ok", source="history"))
    after = (story.view.used, story.view.rounds, story.view.continuations, story.view.turns, story.view.run)
    assert after == before


# Rounds


def test_after_the_last_round_the_model_gets_no_tools_and_its_calls_are_denied() -> None:
    """H23: with the rounds used up the request has no tools; calls made all the same are denied with the reason, and
    the run settles."""
    story = Story(max_tool_rounds=2).prompt()
    assert story.step == Infer(1, tools=True)
    story.turn(a_read("a")).ran("a").turn(a_read("b")).ran("b")
    assert story.step == Infer(3, tools=False)
    story.turn(a_read("c"), a_call("bash", "d", Verdict("ask", "why")))
    step = story.step
    assert isinstance(step, Record)
    assert [(item.call.id, item.outcome, item.kind) for item in step.results] == [
        ("c", "denied", "limit_exceeded"),
        ("d", "denied", "limit_exceeded"),
    ]
    assert "max_tool_rounds" in step.results[0].output
    assert settle_of(story.recorded()).status == "completed"


def test_a_text_after_the_last_round_ends_the_run() -> None:
    """The answer in text that was asked for is the result."""
    story = Story(max_tool_rounds=1).prompt().turn(a_read("a")).ran("a").turn(text="all I know")
    assert settle_of(story).status == "completed"
    assert story.at_work.text == "all I know"


# Continuation


def test_answers_cut_by_length_are_continued_and_joined() -> None:
    """A cut answer is asked to go on, up to the limit, and the pieces are one text."""
    story = Story(max_continuations=3, step_limit=99).prompt()
    for piece in ("one ", "two ", "three "):
        step = story.turn(text=piece, finish="length").step
        assert isinstance(step, Continue)
        assert "cut off" in step.text
        story.goes_on()
    story.turn(text="four", finish="length")
    assert settle_of(story).status == "completed"
    assert story.at_work.text == "one two three four"
    assert story.view.continuations == 3


def test_only_the_continuation_of_a_cut_answer_is_joined() -> None:
    """A new answer, one after tools or after a steer, replaces the text; an empty one keeps it."""
    story = Story().prompt().turn(text="half ", finish="length").steer().turn(text="new")
    assert story.at_work.text == "new"
    story = Story().prompt().turn(a_read("a"), text="looking", finish="length").ran("a").turn(text="found")
    assert story.at_work.text == "found"
    assert story.goes_on().turn().at_work.text == "found"


def test_an_empty_answer_is_asked_for_again_and_fails_when_it_stays_empty() -> None:
    """Neither text nor a call: the model is asked to go on; past the limit, with nothing done, that is LLM_ERROR."""
    story = Story(max_continuations=1).prompt().turn(text="  \n")
    step = story.step
    assert isinstance(step, Continue)
    assert "empty" in step.text
    assert failure_of(story.goes_on().turn()).code == "LLM_ERROR"


def test_an_empty_answer_after_work_was_done_completes_the_run() -> None:
    """A model that has nothing to add to what its tools did has not failed."""
    story = Story(max_continuations=0).prompt().turn(a_read("a")).ran("a").turn()
    assert settle_of(story).status == "completed"


def test_continuation_can_be_switched_off() -> None:
    """Without it a cut answer is the answer, and an empty one fails."""
    assert settle_of(Story(continuation=False).prompt().turn(text="half", finish="length")).status == "completed"
    assert settle_of(Story(continuation=False).prompt().turn()).status == "failed"


# Malformed calls


def bad_call(call_id: str) -> Call:
    return Call(call_id, "read", {}, raw='{"path": "a', fault="Unterminated string at char 9")


def test_malformed_calls_are_given_back_with_the_fault_and_siblings_run() -> None:
    """A15: the bad call gets one error that says what is wrong; good calls of the same turn still run."""
    story = Story().prompt().turn(bad_call("a"), a_read("b"))
    step = story.step
    assert isinstance(step, Record)
    assert [(i.call.id, i.outcome, i.kind) for i in step.results] == [("a", "error", "invalid_argument")]
    assert "Unterminated string at char 9" in step.results[0].output
    assert names(story.recorded().step) == ["b"]


def test_malformed_calls_in_a_row_end_the_run() -> None:
    """Two are given back; the third in a row is LLM_ERROR and names fault and option. A good turn begins a new row."""
    story = Story(step_limit=99).prompt()
    for i in range(2):
        story.turn(bad_call(f"a{i}")).recorded()
    story.turn(a_read("good")).ran("good")
    for i in range(2):
        story.turn(bad_call(f"b{i}")).recorded()
    assert isinstance(story.step, Infer)
    failure = failure_of(story.turn(bad_call("b2")))
    assert failure.code == "LLM_ERROR"
    assert "max_parse_retries=2" in failure.message
    assert "Unterminated" in failure.message
    assert [item.call.id for item in settle_of(story).results] == ["b2"]


# Duplicates


def same(call_id: str, name: str = "read") -> Call:
    return a_call(name, call_id, path="same", n=1)


def test_an_identical_call_is_refused_and_then_fails_the_turn() -> None:
    """H22: after three of the last eight the fourth is refused with an explanation; made again it ends the run."""
    story = Story(step_limit=99).prompt()
    for i in range(3):
        story.turn(same(f"a{i}")).ran(f"a{i}")
    step = story.turn(Call("a3", "read", {"n": 1, "path": "same"})).step
    assert isinstance(step, Record)
    assert (step.results[0].outcome, step.results[0].kind) == ("blocked", "duplicate_call")
    assert "already ran 3 times" in step.results[0].output
    assert isinstance(story.recorded().step, Infer)
    story.turn(same("a4")).recorded()
    assert failure_of(story).code == "DUPLICATE_TOOL_CALL"
    assert "'read'" in failure_of(story).message


def test_the_model_sees_a_refusal_before_a_repetition_counts() -> None:
    """Several refused calls of one turn are one refusal; two calls refused in turns are each remembered."""
    story = Story(step_limit=99, tool_budget=None).prompt()
    for i in range(3):
        story.turn(same(f"a{i}"), same(f"b{i}", "ls")).ran(f"a{i}").ran(f"b{i}")
    story.turn(same("a3"), same("a4"), same("b3", "ls")).recorded().recorded().recorded()
    assert isinstance(story.step, Infer)
    story.turn(same("a5")).recorded()
    assert failure_of(story).code == "DUPLICATE_TOOL_CALL"


def test_a_call_that_runs_takes_the_refusal_back() -> None:
    """After another call ran, the refused one is only refused again."""
    story = Story(step_limit=99).prompt()
    for i in range(3):
        story.turn(same(f"a{i}")).ran(f"a{i}")
    story.turn(same("a3")).recorded().turn(a_read("b")).ran("b").turn(same("a4")).recorded()
    assert isinstance(story.step, Infer)


def test_equal_calls_of_one_parallel_group_are_seen() -> None:
    """A group stops where the calls before it make the next one a duplicate."""
    story = Story().prompt().turn(*(a_read(f"c{i}", "same") for i in range(5)))
    assert names(story.step) == ["c0", "c1", "c2"]
    step = story.ran("c0", "c1", "c2").step
    assert isinstance(step, Record)
    assert step.results[0].call.id == "c3"


@pytest.mark.parametrize("test_outcome", ["ok", "error"])
def test_test_edit_test_loops_are_never_refused(test_outcome: str) -> None:
    """A different, successful call that changes something clears the window, however often tests ran."""
    story = Story(step_limit=999, tool_budget=None).prompt()
    for i in range(12):
        for round_ in range(2):
            story.turn(a_call("bash", f"t{i}-{round_}", command="pytest"))
            assert isinstance(story.step, Run)
            story.started(f"t{i}-{round_}", rerun="unsafe", read_only=False)
            story.result(f"t{i}-{round_}", outcome="ok" if test_outcome == "ok" else "error")
        story.turn(a_call("edit", f"e{i}", old=str(i))).ran(f"e{i}", read_only=False)
    assert isinstance(story.step, Infer)


def test_the_same_edit_clears_the_window_for_other_calls_again() -> None:
    """Also a change that was made before counts as a change for what is different from it."""
    story = Story(step_limit=999, tool_budget=None).prompt()
    story.turn(a_call("edit", "e0", old="x")).ran("e0", read_only=False)
    for i in range(2):
        story.turn(same(f"a{i}")).ran(f"a{i}")
    story.turn(a_call("edit", "e1", old="x")).ran("e1", read_only=False)
    for i in range(2, 4):
        story.turn(same(f"a{i}"))
        assert isinstance(story.step, Run)
        story.ran(f"a{i}")


def test_failed_changes_and_reads_leave_the_window() -> None:
    """Only a successful change clears it."""
    for read_only, outcome in ((True, "ok"), (False, "error")):
        story = Story(step_limit=99).prompt()
        for i in range(3):
            story.turn(same(f"a{i}")).ran(f"a{i}")
        story.turn(a_call("edit", "e", old="x")).started("e", rerun="unsafe", read_only=read_only)
        story.result("e", outcome="ok" if outcome == "ok" else "error")
        assert isinstance(story.turn(same("a3")).step, Record)


# Questions


def test_the_question_cap_refuses_the_next_question() -> None:
    """With the cap reached a further ask_user fails with the text of the table, also when it was answered early."""
    story = Story(question_cap=2, step_limit=99).prompt()
    for i in range(2):
        story.turn(a_question(f"q{i}")).answered(f"q{i}", "yes").recorded()
    for early in (False, True):
        story.turn(a_question(f"more{early}"))
        if early:
            story.answered("moreTrue", "yes")
        step = story.step
        assert isinstance(step, Record)
        assert (step.results[0].outcome, step.results[0].output) == ("error", "ask_user question cap exceeded")
        story.recorded()


def test_a_question_is_put_once_and_its_answer_is_the_result() -> None:
    """The result is the answer; ``selected`` names the offered options that it holds. A rule that asks first adds
    nothing; a question without text is run, so that it is told what is missing."""
    options: list[Json] = ["red", {"label": "blue", "description": "like the sky"}]
    for verdict in (Verdict("allow"), Verdict("ask", "rule")):
        story = Story().prompt().turn(Call("q", "ask_user", {"question": "Colour?", "options": options}, verdict))
        assert isinstance(story.step, Question)
        assert not asks(story.state("q"), story.rules)
        step = story.answered("q", "blue, green").answered("q", "red").step
        assert isinstance(step, Record)
        assert step.results[0].output == "blue, green"
        assert step.results[0].metadata == {"question_id": "q", "answer": "blue, green", "selected": ["blue"]}
    assert isinstance(Story().prompt().turn(a_call("ask_user", "q")).step, Run)
    assert isinstance(Story().prompt().turn(a_call("ask_user", "q", DENY, question="?")).step, Record)


# Compaction


def test_a_full_window_is_compacted_before_a_request_once_and_three_times_a_run() -> None:
    """At the threshold the next request waits for a compaction: one for each request, three for each run."""
    story = Story(auto_compact=True, window=100, compact_threshold=0.5, step_limit=99).prompt("x" * 300)
    for turn in range(1, 5):
        if turn <= 3:
            assert isinstance(story.step, Compact)
            story.add(CompactionDone("", 0, 75, 75)).unknown()
        assert story.step == Infer(turn)
        story.turn(a_read(f"c{turn}")).ran(f"c{turn}")
    assert story.at_work.compactions == 3


def test_nothing_is_compacted_below_the_threshold_or_when_it_is_off() -> None:
    """Off is the default; fixed parts of the request count, and the provider's own count is never undercut."""
    assert isinstance(Story().prompt("x" * 10_000_000).step, Infer)
    rules = {"auto_compact": True, "window": 100, "compact_threshold": 0.8}
    assert isinstance(Story(**rules).prompt("x" * 316).step, Infer)
    assert Story(**rules).prompt("x" * 317).step == Compact(80)
    assert Story(fixed_tokens=40, **rules).prompt("x" * 160).step == Compact(80)
    reported = Story(**rules).prompt("x").turn(a_read("a"), usage=Usage(85, 5, 90)).ran("a")
    assert reported.step == Compact(90)
    guessed = Story(**rules).prompt("x").turn(a_read("a"), usage=Usage(85, 5, 90, estimated=True)).ran("a")
    assert isinstance(guessed.step, Infer)


def test_the_order_of_a_turn_holds_its_parts_back() -> None:
    """Denied calls are settled at once, reads run together, others one by one, and an ask holds back what follows."""
    ask = Verdict("ask", "why")
    calls = (
        a_read("r1"),
        a_read("r2"),
        a_call("write", "w1"),
        a_call("write", "w2"),
        a_call("bash", "ask", ask),
        a_read("r3"),
        a_call("bash", "no", DENY),
    )
    story = Story(tool_budget=None).prompt().turn(*calls)
    step = story.step
    assert isinstance(step, Record)
    assert [item.call.id for item in step.results] == ["no"]
    assert names(story.recorded().step) == ["r1", "r2"]
    assert names(story.started("r1", "r2").result("r2", "r1").step) == ["w1"]
    assert names(story.ran("w1", read_only=False).step) == ["w2"]
    assert isinstance(story.ran("w2", read_only=False).step, Confirm)
    assert names(story.confirmed("ask").step) == ["ask"]
    assert names(story.ran("ask", read_only=False).step) == ["r3"]
    story.ran("r3")
    assert [m.call for m in story.view.messages if isinstance(m, ToolMessage)] == [call.id for call in calls]
    assert isinstance(story.view.messages[1], AssistantMessage)
