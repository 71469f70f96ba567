"""Questions of the model to the host (facts.md, *Parking and answering*)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from runhelp import collected, data, kinds, open_session, until, well_formed

from a3s_code import Agent, Session
from a3s_code.testing import ScriptedModel, call, calls


def asking(*questions: str) -> Any:
    return calls(*[call("ask_user", {"question": each, "options": ["yes", "no"]}) for each in questions])


async def asked(agent: Agent, workspace: Path, model: ScriptedModel) -> tuple[Session, asyncio.Task[Any]]:
    session = await open_session(agent, workspace, llm_client=model)
    task = asyncio.ensure_future(session.send_async("go"))
    await until(lambda: bool(session.pending_questions()))
    return session, task


async def test_an_answer_is_the_result(agent: Agent, workspace: Path) -> None:
    """A question parks the run; the answer is a fact and becomes the call's result, once."""
    model = ScriptedModel([asking("why?"), "because"])
    session, task = await asked(agent, workspace, model)
    (question,) = session.pending_questions()
    assert (question["question"], question["options"], question["multi_select"]) == ("why?", ["yes", "no"], False)
    assert session.pending_confirmations() == []
    assert not await session.confirm_tool_use_async(str(question["tool_id"]), True)
    assert await session.answer_question_async(str(question["tool_id"]), "yes")
    assert not await session.answer_question_async(str(question["tool_id"]), "no")
    assert (await task).text == "because"
    (result,) = data(workspace, "tool.result")
    assert (result.output, result.metadata["selected"]) == ("yes", ["yes"])
    assert kinds(workspace).count("question.answered") == 1
    assert well_formed(list(model.requests[1].messages))


async def test_questions_are_answered_one_after_the_other(agent: Agent, workspace: Path) -> None:
    """Each question is published when its turn comes; an answer for a later one is kept for it (case D03)."""
    session = await open_session(agent, workspace, asking("one", "two"), "done")
    reading = asyncio.ensure_future(collected(await session.stream_async("go")))
    await until(lambda: len(session.pending_questions()) == 2)
    first, second = (str(each["tool_id"]) for each in session.pending_questions())
    assert await session.answer_question_async(second, "b")
    assert [each["tool_id"] for each in session.pending_questions()] == [first]
    assert await session.answer_question_async(first, "a")
    events = await reading
    assert [event.output for event in events if event.type == "tool_end"] == ["a", "b"]
    assert "user_question" in [event.type for event in events]


async def test_a_question_survives_a_restart(agent: Agent, workspace: Path) -> None:
    """Closed while it waits, another session shows the question, takes the answer, and goes on."""
    session, task = await asked(agent, workspace, ScriptedModel([asking("why?")]))
    await session.close_async()
    await asyncio.wait([task])
    assert task.exception() is not None
    again = await open_session(agent, workspace, "because")
    (question,) = again.pending_questions()
    assert await again.answer_question_async(str(question["tool_id"]), "free words")
    assert again.pending_questions() == []
    assert (await again.resume_run_async("r")).text == "because"
    assert data(workspace, "tool.result")[0].metadata["selected"] == []


async def test_a_ninth_question_fails(agent: Agent, workspace: Path) -> None:
    """A run asks at most eight questions; a further one fails and says why."""
    model = ScriptedModel([asking(*[f"question {n}" for n in range(9)]), "done"])
    session = await open_session(agent, workspace, llm_client=model, tool_budget=None)
    task = asyncio.ensure_future(session.send_async("go"))
    while not task.done():
        for question in session.pending_questions():
            await session.answer_question_async(str(question["tool_id"]), "x")
        await asyncio.sleep(0)
    assert (await task).text == "done"
    results = data(workspace, "tool.result")
    assert [each.outcome for each in results] == ["ok"] * 8 + ["error"]
    assert results[8].output == "ask_user question cap exceeded"
