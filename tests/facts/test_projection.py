"""Facts to public events: each payload as the table in api.md, *Events*."""

from __future__ import annotations

import pytest
from factstory import ASK, DENY, Story, a_call, a_question, a_read, recorded
from generated import simulations
from hypothesis import given, settings

from a3s_code.core import project
from a3s_code.core.content import JsonObject, Usage
from a3s_code.core.events.catalogue import AGENT_EVENT_TYPES_V1
from a3s_code.core.evidence import with_evidence
from a3s_code.core.facts import ModelTurn, RunClosed, ToolResulted, UserSaid
from a3s_code.core.facts.runs import Failure
from a3s_code.core.fold import fold
from a3s_code.core.project import Event, no_summary, of_fact
from a3s_code.core.state import View
from a3s_code.core.steps import Settle

COUNTERS = ("prompt_tokens", "completion_tokens", "total_tokens", "cache_read_tokens", "cache_write_tokens")


def counted(*numbers: int) -> JsonObject:
    return dict(zip(COUNTERS, (*numbers, 0, 0), strict=True))


def events(story: Story, last: int = 1) -> list[Event]:
    """The events of the last facts."""
    view = View()
    found: list[Event] = []
    for fact in story.facts:
        view = fold(view, fact)
        if fact.seq > len(story.facts) - last:
            found += of_fact(fact, view)
    return found


def test_a_run_starts_with_its_prompt_and_ends_with_its_result() -> None:
    """agent_start and agent_end, one each; the opening of a new run is told by its prompt."""
    assert events(Story().opened("r1")) == []
    assert events(Story().prompt("hi")) == [("agent_start", {"prompt": "hi"})]
    story = Story().prompt().turn(a_read("a"), usage=Usage(1, 2, 3)).ran("a").turn(text="done", usage=Usage(4, 5, 9))
    assert events(story.settled()) == [
        (
            "agent_end",
            {
                "text": "done",
                "usage": counted(5, 7, 12),
                "tool_calls_count": 1,
                "stop_reason": "done",
                "verification_summary": no_summary(),
                "completion": None,
            },
        )
    ]


def test_a_resumed_run_starts_with_the_prompt_it_goes_on_from() -> None:
    """No new prompt is written on a resume, so its opening starts the stream."""
    assert events(Story().prompt("hi").turn(a_read("a")).resumed()) == [
        ("agent_start", {"prompt": "hi", "resumes": "r1"})
    ]


@pytest.mark.parametrize(("reason", "status"), [("tool_budget", "completed"), ("cancelled", "cancelled")])
def test_a_run_that_stopped_says_why(reason: str, status: str) -> None:
    """A budget and an interrupt end with agent_end and their stop_reason."""
    closed = RunClosed("completed" if status == "completed" else "cancelled", 1, stop_reason=reason)
    [(kind, payload)] = events(Story().prompt().turn(text="half").add(closed))
    assert (kind, payload["stop_reason"], payload["text"]) == ("agent_end", reason, "half")


def test_a_failed_run_ends_with_an_error() -> None:
    """Message and code, nothing else."""
    closed = RunClosed("failed", 1, Failure("STEP_LIMIT", "too many"))
    assert events(Story().prompt().add(closed)) == [("error", {"message": "too many", "code": "STEP_LIMIT"})]


def test_turns_end_with_their_number_and_usage() -> None:
    """The number is that of turn_start; an estimate says so; turns of history are no event."""
    story = Story().prompt().turn(a_read("a")).ran("a").turn(text="x", usage=Usage(1, 2, 3, estimated=True))
    assert events(story) == [("turn_end", {"turn": 2, "usage": counted(1, 2, 3) | {"estimated": True}})]
    assert project.turn_started(2) == ("turn_start", {"turn": 2})
    assert events(Story().add(ModelTurn("old", "history"))) == []


def test_calls_start_and_end_with_their_payloads() -> None:
    """tool_execution_start has the arguments that run, tool_end the whole result."""
    story = Story().prompt().turn(a_read("a")).judged("a", ASK, path="b").confirmed("a").started("a")
    assert events(story) == [("tool_execution_start", {"id": "a", "name": "read", "args": {"path": "b"}})]
    story.add(ToolResulted("a", "read", "text", 2, "error", {"k": [1]}, 17))
    metadata = with_evidence("read", "text", {"k": [1]})
    ended = {"id": "a", "name": "read", "output": "text", "exit_code": 2, "metadata": metadata, "took_ms": 17}
    assert events(story) == [("tool_end", ended)]
    history = ToolResulted("h", "read", "x", 0, "ok", source="history")
    assert events(Story().add(history)) == []


def test_denied_and_refused_calls_say_so_before_they_end() -> None:
    """permission_denied with arguments and reason, then tool_end: for rules, rejections and duplicates."""
    story = Story().prompt().turn(a_call("bash", "a", DENY, command="rm"))
    denied, ended = events(story.recorded())
    assert denied == (
        "permission_denied",
        {"id": "a", "name": "bash", "args": {"command": "rm"}, "reason": DENY.reason},
    )
    assert ended[0] == "tool_end"
    story = Story().prompt().turn(a_call("bash", "a", ASK)).confirmed("a", False, "never that")
    assert events(story.recorded())[0][1]["reason"] == "never that"
    story = Story().prompt().turn(a_read("a")).result("a", outcome="blocked")
    assert [kind for kind, _ in events(story)] == ["permission_denied", "tool_end"]


def test_confirmations_and_questions() -> None:
    """What is asked and what was answered."""
    story = Story().prompt().turn(a_call("bash", "a", ASK, command="x"))
    required = {"tool_id": "a", "tool_name": "bash", "args": {"command": "x"}, "reason": ASK.reason}
    assert project.parked(story.state("a").call, ASK.reason) == ("confirmation_required", required)
    received = ("confirmation_received", {"tool_id": "a", "approved": False, "reason": "no"})
    assert events(story.confirmed("a", False, "no")) == [received]
    asked = ("user_question", {"tool_id": "q1", "question": "Which?"})
    assert project.parked(a_question(), "") == asked
    assert project.parked(a_question(options=["x"]), "")[1] == asked[1] | {"options": ["x"]}
    assert events(Story().prompt().turn(a_question()).answered("q1", "x")) == []


def test_steers_and_compactions() -> None:
    """A steer is applied to the turn that it goes out with; a compaction tells what it saved."""
    story = Story().prompt().turn(a_read("a")).ran("a").steer()
    applied = {"request_id": "req-1", "kind": "steer", "run_id": "r1", "turn_id": "turn-2"}
    assert events(story) == [("run_control_applied", applied)]
    compacted = ("context_compacted", {"tokens_before": 1000, "tokens_after": 100, "facts": 2})
    assert events(story.compacted(2)) == [compacted]
    assert events(story.goes_on()) == []
    assert events(story.add(UserSaid("old", "history"))) == []
    assert events(story.unknown()) == []


def test_deltas_have_their_payloads() -> None:
    """What streams in carries id, name and the piece."""
    assert project.text_delta("t") == ("text_delta", {"text": "t"})
    assert project.reasoning_delta("t") == ("reasoning_delta", {"text": "t"})
    assert project.call_begun("a", "ls") == ("tool_start", {"id": "a", "name": "ls"})
    assert project.call_input("a", "ls", "{") == ("tool_input_delta", {"id": "a", "name": "ls", "delta": "{"})
    assert project.output_delta("a", "ls", "o") == ("tool_output_delta", {"id": "a", "name": "ls", "text": "o"})
    assert project.failed("m", "IO_ERROR") == ("error", {"message": "m", "code": "IO_ERROR"})


@settings(max_examples=100, deadline=None)
@given(simulations)
def test_every_run_has_one_start_and_one_end(simulation: Story) -> None:
    """Over any simulated log: known event types only, one start and at most one end for each run, each call that was
    started ends, and the end comes last."""
    view = View()
    kinds: dict[str, list[str]] = {}
    for fact in simulation.facts:
        view = fold(view, fact)
        kinds.setdefault(fact.run, []).extend(kind for kind, _ in of_fact(fact, view))
    assert kinds.pop("", []) == ["context_compacted"] * sum(fact.run == "" for fact in simulation.facts)
    for run in kinds.values():
        assert set(run) <= set(AGENT_EVENT_TYPES_V1)
        assert run.count("agent_start") == 1
        assert sum(kind in ("agent_end", "error") for kind in run[:-1]) == 0


def test_open_calls_of_a_settled_run_end_on_the_stream() -> None:
    """What the settle records for open calls is told before the end of the run."""
    story = Story(step_limit=1).prompt().turn(a_read("a"), a_read("b"))
    step = story.step
    assert isinstance(step, Settle)
    story.settled()
    assert [kind for kind, _ in events(story, last=3)] == ["tool_end", "tool_end", "error"]
    assert [fact.data for fact in story.facts[-3:-1]] == [recorded(item) for item in step.results]
