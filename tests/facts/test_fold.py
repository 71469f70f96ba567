"""What each fact does to the view, in order and out of it; persistent lists and sets below it."""

from __future__ import annotations

from factstory import Story, a_call, a_read, faults, text_of
from hypothesis import given
from hypothesis import strategies as st

from a3s_code.core.chain import Chain, IdSet
from a3s_code.core.content import AssistantMessage, Call, Reasoning, ToolMessage, Usage, UserMessage
from a3s_code.core.digest import args_digest, canonical, encoded_size
from a3s_code.core.facts import BudgetDenied, ModelTurn, ToolResulted, UserSaid
from a3s_code.core.fold import FROM_HISTORY, fold_all
from a3s_code.core.foldcompaction import PRUNE_HEAD, PRUNE_TAIL, SUMMARY_LABEL
from a3s_code.core.state import View
from a3s_code.core.steps import Idle, Infer, Record, Settle


def test_results_join_the_conversation_together_and_in_call_order() -> None:
    """B04: results wait until all are there, whatever order they came in, and then stand behind their turn."""
    story = Story().prompt().turn(a_read("a"), a_read("b"), a_read("c")).started("a", "b", "c")
    story.result("c").result("a")
    assert len(story.view.messages) == 2
    story.result("b", outcome="error")
    assert story.view.messages[2:] == [
        ToolMessage("a", "read", "result of a"),
        ToolMessage("b", "read", "result of b", is_error=True),
        ToolMessage("c", "read", "result of c"),
    ]
    assert story.view.ends_with == "results"


def test_orphan_results_are_dropped() -> None:
    """B02: a result whose call was never made, or has its result, is not sent to any model."""
    story = Story().add(ToolResulted("ghost", "read", "?", 0, "ok")).prompt().turn(a_read("a")).ran("a")
    story.add(ToolResulted("ghost", "read", "?", 0, "ok"), ToolResulted("a", "read", "twice", 0, "ok"))
    assert story.texts() == ["do it", "", "result of a"]
    assert story.view.used == 1


def test_two_calls_with_one_id_are_one_call() -> None:
    """A turn that uses an id twice keeps the first call: the other could have no result of its own."""
    story = Story().prompt().turn(a_read("a", "first"), a_call("bash", "b"), a_call("write", "a"))
    assert [state.call.name for state in story.view.turn] == ["read", "bash"]
    story.ran("a").ran("b", read_only=False)
    assert faults(story.view) == []
    assert story.texts() == ["do it", "", "result of a", "result of b"]


def test_calls_of_history_never_run() -> None:
    """A call that came with the history and has no result there gets one that says so, whoever resumes the log."""
    story = Story().add(UserSaid("old", "history"), ModelTurn("", "history", (a_call("bash", "h"),)))
    assert story.step == Idle()
    step = story.opened("r1", resumes="r0").step
    assert isinstance(step, Record)
    assert [(i.outcome, i.output) for i in step.results] == [("cancelled", FROM_HISTORY.reason)]
    assert isinstance(story.recorded().step, Infer)
    assert story.view.used == 0


def test_a_steer_or_prompt_in_an_unfinished_turn_closes_it() -> None:
    """B12: the message is kept and the open calls get their results before it."""
    story = Story().prompt().turn(a_read("a"), a_read("b")).ran("b").steer("stop that")
    assert faults(story.view) == []
    assert story.texts()[-3:] == ["No result was recorded for this call.", "result of b", "stop that"]
    assert story.view.open_calls == ()
    assert story.at_work.prompt == "do it"


def test_usage_and_counts_are_the_runs_own() -> None:
    """Tokens and calls add up over a run; a new prompt's run begins at nothing."""
    story = Story().prompt().turn(a_read("a"), usage=Usage(10, 2, 12, 4, 1)).ran("a")
    story.turn(text="x", usage=Usage(20, 3, 23, estimated=True))
    assert story.at_work.usage == Usage(30, 5, 35, 4, 1, estimated=True)
    assert story.at_work.tool_calls == 1
    assert story.view.reported_tokens == 12
    story.settled().prompt("next", "r2")
    assert (story.at_work.usage, story.at_work.tool_calls, story.at_work.text) == (Usage(), 0, "")


def test_a_budget_refusal_needs_a_call_that_waits() -> None:
    """A refusal of a call that is not open changes nothing, so that it can't end a later run."""
    story = Story().add(BudgetDenied("c1", 8, 8)).prompt().turn(text="done")
    step = story.step
    assert isinstance(step, Settle)
    assert step.stop_reason == "done"


def test_a_run_without_anything_to_answer_settles() -> None:
    """An empty log that is resumed has nothing to say to a model."""
    step = Story().opened("r1", resumes="r0").step
    assert isinstance(step, Settle)
    assert step.status == "completed"


# Compaction


def long_story() -> Story:
    """do it, turn a, result a, turn b, result b, one more prompt: facts 2, 3, 5, 6, 8, 9."""
    story = Story().prompt().turn(a_read("a"), text="A").ran("a").turn(a_read("b"), text="B").ran("b")
    return story.steer("and")


def test_a_compaction_replaces_what_came_before_its_mark() -> None:
    """Up to the mark there is one summary; the rest stays, and the generation says that the past changed."""
    story = long_story().compacted(5)
    assert story.texts() == [SUMMARY_LABEL + "what happened", "B", "result of b", "and"]
    assert (story.view.generation, story.view.reported_tokens) == (1, 0)
    assert faults(story.view) == []


def test_a_compaction_never_parts_a_call_from_its_result() -> None:
    """B05: a mark inside a turn moves back to before the turn, also when its calls are still open."""
    for upto in (6, 7):
        assert long_story().compacted(upto).texts()[1:] == ["B", "result of b", "and"]
    story = Story().prompt().turn(a_read("a"), a_read("b"), text="A").ran("b").compacted(99)
    assert story.texts()[1:] == ["A"]
    assert story.ran("a").texts()[1:] == ["A", "result of a", "result of b"]
    assert faults(story.view) == []


def test_a_compaction_keeps_the_answer_that_a_run_ends_with() -> None:
    """B06: a finished turn is not opened again by what is summarised meanwhile."""
    story = Story().prompt().turn(text="the answer").compacted(99)
    assert story.texts()[1:] == ["the answer"]
    assert isinstance(story.step, Settle)


def test_folding_a_compaction_again_changes_nothing() -> None:
    """The same mark twice gives the same conversation, down to pruned outputs and the generation."""
    story = Story().prompt().turn(a_read("a")).started("a").result("a", output="o" * 9_000)
    story.turn(text="B").steer("and").compacted(2, pruned=("a",))
    once = story.view
    story.compacted(2, pruned=("a",))
    assert (story.view.messages, story.view.generation) == (once.messages, once.generation)
    assert story.view.message_seqs == once.message_seqs


def test_compactions_go_on_from_each_other() -> None:
    """C: a later mark takes the earlier summary in; a mark beyond the log does not stop later ones."""
    story = long_story().compacted(5, "one").compacted(999, "two")
    assert story.texts() == [SUMMARY_LABEL + "two"]
    story.steer("next").turn(text="C").steer("last").compacted(12, "three")
    assert story.texts() == [SUMMARY_LABEL + "three", "C", "last"]
    assert story.view.generation == 3


def test_pruned_outputs_keep_head_and_tail_and_say_what_is_missing() -> None:
    """Only outputs over 2 KiB of the calls named are cut; short ones stay whole."""
    story = Story().prompt().turn(a_read("a"), a_read("b"), a_read("c")).started("a", "b", "c")
    story.result("a", output="h" * 3_000 + "t" * 3_000).result("b", output="s" * 2_048).result("c", output="k" * 9_000)
    story.compacted(0, "", pruned=("a", "b"))
    a, b, c = (text_of(message) for message in story.view.messages[2:])
    assert a.startswith("h" * PRUNE_HEAD + "\n[… 4464 characters left out;")
    assert a.endswith("]\n" + "t" * PRUNE_TAIL)
    assert (len(b), len(c)) == (2_048, 9_000)


def test_an_empty_summary_up_to_the_last_fact_empties_the_conversation() -> None:
    """What /clear records: nothing is carried, and the next prompt begins anew."""
    story = Story().prompt().turn(text="x").settled()
    story.compacted(len(story.facts), "")
    assert story.texts() == []
    assert story.step == Idle()
    assert isinstance(story.opened("r2", resumes="r1").step, Settle)
    assert story.settled().prompt("fresh", "r3").texts() == ["fresh"]


def test_a_compaction_that_gains_nothing_is_not_repeated_at_once() -> None:
    """B06: a compaction fact that replaces nothing leaves the conversation alone, and the request goes out."""
    story = Story(auto_compact=True, window=10).prompt("x" * 100)
    story.compacted(0, "")
    assert (story.view.generation, story.texts()) == (0, ["x" * 100])
    assert isinstance(story.step, Infer)


def test_carried_characters_count_text_reasoning_arguments_and_results() -> None:
    """The size is that of what goes out, the same before and after a compaction."""
    story = Story().prompt("12345")
    story.turn(Call("a", "read", {"p": "ü"}), text="abc", reasoning=(Reasoning("why"),))
    story.turn(Call("b", "ls", {}, raw="{bad", fault="bad"), text="")
    assert (
        story.view.carried
        == 5 + 3 + 3 + 4 + encoded_size({"p": "ü"}) + len("No result was recorded for this call.") + 6
    )
    carried = story.view.carried
    assert story.compacted(0).view.carried == carried


# Lists and sets that share memory


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 99)), max_size=40))
def test_chains_keep_their_past_whatever_their_futures(appends: list[tuple[int, int]]) -> None:
    """Appending to any earlier chain never changes another one."""
    chains: list[tuple[Chain[int], list[int]]] = [(Chain(), [])]
    for which, item in appends:
        chain, plain = chains[which % len(chains)]
        chains.append((chain.append(item), [*plain, item]))
    for chain, plain in chains:
        assert list(chain) == plain
        assert (len(chain), chain.tail(1), chain[:2], chain[-2:]) == (len(plain), plain[1:], plain[:2], plain[-2:])
        assert chain == Chain(plain)


@given(st.lists(st.tuples(st.integers(0, 9), st.lists(st.sampled_from("abcdef"), max_size=3)), max_size=30))
def test_id_sets_keep_their_past_whatever_their_futures(adds: list[tuple[int, list[str]]]) -> None:
    """Adding to any earlier set never changes another one."""
    sets: list[tuple[IdSet, set[str]]] = [(IdSet(), set())]
    for which, ids in adds:
        known, plain = sets[which % len(sets)]
        sets.append((known.add(ids), plain | set(ids)))
    for known, plain in sets:
        assert set(known) == plain
        assert len(known) == len(plain)
        assert {name for name in "abcdefg" if name in known} == plain


def test_a_view_has_two_futures() -> None:
    """A fork of a log goes on apart from it."""
    story = Story().prompt().turn(a_read("a")).ran("a")
    at = story.view
    one = story.turn(text="one").view
    other = fold_all(Story().prompt().turn(a_read("a")).ran("a").turn(a_read("b"), text="other").facts[-1:], at)
    assert [text_of(m) for m in at.messages] == ["do it", "", "result of a"]
    assert text_of(one.messages[-1]) == "one"
    assert text_of(other.messages[-1]) == "other"
    assert ("b" in one.call_ids, "b" in other.call_ids, "b" in at.call_ids) == (False, True, False)


def test_digests_ignore_order_and_lone_surrogates() -> None:
    """Equal values have equal digests; text that is no Unicode has that of what is stored for it."""
    assert args_digest({"a": 1, "b": [2]}) == args_digest({"b": [2], "a": 1})
    assert args_digest({"a": 1}) != args_digest({"a": "1"})
    assert args_digest({"a\ud800": "\ud83d\ude00"}) == args_digest({"a\ufffd": "😀"})
    assert canonical({"b": "\udfff", "a": None}) == '{"a":null,"b":"\ufffd"}'


def test_an_empty_view_is_quiescent() -> None:
    """Nothing folded, nothing to do."""
    assert fold_all([]) == View()
    assert Story().step == Idle()
    assert Story().prompt().view.messages[0] == UserMessage("do it")
    assert isinstance(Story().prompt().turn(text="x").view.messages[-1], AssistantMessage)
