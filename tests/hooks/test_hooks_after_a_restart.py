"""Calls that are resumed where another process left them (extensions.md §1.3): approvals are bound to arguments."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hookhelp import ANSWERED, Heard, Note, data, open_session, until

from a3s_code import Agent, Session
from a3s_code.testing import call

SENT: dict[str, Any] = {"text": "model"}


def to(text: str) -> Heard:
    return Heard({"action": "continue", "modified": {"text": text}})


async def parked_then_approved(agent: Agent, workspace: Path, hook: Heard | None) -> None:
    """A run that parked under ``hook`` in one session, and was approved in another."""
    first = await open_session(agent, workspace, [call("note", SENT, id="c")], tools=[Note()], **ANSWERED)
    if hook is not None:
        first.register_hook("x", "pre_tool_use", hook)
    stream = await first.stream_async("go")
    await until(first.pending_confirmations)
    await first.close_async()
    await stream.close_async()
    second = await open_session(agent, workspace, tools=[Note()], **ANSWERED)
    assert await second.confirm_tool_use_async("c", True)
    await second.close_async()


async def resumed(agent: Agent, workspace: Path, note: Note, hook: Heard | None) -> tuple[Session, asyncio.Task[Any]]:
    session = await open_session(agent, workspace, "done", tools=[note], **ANSWERED)
    if hook is not None:
        session.register_hook("x", "pre_tool_use", hook)
    return session, asyncio.ensure_future(session.resume_run_async(str(session.runs()[0]["id"])))


@pytest.mark.parametrize("before", [None, "same"])
async def test_an_approval_counts_for_the_same_arguments(agent: Agent, workspace: Path, before: str | None) -> None:
    """The hook is asked again, about the original arguments; what comes out as it was approved runs, once."""
    earlier, hook = (to("same"), to("same")) if before else (None, Heard())
    await parked_then_approved(agent, workspace, earlier)
    note = Note()
    _, running = await resumed(agent, workspace, note, hook)
    assert (await running).text == "done"
    assert [p["args"] for p in hook.payloads] == [SENT]
    assert note.calls == [{"text": before or "model"}]


@pytest.mark.parametrize(("before", "now", "text"), [("a", "b", "b"), (None, "b", "b"), ("a", None, "model")])
async def test_an_approval_of_other_arguments_is_asked_for_again(
    agent: Agent, workspace: Path, before: str | None, now: str | None, text: str
) -> None:
    """Another result of the hook parks the call again, showing it; only then it runs."""
    await parked_then_approved(agent, workspace, None if before is None else to(before))
    note = Note()
    session, running = await resumed(agent, workspace, note, Heard() if now is None else to(now))
    await until(session.pending_confirmations)
    assert session.pending_confirmations()[0]["args"] == {"text": text}
    assert note.calls == []
    assert await session.confirm_tool_use_async("c", True)
    await running
    assert note.calls == [{"text": text}]
    assert [answer.approved for answer in data(workspace, "confirmation.answered")] == [True, True]


async def test_without_hooks_the_recorded_arguments_stand(agent: Agent, workspace: Path) -> None:
    """Where no hook is asked, what was approved is what runs."""
    await parked_then_approved(agent, workspace, to("hook"))
    note = Note()
    _, running = await resumed(agent, workspace, note, None)
    await running
    assert note.calls == [{"text": "hook"}]


async def test_a_denial_after_a_restart_overrules_the_approval(agent: Agent, workspace: Path) -> None:
    """A hook of the new process may refuse what was approved."""
    await parked_then_approved(agent, workspace, None)
    note = Note()
    _, running = await resumed(agent, workspace, note, Heard({"action": "block"}))
    await running
    assert note.calls == []
    assert data(workspace, "tool.result")[0].metadata["error"]["type"] == "hook_denied"


DIES = """
import os, sys
from a3s_code import Agent
from a3s_code.testing import ScriptedModel, call

def die(text: str) -> str:
    "Ends the process in the middle of its work."
    os._exit(9)

agent = Agent.create_from_config({})
session = agent.session(
    sys.argv[1], session_id="s", llm_client=ScriptedModel([[call("die", {"text": "model"}, id="c")]]),
    tools=[die], permission_policy="full",
)
session.register_hook(
    "x", "pre_tool_use", lambda event: {"action": "continue", "modified": {"text": "hook"}}
)
session.send("go")
"""


@pytest.mark.parametrize("answer", [{"action": "continue", "modified": {"text": "again"}}, {"action": "block"}])
async def test_a_call_that_had_begun_when_its_process_died(agent: Agent, workspace: Path, answer: Any) -> None:
    """It runs once more with what the hook makes of the original; denied, its result says that nobody knows."""
    dead = subprocess.run(
        [sys.executable, "-c", DIES, str(workspace)], env=os.environ, capture_output=True, check=False
    )
    assert dead.returncode == 9, dead.stderr
    heard, calls = Heard(answer), list[str]()

    def die(text: str) -> str:
        """Lives on in this process."""
        calls.append(text)
        return "alive"

    session = await open_session(agent, workspace, "done", tools=[die])
    session.register_hook("x", "pre_tool_use", heard)
    await session.resume_run_async(str(session.runs()[0]["id"]), accept_changes=True)
    assert [p["args"] for p in heard.payloads] == [{"text": "model"}]
    (result,) = data(workspace, "tool.result")
    if answer["action"] == "block":
        assert (calls, result.outcome) == ([], "unknown")
    else:
        assert (calls, result.outcome) == (["again"], "ok")
