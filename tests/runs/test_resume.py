"""Going on with what was left open (facts.md, *Resume*, *Standing context*; cases C10, C21, D16)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from otherprocess import running
from runhelp import data, facts, kinds, one_result_each, open_session, outcomes, until, well_formed

from a3s_code import Agent, Session, tool
from a3s_code.errors import CodeError, LlmError
from a3s_code.testing import ScriptedModel, call, calls

TOLD = "had begun when the run was interrupted"

KILLED = """
@tool
def pay(ctx: ToolContext) -> str:
    "Pays."
    with open(ws / "effects", "a") as file:
        file.write("x")
    if (ws / "die").exists():
        say("effect")
        os.kill(os.getpid(), signal.SIGKILL)
    return "paid"

async def main():
    agent = await make_agent()
    script = calls(("ls", {}), ("pay", {}))
    session = await open_session(agent, ws, script, "unused", tools=[pay], log_durability="fsync")
    await session.send_async("go")
asyncio.run(main())
"""


def paying(workspace: Path) -> Any:
    @tool
    def pay() -> str:
        """Pays."""
        with (workspace / "effects").open("a") as file:
            file.write("x")
        return "paid"

    return pay


def killed_in_a_tool(workspace: Path) -> None:
    """A process that dies in an unsafe tool, right after its effect."""
    (workspace / "die").touch()
    with running(workspace, KILLED, "effect") as process:
        process.wait()
    (workspace / "die").unlink()
    assert kinds(workspace)[-1] == "tool.started"


async def resumed(agent: Agent, workspace: Path, model: ScriptedModel, **options: Any) -> Session:
    return await open_session(agent, workspace, llm_client=model, tools=[paying(workspace)], **options)


async def test_unknown_outcome_run(agent: Agent, workspace: Path) -> None:
    """By default a call whose outcome is not known runs once more, and the log says it was its second attempt."""
    killed_in_a_tool(workspace)
    model = ScriptedModel(["done"])
    session = await resumed(agent, workspace, model)
    assert session.runs()[0]["status"] == "parked"
    result = await session.resume_run_async(str(session.runs()[0]["id"]))
    assert (result.text, (workspace / "effects").read_text()) == ("done", "xx")
    assert [started.attempt for started in data(workspace, "tool.started")] == [1, 1, 2]
    assert list(outcomes(workspace).values()) == ["ok", "ok"]
    assert data(workspace, "run.opened")[1].resumes == data(workspace, "run.opened")[0].run
    assert well_formed(list(model.requests[0].messages))
    assert len(data(workspace, "model.turn")) == 2


async def test_unknown_outcome_report(agent: Agent, workspace: Path) -> None:
    """With ``report`` the model is told to look first, and nothing runs again (case C10)."""
    killed_in_a_tool(workspace)
    model = ScriptedModel(["looked"])
    session = await resumed(agent, workspace, model, unknown_outcome="report")
    assert (await session.resume_run_async("r")).text == "looked"
    assert (workspace / "effects").read_text() == "x"
    assert list(outcomes(workspace).values()) == ["ok", "unknown"]
    assert TOLD in model.requests[0].messages[-1].output  # type: ignore[union-attr]  # a ToolMessage


async def test_unknown_outcome_ask_with_nobody(agent: Agent, workspace: Path) -> None:
    """With ``ask`` and nobody to answer it is as with ``report``."""
    killed_in_a_tool(workspace)
    session = await resumed(agent, workspace, ScriptedModel(["looked"]), unknown_outcome="ask")
    assert (await session.resume_run_async("r")).text == "looked"
    assert (workspace / "effects").read_text() == "x"


@pytest.mark.parametrize(("approved", "effects", "outcome"), [(True, "xx", "ok"), (False, "x", "unknown")])
async def test_unknown_outcome_ask(agent: Agent, workspace: Path, approved: bool, effects: str, outcome: str) -> None:
    """With ``ask`` the call parks and says why; approved it runs once more, rejected it is reported."""
    killed_in_a_tool(workspace)
    options: dict[str, Any] = {"unknown_outcome": "ask", "confirmation_policy": {"enabled": True}}
    session = await resumed(agent, workspace, ScriptedModel(["done"]), **options)
    task = asyncio.ensure_future(session.resume_run_async("r"))
    await until(lambda: session.runs()[-1]["status"] == "parked" and bool(session.pending_confirmations()))
    (pending,) = session.pending_confirmations()
    assert pending["tool_name"] == "pay"
    assert TOLD in str(pending["reason"])
    await until(
        lambda: "confirmation_required" in [e["type"] for e in session.run_events(str(session.runs()[-1]["id"]))]
    )
    event: Any = session.run_events(str(session.runs()[-1]["id"]))[-1]
    assert TOLD in event["payload"]["reason"]
    assert await session.confirm_tool_use_async(str(pending["tool_id"]), approved)
    assert (await task).text == "done"
    assert (workspace / "effects").read_text() == effects
    assert list(outcomes(workspace).values()) == ["ok", outcome]


async def test_a_new_prompt_gives_begun_calls_unknown(agent: Agent, workspace: Path) -> None:
    """A prompt on an open log settles it: a call that began gets ``unknown``, and nothing runs."""
    killed_in_a_tool(workspace)
    model = ScriptedModel(["fresh"])
    session = await resumed(agent, workspace, model)
    assert (await session.send_async("never mind")).text == "fresh"
    assert (workspace / "effects").read_text() == "x"
    assert list(outcomes(workspace).values()) == ["ok", "unknown"]
    assert one_result_each(workspace)
    assert well_formed(list(model.requests[0].messages))


async def test_another_context_is_refused_unless_accepted(agent: Agent, workspace: Path) -> None:
    """A resume that has a step to take under another policy or tool fails with CONTEXT_ERROR naming what changed,
    writes nothing and leaves the gate free (case C21)."""
    killed_in_a_tool(workspace)
    policy = {"deny": ["bash"], "default_decision": "allow"}
    session = await resumed(agent, workspace, ScriptedModel(["done"]), permission_policy=policy)
    before = facts(workspace)
    with pytest.raises(CodeError, match="policy") as caught:
        await session.resume_run_async("r")
    assert caught.value.code == "CONTEXT_ERROR"
    assert "accept_changes=True" in str(caught.value)
    assert facts(workspace) == before
    assert (await session.resume_run_async("r", accept_changes=True)).text == "done"


async def test_a_quiescent_log_takes_no_step(agent: Agent, workspace: Path) -> None:
    """A log with nothing open gives the last result again, whatever changed, and writes nothing."""
    session = await open_session(agent, workspace, "answer")
    first = await session.send_async("go")
    await session.close_async()
    again = await open_session(agent, workspace, role="someone else")
    before = facts(workspace)
    second = await again.resume_run_async(first.run_id)
    assert (second.text, second.run_id, second.steps) == ("answer", first.run_id, 1)
    assert facts(workspace) == before


async def test_a_failed_end_is_an_error_again(agent: Agent, workspace: Path) -> None:
    """Resuming a run that failed at its very end raises its error with the partial result, not a success (case H09)."""
    broken = [call("ls", "{")]
    session = await open_session(agent, workspace, broken, max_parse_retries=0)
    with pytest.raises(LlmError):
        await session.send_async("go")
    with pytest.raises(LlmError, match="malformed") as caught:
        await session.resume_run_async("r")
    assert caught.value.result.steps == 1


async def test_a_failed_model_call_can_be_resumed(agent: Agent, workspace: Path) -> None:
    """A run that failed with the provider goes on from its facts; no stored turn is asked for again."""
    model = ScriptedModel([calls(("ls", {}))])
    session = await open_session(agent, workspace, llm_client=model)
    with pytest.raises(LlmError):
        await session.send_async("go")
    model = ScriptedModel(["done"])
    await session.close_async()
    again = await open_session(agent, workspace, llm_client=model)
    result = await again.resume_run_async("r")
    assert (result.text, result.tool_calls_count) == ("done", 1)
    assert len(model.requests) == 1
    assert one_result_each(workspace)


async def test_an_empty_log_can_t_be_resumed(agent: Agent, workspace: Path) -> None:
    """Without a store and without facts there is nothing to resume; nothing is written."""
    session = await open_session(agent, workspace, "fine")
    with pytest.raises(CodeError, match="resume_run requires a session_store on this session") as caught:
        await session.resume_run_async("r")
    assert caught.value.code == "SESSION_CONFIGURATION_ERROR"
    assert not (workspace / ".a3s").exists()
    assert (await session.send_async("go")).text == "fine"


async def test_killed_before_the_model_answered(agent: Agent, workspace: Path) -> None:
    """A prompt that was recorded and never answered is answered by the resume."""
    body = """
async def main():
    agent = await make_agent()
    session = await open_session(agent, ws, [delay(asyncio.Event())])
    stream = await session.stream_async("go")
    await anext(stream)
    say("sent")
    await asyncio.Event().wait()
asyncio.run(main())
"""
    with running(workspace, body, "sent"):
        assert kinds(workspace) == ["run.opened", "user.message"]
    session = await open_session(agent, workspace, "late answer")
    assert (await session.resume_run_async("r")).text == "late answer"
    assert [each["status"] for each in session.runs()] == ["parked", "completed"]
    assert session.runs()[1]["cause"] == "resume"
    assert session.runs()[1]["prompt"] == "go"
