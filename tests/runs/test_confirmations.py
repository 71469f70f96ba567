"""Calls that a person decides (facts.md, *Parking and answering*; cases D02 to D09, D14, E14)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from otherprocess import run, running
from runhelp import collected, data, kinds, one_result_each, open_session, outcomes, until, well_formed

from a3s_code import Agent, Session, tool
from a3s_code.core.digest import args_digest
from a3s_code.errors import CodeError, SessionBusy
from a3s_code.testing import ScriptedModel, calls

ASKS: dict[str, Any] = {
    "permission_policy": {"ask": ["write"], "default_decision": "allow"},
    "confirmation_policy": {"enabled": True},
}


def write(name: str) -> tuple[str, Any]:
    return "write", {"file_path": name, "content": f"{name}\n"}


async def parked(agent: Agent, workspace: Path, *script: Any, **options: Any) -> tuple[Session, asyncio.Task[Any]]:
    session = await open_session(agent, workspace, *script, **{**ASKS, **options})
    task = asyncio.ensure_future(session.send_async("go"))
    await until(lambda: bool(session.runs()) and session.runs()[0]["status"] == "parked")
    return session, task


async def test_an_approved_call_runs_once(agent: Agent, workspace: Path) -> None:
    """The pending call says what it is; approved it runs, and the answer is a fact with the digest of the arguments."""
    session, task = await parked(agent, workspace, calls(write("a")), "written")
    (pending,) = session.pending_confirmations()
    assert (pending["tool_name"], pending["args"]) == ("write", {"file_path": "a", "content": "a\n"})
    assert pending["run_id"] == session.runs()[0]["id"]
    assert "ask" in str(pending["reason"])
    assert isinstance(pending["since_ms"], int)
    assert not (workspace / "a").exists()
    assert await session.confirm_tool_use_async(str(pending["tool_id"]), True, "fine")
    assert (await task).text == "written"
    assert (workspace / "a").read_text() == "a\n"
    (answered,) = data(workspace, "confirmation.answered")
    assert (answered.approved, answered.reason) == (True, "fine")
    assert answered.args_digest == args_digest({"file_path": "a", "content": "a\n"})
    assert kinds(workspace).count("tool.started") == 1


async def test_a_rejected_call_is_told_and_the_turn_goes_on(agent: Agent, workspace: Path) -> None:
    """Rejecting records a denied result with the reason; the other calls and the run go on."""
    model = ScriptedModel([calls(write("a"), write("b")), "done"])
    session, task = await parked(agent, workspace, llm_client=model)
    first, second = session.pending_confirmations()
    assert await session.confirm_tool_use_async(str(first["tool_id"]), False, "not this one")
    assert await session.confirm_tool_use_async(str(second["tool_id"]), True)
    assert (await task).text == "done"
    assert list(outcomes(workspace).values()) == ["denied", "ok"]
    assert data(workspace, "tool.result")[0].output == "Rejected: not this one"
    assert [p.name for p in sorted(workspace.iterdir()) if not p.name.startswith(".")] == ["b"]
    assert well_formed(list(model.requests[1].messages))


async def test_answers_in_any_order(agent: Agent, workspace: Path) -> None:
    """All asks of a turn are published and may be answered in any order; they run in call order (case D03)."""
    session, task = await parked(agent, workspace, calls(write("a"), write("b"), write("c")), "done")
    ids = [str(pending["tool_id"]) for pending in session.pending_confirmations()]
    for call_id in reversed(ids):
        assert await session.confirm_tool_use_async(call_id, True)
    assert (await task).text == "done"
    assert list(outcomes(workspace)) == ids


async def test_what_comes_before_an_ask_has_settled(agent: Agent, workspace: Path) -> None:
    """An ask parks itself and what comes after it; what comes before runs first."""
    session, task = await parked(agent, workspace, calls(("ls", {}), write("a"), ("ls", {"path": "."})), "done")
    assert list(outcomes(workspace)) == ["call_1_1"]
    (pending,) = session.pending_confirmations()
    await session.confirm_tool_use_async(str(pending["tool_id"]), True)
    await task
    assert list(outcomes(workspace)) == ["call_1_1", "call_1_2", "call_1_3"]


async def test_answering_twice_or_nothing(agent: Agent, workspace: Path) -> None:
    """A second answer, or one for an id that doesn't wait, is False and writes nothing (case D03)."""
    session, task = await parked(agent, workspace, calls(write("a"), write("b")), "done")
    first, second = (str(pending["tool_id"]) for pending in session.pending_confirmations())
    assert await session.confirm_tool_use_async(second, False)
    written = kinds(workspace)
    assert not await session.confirm_tool_use_async(second, True)
    assert not await session.confirm_tool_use_async("nothing", True)
    assert not await session.answer_question_async(first, "yes")
    assert kinds(workspace) == written
    await session.confirm_tool_use_async(first, True)
    await task
    assert not (workspace / "b").exists()


@pytest.mark.parametrize(
    ("call_id", "approved", "reason"),
    [("c", "no", None), ("c", 1, None), ("c", None, None), (5, True, None), ("c", True, 5), (["c"], True, None)],
)
async def test_a_malformed_decision_is_refused(
    agent: Agent, workspace: Path, call_id: Any, approved: Any, reason: Any
) -> None:
    """A decision is a bool for an id; anything else is INVALID_REQUEST and the call goes on waiting (case D07)."""
    session, task = await parked(agent, workspace, calls(write("a")), "done")
    (pending,) = session.pending_confirmations()
    given = str(pending["tool_id"]) if call_id == "c" else call_id
    with pytest.raises(CodeError) as caught:
        await session.confirm_tool_use_async(given, approved, reason)
    assert caught.value.code == "INVALID_REQUEST"
    assert session.pending_confirmations() == [pending]
    assert await session.confirm_tool_use_async(str(pending["tool_id"]), True)
    assert (await task).text == "done"


async def test_what_a_client_does_to_the_record_changes_nothing(agent: Agent, workspace: Path) -> None:
    """The arguments that run are those on the log, whatever a host did to what it was shown (case D07)."""
    session = await open_session(agent, workspace, calls(write("a")), "done", **ASKS)
    async for event in await session.stream_async("go"):
        if event.type == "confirmation_required":
            (pending,) = session.pending_confirmations()
            shown: Any = pending["args"]
            told: Any = event.payload["args"]
            shown["file_path"] = told["file_path"] = "evil"
            assert await session.confirm_tool_use_async(str(pending["tool_id"]), True)
    assert not (workspace / "evil").exists()
    assert (workspace / "a").exists()


async def test_an_answer_while_the_fact_is_being_synced(agent: Agent, workspace: Path) -> None:
    """A call can be answered before its event is published, and the run doesn't miss it."""
    session = await open_session(agent, workspace, calls(write("a")), "done", **ASKS, log_durability="fsync")
    engine = session._engine
    real = engine.writer.durable

    async def answering() -> None:
        for pending in session.pending_confirmations():
            engine.writer.durable = real  # type: ignore[method-assign]  # as it was
            assert await session.confirm_tool_use_async(str(pending["tool_id"]), True)
        await real()

    engine.writer.durable = answering  # type: ignore[method-assign]  # the one moment that is hard to hit
    async with asyncio.timeout(20):
        assert (await session.send_async("go")).text == "done"
    assert (workspace / "a").exists()


async def test_events_of_a_confirmation(agent: Agent, workspace: Path) -> None:
    """A reader sees ``confirmation_required`` once a call, then ``confirmation_received``, then the call."""
    session = await open_session(agent, workspace, calls(write("a"), write("b")), "done", **ASKS)
    reading = asyncio.ensure_future(collected(await session.stream_async("go")))
    await until(lambda: len(session.pending_confirmations()) == 2)
    for pending in session.pending_confirmations():
        assert await session.confirm_tool_use_async(str(pending["tool_id"]), True)
    types = [event.type for event in await reading if not event.type.endswith("delta")]
    assert types[4:-3] == [
        "turn_end",
        "confirmation_required",
        "confirmation_required",
        "confirmation_received",
        "confirmation_received",
        "tool_execution_start",
        "tool_end",
        "tool_execution_start",
        "tool_end",
    ]


async def test_an_approval_is_used_up(agent: Agent, workspace: Path) -> None:
    """The same call of a later turn asks again (case D02)."""
    session, task = await parked(agent, workspace, calls(write("a")), calls(write("a")), "done")
    (first,) = session.pending_confirmations()
    await session.confirm_tool_use_async(str(first["tool_id"]), True)
    await until(lambda: [p["tool_id"] for p in session.pending_confirmations()] not in ([], [first["tool_id"]]))
    (second,) = session.pending_confirmations()
    await session.confirm_tool_use_async(str(second["tool_id"]), False)
    await task
    assert list(outcomes(workspace).values()) == ["ok", "denied"]


async def test_a_policy_that_answers_every_ask(agent: Agent, workspace: Path) -> None:
    """``enabled=False`` approves every ask without waiting."""
    options = {**ASKS, "confirmation_policy": {"enabled": False}}
    session = await open_session(agent, workspace, calls(write("a")), "done", **options)
    assert (await session.send_async("go")).text == "done"
    assert (workspace / "a").exists()


PARK = """
async def main():
    agent = await make_agent()
    session = await open_session(agent, ws, calls(("write", {"file_path": "a", "content": "a\\n"})), "unused",
        permission_policy={"ask": ["write"], "default_decision": "allow"}, confirmation_policy={"enabled": True})
    task = asyncio.ensure_future(session.send_async("go"))
    await until(lambda: bool(session.runs()) and session.runs()[0]["status"] == "parked")
    say("parked")
    await task
asyncio.run(main())
"""
ANSWER = """
async def main():
    agent = await make_agent()
    session = await open_session(agent, ws, "written",
        permission_policy={"ask": ["write"], "default_decision": "allow"}, confirmation_policy={"enabled": True})
    (pending,) = session.pending_confirmations()
    say(session.runs()[0]["status"], pending["tool_name"])
    say(await session.confirm_tool_use_async(pending["tool_id"], True))
    say(await session.confirm_tool_use_async(pending["tool_id"], False))
    say((await session.resume_run_async(session.runs()[0]["id"])).text)
    say(len(session.pending_confirmations()))
asyncio.run(main())
"""


async def test_answered_in_another_process_after_the_first_was_killed(agent: Agent, workspace: Path) -> None:
    """While the first process lives its log is busy; killed, another lists, answers, and goes on (case D09)."""
    with running(workspace, PARK, "parked") as process:
        late = await open_session(agent, workspace, "x", **ASKS)
        (pending,) = late.pending_confirmations()
        with pytest.raises(SessionBusy, match=str(process.pid)):
            await late.confirm_tool_use_async(str(pending["tool_id"]), True)
        with pytest.raises(SessionBusy):
            await late.resume_run_async("r")
        process.kill()
        process.wait()
    assert not (workspace / "a").exists()
    assert run(workspace, ANSWER) == ["parked write", "True", "False", "written", "0"]
    assert (workspace / "a").read_text() == "a\n"
    assert kinds(workspace).count("tool.started") == 1
    assert not await late.confirm_tool_use_async(str(pending["tool_id"]), False)
    assert len(data(workspace, "confirmation.answered")) == 1
    again = await open_session(agent, workspace, **ASKS)
    assert [message["role"] for message in again.history()] == ["user", "assistant", "tool", "assistant"]


async def test_a_new_prompt_settles_what_was_parked(agent: Agent, workspace: Path) -> None:
    """A prompt on a log whose last run is open closes that run as cancelled, its calls with it; nothing runs."""
    session, task = await parked(agent, workspace, calls(write("a")))
    await session.close_async()
    with pytest.raises(CodeError):
        await task
    model = ScriptedModel(["fresh"])
    again = await open_session(agent, workspace, llm_client=model, **ASKS)
    assert (await again.send_async("something else")).text == "fresh"
    assert [closed.status for closed in data(workspace, "run.closed")] == ["cancelled", "completed"]
    assert list(outcomes(workspace).values()) == ["cancelled"]
    assert one_result_each(workspace)
    assert well_formed(list(model.requests[0].messages))
    assert not (workspace / "a").exists()
    assert [each["status"] for each in again.runs()] == ["cancelled", "completed"]


async def test_a_call_at_work_waits_for_nobody(agent: Agent, workspace: Path) -> None:
    """With ``unknown_outcome="ask"`` a call that is running is no call whose outcome is not known: it neither waits
    for an answer nor takes one."""
    began, release = asyncio.Event(), asyncio.Event()

    @tool
    async def pay() -> str:
        """Pays."""
        began.set()
        await release.wait()
        return "paid"

    options: dict[str, Any] = {"unknown_outcome": "ask", "confirmation_policy": {"enabled": True}, "tools": [pay]}
    session = await open_session(agent, workspace, calls(("pay", {})), "done", **options)
    task = asyncio.ensure_future(session.send_async("go"))
    await began.wait()
    assert session.pending_confirmations() == []
    assert not await session.confirm_tool_use_async("call_1_1", False)
    release.set()
    assert (await task).text == "done"
    assert "confirmation.answered" not in kinds(workspace)
