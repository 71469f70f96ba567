"""What a plain stream shows of a run."""

from __future__ import annotations

import io
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from recorded_events import RETRIED, TYPICAL, Recorded, call, deltas, end, record, usage

from a3s_code.cli.render import PlainRenderer


def plain(events: list[Recorded], *, as_it_comes: bool = False) -> str:
    out = io.StringIO()
    with PlainRenderer(out, as_it_comes=as_it_comes) as renderer:
        for event in events:
            renderer.render(event)
    return out.getvalue()


def lines(*events: tuple[int, str, dict[str, Any]]) -> list[str]:
    return plain(record(*events)).splitlines()


@pytest.mark.parametrize("as_it_comes", [False, True])
def test_a_whole_run(as_it_comes: bool) -> None:
    """Texts, calls with their results and the summary stand in the order in which they happened."""
    assert plain(TYPICAL, as_it_comes=as_it_comes) == (
        "I'll look around.\n"
        "> read README.md\n"
        "  - ok, 2 lines, 12 ms\n"
        "> bash $ make test ...\n"
        "  x exit 2, 1.7 s: make: *** [test] Error 1\n"
        "It is **a library**.\n"
        "\n"
        "That's all.\n"
        "done: 2 tool calls, 2,234 tokens, 3.2 s\n"
    )


def test_a_void_draft_is_never_printed() -> None:
    """A repeated ``turn_start`` makes the text before it void: only the new attempt's text is there."""
    assert plain(RETRIED) == (
        "~ the model's answer broke off and begins again\nThe answer is 42.\ndone: 0 tool calls, 50 tokens, 80 ms\n"
    )


def test_a_void_draft_that_was_printed_as_it_came() -> None:
    """Where text appears at once, a void draft is ended and named, and the new attempt is whole."""
    assert plain(RETRIED, as_it_comes=True) == (
        "The answer is fou\n"
        "~ the model's answer broke off and begins again\n"
        "The answer is 42.\n"
        "done: 0 tool calls, 50 tokens, 80 ms\n"
    )


def test_text_comes_out_with_its_event() -> None:
    """With ``as_it_comes`` each delta is written when it arrives, without it when the turn is settled."""
    out, late = io.StringIO(), io.StringIO()
    eager, patient = PlainRenderer(out, as_it_comes=True), PlainRenderer(late)
    for event in RETRIED[5:7]:
        eager.render(event)
        patient.render(event)
    assert (out.getvalue(), late.getvalue()) == ("The answer is 42.", "")
    for event in RETRIED[7:8]:
        eager.render(event)
        patient.render(event)
    assert out.getvalue() == late.getvalue() == "The answer is 42.\n"


def test_blank_drafts_leave_nothing_behind() -> None:
    """A turn of blanks before a call prints no text and takes nothing from the next one."""
    events = record(
        (0, "turn_start", {"turn": 1}),
        *deltas(1, ["\n", "  "]),
        (2, "turn_end", {"turn": 1}),
        (3, "turn_start", {"turn": 2}),
        *deltas(4, ["\n\nHello"]),
        end(5, "Hello"),
    )
    assert plain(events) == "Hello\ndone: 0 tool calls, 0 tokens, 5 ms\n"
    assert plain(events, as_it_comes=True).splitlines()[-2:] == ["Hello", "done: 0 tool calls, 0 tokens, 5 ms"]


def test_an_answer_that_was_not_streamed() -> None:
    """The text of ``agent_end`` is printed when no delta said it, also after earlier turns that spoke."""
    assert lines((0, "agent_start", {"prompt": "/help"}), end(2, "Commands: …"))[0] == "Commands: …"
    told = lines(
        (0, "turn_start", {"turn": 1}),
        *deltas(1, ["Looking."]),
        (2, "turn_end", {"turn": 1}),
        (3, "turn_start", {"turn": 2}),
        end(5, "Found."),
    )
    assert told == ["Looking.", "Found.", "done: 0 tool calls, 0 tokens, 5 ms"]


def test_results_of_parallel_calls_name_their_call() -> None:
    """A result that doesn't follow its own call's line says whose it is."""
    read, ls = {"id": "1", "name": "read"}, {"id": "2", "name": "ls"}
    assert lines(
        (0, "tool_execution_start", {**read, "args": {"file_path": "a"}}),
        (0, "tool_execution_start", {**ls, "args": {"path": "src"}}),
        (5, "tool_end", {**ls, "output": "a\n1 entries", "exit_code": 0, "took_ms": 5}),
        (9, "tool_end", {**read, "output": "x\n", "exit_code": 0, "took_ms": 9}),
    ) == ["> read a", "> ls src", "  - 1 entries, 5 ms", "  - read a: ok, 1 line, 9 ms"]


def test_a_result_without_a_start_names_its_call() -> None:
    """A call that never ran (its arguments were wrong) still has its line."""
    error = {"error": {"type": "invalid_argument", "message": "limit: -1 is too small"}}
    assert lines((0, "tool_end", {"id": "1", "name": "read", "output": "x", "exit_code": 1, "metadata": error})) == [
        "  x read: failed (invalid_argument): limit: -1 is too small"
    ]


def test_a_denied_call_is_told_once() -> None:
    """A refusal says what was refused and why; the result that follows it adds nothing."""
    whole = {"id": "1", "name": "bash", "args": {"command": "rm -rf /"}}
    assert lines(
        (0, "permission_denied", {**whole, "reason": "deny rule bash(rm*)"}),
        (1, "tool_end", {"id": "1", "name": "bash", "output": "no", "exit_code": 1}),
        end(2, calls=1),
    ) == ["x bash $ rm -rf /: denied: deny rule bash(rm*)", "done: 1 tool call, 0 tokens, 2 ms"]


@pytest.mark.parametrize(
    ("kind", "payload", "told"),
    [
        (
            "confirmation_required",
            {
                "tool_id": "1",
                "tool_name": "write",
                "args": {"file_path": ".env", "content": "A=1"},
                "reason": "secret file",
            },
            ["? write .env (1 line) needs your approval: secret file"],
        ),
        ("confirmation_received", {"tool_id": "1", "approved": True, "reason": None}, ["  - approved"]),
        ("confirmation_received", {"tool_id": "1", "approved": False, "reason": "no"}, ["  x rejected: no"]),
        (
            "confirmation_timeout",
            {"tool_id": "1", "action_taken": "auto_approve"},
            ["  ! nobody answered in time: auto approve"],
        ),
        (
            "user_question",
            {"tool_id": "1", "question": "Which\none?", "options": ["a", {"label": "b", "description": "x"}]},
            ["? Which one?", "  ? 1. a", "  ? 2. b"],
        ),
        (
            "context_compacted",
            {"tokens_before": 120000, "tokens_after": 30500, "facts": 9},
            ["~ the conversation was shortened from 120,000 to 30,500 tokens"],
        ),
        ("run_control_applied", {"request_id": "q", "kind": "steer"}, ["~ steer was applied"]),
        (
            "persistence_failed",
            {"what": "snapshot", "error": "disk full"},
            ["! snapshot could not be saved: disk full"],
        ),
        (
            "budget_threshold_hit",
            {"resource": "tokens", "kind": "soft", "consumed": 900, "limit": 1000, "message": "slow down"},
            ["! budget tokens is nearly used up (900 of 1,000): slow down"],
        ),
        (
            "budget_threshold_hit",
            {"resource": "usd", "kind": "hard", "consumed": None, "limit": None},
            ["! budget usd is used up"],
        ),
        ("passivation_requested", {"reason": "deploy"}, ["! the host wants to pause this session: deploy"]),
        (
            "task_updated",
            {
                "session_id": "s",
                "tasks": [{"step": "a", "status": "completed"}, {"step": "b", "status": "in_progress"}],
            },
            ["~ plan: 1 of 2 done, now: b"],
        ),
        ("subagent_start", {"agent": "explore", "description": "find it"}, ["~ explore begins: find it"]),
        ("subagent_end", {"agent": "explore", "success": True}, ["~ explore is done"]),
        ("subagent_end", {"agent": "explore", "success": False}, ["! explore failed"]),
        ("queue_alert", {"level": "warn", "lane": "query", "message": "900 waiting"}, ["! queue query: 900 waiting"]),
        ("memory_stored", {"memory_id": "m"}, []),
        ("something_new", {"x": 1}, []),
        ("reasoning_delta", {"text": "hm"}, []),
    ],
)
def test_other_events(kind: str, payload: dict[str, Any], told: list[str]) -> None:
    """What a person should know is one line in plain words; what they needn't is silent."""
    assert lines((0, kind, payload)) == told


@pytest.mark.parametrize(
    ("payload", "told"),
    [
        (
            {"message": "503 from the provider", "code": "LLM_ERROR"},
            "error: the model provider failed: 503 from the provider [LLM_ERROR]",
        ),
        ({"message": "odd", "code": "QUEUE_FULL"}, "error: odd [QUEUE_FULL]"),
        ({}, "error: unknown"),
    ],
)
def test_a_run_that_fails(payload: dict[str, Any], told: str) -> None:
    """The draft is kept, the error says in plain words what happened, with its code, and the summary follows."""
    events = ((0, "agent_start", {}), (1, "turn_start", {"turn": 1}), *deltas(2, ["So far"]), (1500, "error", payload))
    assert lines(*events) == ["So far", told, "failed: 0 tool calls, 0 tokens, 1.5 s"]


@pytest.mark.parametrize(
    ("reason", "how"),
    [("tool_budget", "stopped at the tool budget"), ("cancelled", "cancelled"), ("odd", "odd")],
)
def test_a_run_that_stops_early(reason: str, how: str) -> None:
    """The summary says why a run ended."""
    assert lines((0, "agent_start", {}), end(125_000, calls=8, total=1000, reason=reason)) == [
        f"{how}: 8 tool calls, 1,000 tokens, 2 min 5 s"
    ]


def test_verification_is_told_before_the_summary() -> None:
    """A verification summary, as text or as a mapping with a text, is one line."""
    for summary in ("2 checks passed", {"status": "passed", "text": "2 checks passed"}):
        _, kind, payload = end(1)
        told = lines((0, "agent_start", {}), (1, kind, {**payload, "verification_summary": summary}))
        assert told == ["~ verification: 2 checks passed", "done: 0 tool calls, 0 tokens, 1 ms"]


def test_a_second_run_begins_from_nothing() -> None:
    """Counts and time are those of one run."""
    first, second = (
        lines(*call(0, 5, "ls", {}, "0 entries"), end(9, calls=1, total=7)),
        lines(*call(0, 5, "ls", {}, "0 entries"), end(9, calls=1, total=7), (50, "agent_start", {}), end(53)),
    )
    assert second == [*first, "done: 0 tool calls, 0 tokens, 3 ms"]


def test_tokens_of_a_run_without_a_total() -> None:
    """Without usage at the end the turns' tokens are added up."""
    turns = [(i, "turn_end", {"turn": i, "usage": usage(100)}) for i in (1, 2)]
    assert lines((0, "agent_start", {}), *turns, (3, "agent_end", {"text": ""})) == [
        "done: 0 tool calls, 200 tokens, 3 ms"
    ]


def test_no_escape_code_reaches_the_stream() -> None:
    """Texts, arguments and outputs lose their control characters, whatever they try."""
    evil = "\x1b[2J\x1b]0;title\x07\x9b31m\u202etxt\x08\r"
    told = plain(
        record(
            (0, "turn_start", {"turn": 1}),
            *deltas(1, [evil, "fine"]),
            *call(2, 1, "bash", {"command": evil}, evil, 1),
            (3, "permission_denied", {"id": "9", "name": evil, "args": {evil: evil}, "reason": evil}),
            (4, "user_question", {"question": evil, "options": [evil]}),
            (5, "error", {"message": evil, "code": "LLM_ERROR"}),
        )
    )
    assert "fine" in told
    assert all(c.isprintable() or c == "\n" for c in told)


def test_a_stream_that_lacks_characters() -> None:
    """An ASCII stream gets ``?`` for what it can't take, not an exception."""
    raw = io.BytesIO()
    with PlainRenderer(io.TextIOWrapper(raw, "ascii", write_through=True)) as renderer:
        for event in record((0, "turn_start", {"turn": 1}), *deltas(1, ["naïve ✓"]), end(2)):
            renderer.render(event)
        assert raw.getvalue() == b"na?ve ?\ndone: 0 tool calls, 0 tokens, 2 ms\n"


KINDS = ["agent_start", "turn_start", "text_delta", "tool_start", "tool_execution_start", "tool_output_delta"]
KINDS += ["tool_end", "turn_end", "agent_end", "error", "permission_denied", "confirmation_required", "user_question"]
KINDS += ["context_compacted", "budget_threshold_hit", "task_updated", "subagent_end", "persistence_failed"]
KEYS = ["id", "name", "tool_id", "args", "text", "output", "exit_code", "metadata", "took_ms", "turn", "usage", "tasks"]
KEYS += ["options", "question", "consumed", "limit", "reason", "error", "files", "file_path", "total_tokens"]
LEAF = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4) | st.sampled_from(["read", "task"])
JSON = st.recursive(
    LEAF, lambda t: st.lists(t, max_size=2) | st.dictionaries(st.sampled_from(KEYS), t, max_size=3), max_leaves=6
)
EVENTS = st.builds(
    Recorded,
    st.sampled_from(KINDS),
    st.dictionaries(st.sampled_from(KEYS), JSON, max_size=6),
    st.dictionaries(st.just("timestamp_ms"), LEAF),
)


@settings(suppress_health_check=[HealthCheck.too_slow])  # a busy machine is no fault of the events
@given(st.lists(EVENTS, max_size=8), st.booleans())
def test_odd_payloads_never_break_the_view(events: list[Recorded], as_it_comes: bool) -> None:
    """Members that are missing or of another type cost words, not the run: whole, printable lines come out."""
    told = plain(events, as_it_comes=as_it_comes)
    assert told == "" or told.endswith("\n")
    assert not set(told) & set("\x1b\x08\x9b\r")


def test_that_nothing_was_verified_is_not_told() -> None:
    """A summary that only says so is no line."""
    for summary in ({"status": "not_run", "reports": 0}, {"status": "skipped"}, "skipped"):
        _, kind, payload = end(1)
        told = lines((0, "agent_start", {}), (1, kind, {**payload, "verification_summary": summary}))
        assert told == ["done: 0 tool calls, 0 tokens, 1 ms"]
