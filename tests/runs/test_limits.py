"""The rules of a run (facts.md) through the whole engine: code, result, stop reason, and the log afterwards."""

from __future__ import annotations

from pathlib import Path

import pytest
from runhelp import data, one_result_each, open_session, outcomes, well_formed

from a3s_code import Agent, tool
from a3s_code.core.content import Usage
from a3s_code.core.facts import ModelTurn, UserSaid
from a3s_code.errors import CodeError, LlmError, StepLimit
from a3s_code.testing import ScriptedModel, call, calls, turn
from a3s_code.testing.turns import Finish, Piece, Turn


def ls(number: int) -> list[str | Piece]:
    """A call that differs from all others."""
    return calls(("search", {"query": f"q{number}", "mode": "grep"}))


async def test_step_limit(agent: Agent, workspace: Path) -> None:
    """Past ``step_limit`` steps the run fails with STEP_LIMIT naming it, with the partial result, and can be resumed
    with fresh steps."""
    model = ScriptedModel([turn("thinking", ls(1), Usage(5, 5, 10)), ls(2), "done"])
    session = await open_session(agent, workspace, llm_client=model, step_limit=3)
    with pytest.raises(StepLimit, match="step_limit=3") as caught:
        await session.send_async("go")
    assert caught.value.code == "STEP_LIMIT"
    partial = caught.value.result
    assert (partial.text, partial.steps, partial.tool_calls_count, partial.total_tokens > 0) == ("thinking", 3, 1, True)
    assert one_result_each(workspace)
    assert session.runs()[0]["status"] == "failed"
    assert session.runs()[0]["error"] == {"code": "STEP_LIMIT", "message": str(caught.value)}
    model.add("and on")
    result = await session.send_async("go on")
    assert result.text == "done"
    assert all(well_formed(list(request.messages)) for request in model.requests)


async def test_tool_budget(agent: Agent, workspace: Path) -> None:
    """After ``tool_budget`` successful results a further call ends the run with ``tool_budget``, without running."""
    session = await open_session(agent, workspace, ls(1), ls(2), ls(3), "next", tool_budget=2)
    result = await session.send_async("go")
    assert (result.stop_reason, result.tool_calls_count) == ("tool_budget", 2)
    assert [denied.limit for denied in data(workspace, "budget.denied")] == [2]
    assert list(outcomes(workspace).values()) == ["ok", "ok", "cancelled"]
    assert one_result_each(workspace)
    assert session.runs()[0]["status"] == "completed"
    assert (await session.send_async("go on")).text == "next"


async def test_tool_budget_takes_part_of_a_parallel_group(agent: Agent, workspace: Path) -> None:
    """A parallel group takes at most what is left of the budget; the rest is not run."""
    many = calls(*[call("search", {"query": f"q{n}", "mode": "grep"}) for n in range(5)])
    session = await open_session(agent, workspace, many, tool_budget=3)
    result = await session.send_async("go")
    assert (result.stop_reason, result.tool_calls_count) == ("tool_budget", 3)
    assert sorted(outcomes(workspace).values()) == ["cancelled", "cancelled", "ok", "ok", "ok"]


async def test_no_tool_budget(agent: Agent, workspace: Path) -> None:
    """``tool_budget=None`` lifts it."""
    session = await open_session(agent, workspace, *[ls(n) for n in range(12)], "done", tool_budget=None)
    result = await session.send_async("go")
    assert (result.text, result.tool_calls_count) == ("done", 12)


async def test_tool_rounds(agent: Agent, workspace: Path) -> None:
    """After ``max_tool_rounds`` turns with calls the request has no tools; calls made all the same are denied and the
    run settles."""
    model = ScriptedModel([ls(1), ls(2), ls(3)])
    session = await open_session(agent, workspace, llm_client=model, max_tool_rounds=2)
    result = await session.send_async("go")
    assert [bool(request.tools) for request in model.requests] == [True, True, False]
    assert result.stop_reason == "done"
    assert list(outcomes(workspace).values()) == ["ok", "ok", "denied"]
    assert one_result_each(workspace)


async def test_continuation_after_a_cut(agent: Agent, workspace: Path) -> None:
    """A model cut by length is asked to go on, and the pieces are one text."""
    session = await open_session(agent, workspace, turn("first ", Finish("length")), "second")
    result = await session.send_async("go")
    assert result.text == "first second"
    said = data(workspace, "user.message")
    assert [each.source for each in said] == ["prompt", "continuation"]


async def test_continuations_end(agent: Agent, workspace: Path) -> None:
    """At most ``max_continuation_turns`` continuations; a model that never says anything fails with LLM_ERROR."""
    session = await open_session(agent, workspace, [], [], [], max_continuation_turns=2)
    with pytest.raises(LlmError, match="neither text nor a tool call") as caught:
        await session.send_async("go")
    assert caught.value.code == "LLM_ERROR"
    assert [each.source for each in data(workspace, "user.message")].count("continuation") == 2
    session = await open_session(agent, workspace, [], session_id="off", continuation_enabled=False)
    with pytest.raises(LlmError):
        await session.send_async("go")
    assert len(data(workspace, "model.turn", "off")) == 1


async def test_malformed_calls_are_given_back_then_fail(agent: Agent, workspace: Path) -> None:
    """Arguments that are no JSON go back with the fault; past ``max_parse_retries`` in a row it is LLM_ERROR."""
    broken = [call("ls", '{"path": "a')]
    session = await open_session(agent, workspace, broken, broken, "recovered", max_parse_retries=2)
    assert (await session.send_async("go")).text == "recovered"
    assert list(outcomes(workspace).values()) == ["error", "error"]
    model = ScriptedModel([broken, [call("ls", "[1]")], [call("ls", "null")]])
    session = await open_session(agent, workspace, session_id="t", llm_client=model, max_parse_retries=2)
    with pytest.raises(LlmError, match="max_parse_retries=2") as caught:
        await session.send_async("go")
    assert caught.value.result.steps == 3
    assert one_result_each(workspace, "t")
    assert all(well_formed(list(request.messages)) for request in model.requests)


async def test_valid_siblings_of_a_malformed_call_run(agent: Agent, workspace: Path) -> None:
    """A malformed call doesn't keep the others of its turn from running (case A15)."""
    session = await open_session(agent, workspace, [call("ls", "{"), call("ls", {})], "done")
    await session.send_async("go")
    assert sorted(outcomes(workspace).values()) == ["error", "ok"]


async def test_duplicates_are_refused_then_fail(agent: Agent, workspace: Path) -> None:
    """The third repetition of a call is refused with an explanation, and made again it fails with
    DUPLICATE_TOOL_CALL (case H22)."""
    same = calls(("ls", {}))
    session = await open_session(agent, workspace, *[same] * 6, step_limit=100, tool_budget=None)
    with pytest.raises(CodeError, match="'ls'") as caught:
        await session.send_async("go")
    assert caught.value.code == "DUPLICATE_TOOL_CALL"
    results = data(workspace, "tool.result")
    assert [each.outcome for each in results] == ["ok", "ok", "ok", "blocked", "blocked"]
    assert "identical call to 'ls' already ran 3 times" in results[3].output
    assert one_result_each(workspace)


async def test_a_writing_call_clears_the_window(agent: Agent, workspace: Path) -> None:
    """Test, edit, test is never refused."""
    script: list[Turn] = []
    for n in range(6):
        script += [calls(("ls", {})), calls(("write", {"file_path": "f", "content": f"{n}\n"}))]
    session = await open_session(agent, workspace, *script, "done", step_limit=100, tool_budget=None)
    assert (await session.send_async("go")).text == "done"
    assert set(outcomes(workspace).values()) == {"ok"}


async def test_call_ids_that_come_again(agent: Agent, workspace: Path) -> None:
    """A provider that gives every call the same id, or none, still gets each call's own result back."""
    model = ScriptedModel(
        [
            turn(call("ls", {}, id="c"), call("search", {"query": "x", "mode": "grep"}, id="c")),
            turn(call("ls", {}, id="c")),
            turn(call("ls", {}, id="")),
            "done",
        ]
    )
    session = await open_session(agent, workspace, llm_client=model)
    assert (await session.send_async("go")).text == "done"
    turns = [fact for fact in data(workspace, "model.turn") if isinstance(fact, ModelTurn)]
    ids = [each.id for fact in turns for each in fact.calls]
    assert len(ids) == len(set(ids)) == 4
    assert all(ids)
    assert one_result_each(workspace)


async def test_usage_is_counted_or_estimated(agent: Agent, workspace: Path) -> None:
    """Reported tokens are summed over the run; a provider that says nothing gets an estimate, marked as one."""
    session = await open_session(agent, workspace, turn(ls(1), Usage(10, 5, 15)), turn("x", Usage(20, 1, 21)))
    result = await session.send_async("go")
    assert (result.prompt_tokens, result.completion_tokens, result.total_tokens) == (30, 6, 36)
    session = await open_session(agent, workspace, "silent", session_id="t")
    await session.send_async("go")
    (said,) = data(workspace, "model.turn", "t")
    assert said.usage.estimated


async def test_a_prompt_resets_budget_and_rounds(agent: Agent, workspace: Path) -> None:
    """Each prompt has its own budget; what seeded history used is not counted."""
    session = await open_session(agent, workspace, ls(1), ls(2), "a", ls(3), ls(4), "b", tool_budget=2)
    assert (await session.send_async("one")).stop_reason == "done"
    assert (await session.send_async("two")).stop_reason == "done"
    assert [each.source for each in data(workspace, "user.message") if isinstance(each, UserSaid)] == ["prompt"] * 2


async def test_steps_of_several_sessions_do_not_mix(agent: Agent, workspace: Path) -> None:
    """Two sessions of one agent keep their own logs and limits."""

    @tool
    def noop(n: int) -> str:
        """Does nothing."""
        return str(n)

    one = await open_session(agent, workspace, calls(("noop", {"n": 1})), "one", tools=[noop])
    two = await open_session(agent, workspace, calls(("noop", {"n": 1})), session_id="t", tools=[noop], step_limit=1)
    assert (await one.send_async("go")).text == "one"
    with pytest.raises(StepLimit):
        await two.send_async("go")
