"""Explicit history: what ``history`` gives, ``seed`` takes back; what was said aside is never shown."""

from __future__ import annotations

import json
from typing import Any

import pytest
from factstory import Story, a_call, a_question, a_read
from generated import Simulation, simulations
from hypothesis import given, settings

from a3s_code.core.assemble import parse_arguments
from a3s_code.core.content import AttachmentRef, Call, JsonObject, Reasoning
from a3s_code.core.facts import ToolResulted, UserSaid
from a3s_code.core.foldcompaction import SUMMARY_LABEL
from a3s_code.core.history import history, seed
from a3s_code.errors import CodeError


def contents(story: Story) -> list[Any]:
    return [message["content"] for message in history(story.view)]


def test_history_is_openai_shaped() -> None:
    """User, assistant with calls and reasoning, and tool messages, with arguments as compact JSON text."""
    story = Story().prompt("hello")
    story.turn(Call("a", "read", {"z": 1, "path": "ü"}), text="let me see", reasoning=(Reasoning("hm"), Reasoning("!")))
    story.ran("a")
    assert history(story.view) == [
        {"role": "user", "content": "hello"},
        {
            "role": "assistant",
            "content": "let me see",
            "reasoning_content": "hm!",
            "tool_calls": [
                {"id": "a", "type": "function", "function": {"name": "read", "arguments": '{"path":"ü","z":1}'}}
            ],
        },
        {"role": "tool", "tool_call_id": "a", "name": "read", "content": "result of a"},
    ]


def test_history_is_a_copy_of_what_is_there_now() -> None:
    """Results of an unfinished turn are shown as they come; changing what was given changes nothing."""
    story = Story().prompt().turn(a_read("a"), a_read("b")).started("a", "b").result("b")
    assert contents(story) == ["do it", "", "result of b"]
    history(story.view)[0]["content"] = "changed"
    assert contents(story)[0] == "do it"


# Runs with explicit history


def test_a_side_run_is_hidden_while_it_works_and_for_good() -> None:
    """Prompt, answer, calls and results of a run with explicit history are left out; later turns see them."""
    story = Story().prompt("one").turn(text="first").settled()
    before = history(story.view)
    story.prompt("aside", "r2", side=True)
    assert history(story.view) == before
    story.turn(a_read("a"), text="looking").started("a").result("a")
    assert history(story.view) == before
    story.turn(text="aside done").settled()
    assert history(story.view) == before
    story.prompt("two", "r3").turn(text="second").settled()
    assert contents(story) == ["one", "first", "two", "second"]
    assert "aside done" in story.texts()


def test_seeds_of_a_side_run_are_hidden_with_it() -> None:
    """On an empty log the explicit history becomes facts of the side run, and history() stays empty."""
    story = (
        Story().opened("r1", side=True).add(*seed([{"role": "user", "content": "old"}])).add(UserSaid("p", "prompt"))
    )
    assert history(story.turn(text="answer").settled().view) == []
    assert story.texts() == ["old", "p", "answer"]


def test_a_resumed_side_run_stays_hidden() -> None:
    """Whatever the resuming process says of the run: the results of its open calls and its answer are left out."""
    story = Story().prompt("one").turn(text="first").settled().prompt("aside", "r2", side=True).turn(a_read("a"))
    story.opened("r3", side=False, resumes="r2").ran("a").turn(text="aside done").settled()
    assert contents(story) == ["one", "first"]
    shown = Story().prompt("one").turn(a_read("a")).opened("r2", side=True, resumes="r1").ran("a").turn(text="x")
    assert contents(shown) == ["one", "", "result of a", "x"]


def test_a_side_run_on_an_unfinished_turn_takes_none_of_it() -> None:
    """A run that begins while another was left open closes its turn first; no result is parted from its call."""
    story = Story().prompt("one").turn(a_read("a")).prompt("aside", "r2", side=True).turn(text="x").settled()
    assert contents(story) == ["one", "", "No result was recorded for this call."]


@pytest.mark.parametrize(
    ("upto", "shown"),
    [
        (3, ["S", "two", "second"]),  # one, first
        (6, ["S", "two", "second"]),  # … and aside
        (10, ["S", "second"]),  # … and two
        (99, ["S"]),
    ],
)
def test_side_runs_stay_hidden_over_compactions(upto: int, shown: list[str]) -> None:
    """Ranges move with what they hide; a summary of shown messages is shown, also when it covers hidden ones."""
    story = Story().prompt("one").turn(text="first").settled().prompt("aside", "r2", side=True).turn(text="hidden")
    story.settled().prompt("two", "r3").turn(text="second").settled().compacted(upto, "S")
    assert [str(text).removeprefix(SUMMARY_LABEL) for text in contents(story)] == shown
    story.prompt("three", "r4").turn(text="third").settled().compacted(3, "S")
    assert [str(text).removeprefix(SUMMARY_LABEL) for text in contents(story)] == [*shown, "three", "third"]


def test_a_summary_of_hidden_messages_only_is_hidden() -> None:
    """What was said aside does not come back as a summary."""
    story = Story().prompt("aside", side=True).turn(text="hidden").settled().prompt("one", "r2").turn(text="first")
    assert contents(story.compacted(3, "S")) == ["one", "first"]
    assert contents(story.settled().compacted(4, "S2")) == ["one", "first"]
    assert story.texts()[0] == SUMMARY_LABEL + "S2"


def test_neighbouring_side_runs_become_one_hidden_summary() -> None:
    """Ranges that a summary swallows are one range, so that their number doesn't grow with the session."""
    story = Story().prompt("aside", side=True).turn(text="x").settled().prompt("more", "r2", side=True).turn(text="y")
    story.settled().prompt("one", "r3").compacted(len(story.facts) - 3, "S")
    assert story.view.sides == ((0, 1),)
    assert contents(story) == ["one"]


def test_a_side_run_may_be_compacted_while_it_works() -> None:
    """An open range stays open."""
    story = Story().prompt("one").turn(text="first").settled().prompt("aside", "r2", side=True).turn(a_read("a"))
    story.ran("a").compacted(5, "S").turn(text="hidden")
    assert contents(story) == [SUMMARY_LABEL + "S"]
    assert contents(story.settled().prompt("two", "r3")) == [SUMMARY_LABEL + "S", "two"]


# Back


@settings(max_examples=100, deadline=None)
@given(simulations)
def test_seeding_a_history_gives_that_history(simulation: Simulation) -> None:
    """Seeds of any session's history fold to the same history, up to the spelling of arguments."""
    given_ = history(simulation.view)
    assert [parsed(m) for m in history(Story().add(*seed(given_)).view)] == [parsed(m) for m in given_]


def parsed(message: JsonObject) -> JsonObject:
    """The message with its calls' arguments read, where they are JSON."""
    shaped = json.loads(json.dumps(message))
    for call in shaped.get("tool_calls", []):
        args, fault = parse_arguments(call["function"]["arguments"])
        call["function"]["arguments"] = call["function"]["arguments"] if fault else args
    return dict(shaped)


def test_seeds_are_history() -> None:
    """No seed counts, runs or resets: calls keep their arguments, also malformed ones, and reasoning goes back."""
    story = (
        Story()
        .prompt()
        .turn(
            Call("a", "read", {"p": [1, {"q": None}]}),
            Call("b", "read", {}, raw='{"p": ', fault=parse_arguments('{"p": ')[1]),
            text="t",
            reasoning=(Reasoning("why", field="reasoning_content"),),
        )
    )
    story.ran("a").ran("b", outcome="error").turn(text="done").settled()
    facts = seed(history(story.view))
    assert all(getattr(fact, "source", None) == "history" for fact in facts)
    seeded = Story().add(*facts)
    assert history(seeded.view) == history(story.view)
    assert seeded.view.messages[1] == story.view.messages[1]
    assert (seeded.view.turns, seeded.view.used, seeded.view.rounds, seeded.view.run) == (0, 0, 0, None)


def test_calls_without_a_result_get_a_note_before_the_prompt() -> None:
    """The history of a parked run can be given elsewhere: the open calls are closed, not run."""
    parked = Story().prompt().turn(a_read("a"), a_question("q")).ran("a")
    story = Story().opened("r1", side=True).add(*seed(history(parked.view)), UserSaid("and now?", "prompt"))
    assert story.view.open_calls == ()
    assert story.texts()[-3:] == ["result of a", "No result was recorded for this call.", "and now?"]


def test_text_parts_are_joined_and_missing_content_is_empty() -> None:
    """``content`` may be text, text parts or missing; arguments may be text or a mapping."""
    calls: list[Any] = [{"id": "a", "function": {"name": "ls", "arguments": {"path": "."}}}]
    calls.append({"id": "b", "function": {"name": "ls"}})
    story = Story().add(
        *seed(
            [
                {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
                {"role": "assistant", "content": None, "tool_calls": calls},
                {"role": "tool", "tool_call_id": "b", "content": "two"},
                {"role": "tool", "tool_call_id": "a", "content": "one"},
            ]
        )
    )
    assert story.texts() == ["ab", "", "one", "two"]
    assert [state.call.args for state in story.view.turn] == [{"path": "."}, {}]


CALL = {"id": "a", "function": {"name": "ls", "arguments": "{}"}}


@pytest.mark.parametrize(
    ("message", "fault"),
    [
        ("hello", "must be a mapping"),
        ({"role": "system", "content": "x"}, "'role' must be"),
        ({"content": "x"}, "'role' must be"),
        ({"role": "user", "content": 7}, "'content' must be text"),
        ({"role": "user", "content": [{"type": "image_url", "image_url": {}}]}, "attachments"),
        ({"role": "user", "content": ["x"]}, "each part"),
        ({"role": "tool", "tool_call_id": "ghost", "content": "x"}, "unanswered call"),
        ({"role": "tool", "content": "x"}, "unanswered call"),
        ({"role": "assistant", "tool_calls": "ls"}, "'tool_calls' must be a list"),
        ({"role": "assistant", "tool_calls": ["ls"]}, "'id' and 'function'"),
        ({"role": "assistant", "tool_calls": [{"id": 1, "function": {"name": "ls"}}]}, "as text"),
        ({"role": "assistant", "tool_calls": [CALL, CALL]}, "same 'id'"),
        ({"role": "assistant", "tool_calls": [{"id": "a", "function": {"name": "x", "arguments": 7}}]}, "'arguments'"),
        (
            {"role": "assistant", "tool_calls": [{"id": "a", "function": {"name": "x", "arguments": {"a": object()}}}]},
            "not JSON",
        ),
        ({"role": "assistant", "content": "x", "reasoning_content": 7}, "'reasoning_content'"),
    ],
)
def test_a_malformed_message_is_refused_by_its_place(message: Any, fault: str) -> None:
    """INVALID_REQUEST names the message and what is wrong, before anything becomes a fact."""
    with pytest.raises(CodeError, match=r"history\[1\]: ") as caught:
        seed([{"role": "user", "content": "fine"}, message])
    assert caught.value.code == "INVALID_REQUEST"
    assert fault in str(caught.value)


def test_a_result_must_follow_its_call() -> None:
    """B02: results apart from their turn, or a second one, are refused and not dropped in silence."""
    turn: dict[str, Any] = {"role": "assistant", "tool_calls": [CALL]}
    result = {"role": "tool", "tool_call_id": "a", "content": "x"}
    for messages in ([turn, {"role": "user", "content": "?"}, result], [turn, result, result], [result, turn]):
        with pytest.raises(CodeError, match="unanswered call of the turn before it"):
            seed(messages)
    assert len(seed([turn, result, turn, result])) == 4


def test_odd_arguments_are_kept_as_they_came() -> None:
    """Arguments that are no JSON object, nested too deeply or no Unicode are malformed text, not an error."""
    for text in ("[1]", "null", '{"a":' * 5_000, '{"a": "\ud800"}', "{"):
        call: dict[str, Any] = {"id": "a", "function": {"name": "ls", "arguments": text}}
        facts = seed([{"role": "assistant", "tool_calls": [call]}])
        shown: Any = history(Story().add(*facts).view)
        assert shown[0]["tool_calls"][0]["function"]["arguments"] == text


def test_attachments_and_failures_are_not_part_of_the_shape() -> None:
    """The known weakness: history shows text."""
    ref = AttachmentRef("image", "image/png", "0" * 64, "0.png")
    story = Story().add(UserSaid("see", "prompt", (ref,))).turn(a_call("read", "a"))
    story.add(ToolResulted("a", "read", "gone", 1, "error", attachments=(ref,)))
    assert contents(story) == ["see", "", "gone"]
