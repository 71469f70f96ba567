"""The model asks its host (tools.md §3.14): the built-in tool, its checks, and who may use it."""

from __future__ import annotations

from pathlib import Path

from a3s_code import Agent
from a3s_code.core.content import JsonObject
from a3s_code.testing import ScriptedModel, call


async def test_a_question_parks_until_it_is_answered(agent: Agent, workspace: Path) -> None:
    """The options are told, and the answer is the tool's result, with what was selected."""
    question: JsonObject = {
        "question": "Which database?",
        "options": ["sqlite", {"label": "postgres", "description": "a server"}],
    }
    model = ScriptedModel([[call("ask_user", question)], "Then sqlite it is."])
    session = await agent.session_async(workspace, llm_client=model)
    asked = []
    async for event in session.stream("set up storage"):
        if event.type == "user_question":
            asked.append(event.payload["options"])
            [waiting] = session.pending_questions()
            assert waiting["question"] == "Which database?"
            assert await session.answer_question_async(str(waiting["tool_id"]), "sqlite")
        if event.type == "tool_end":
            metadata = event.payload["metadata"]
            assert isinstance(metadata, dict)
            assert (event.output, metadata["selected"]) == ("sqlite", ["sqlite"])
    assert asked == [question["options"]]
    assert session.history()[-1]["content"] == "Then sqlite it is."


async def test_a_malformed_question_is_refused_at_once(agent: Agent, workspace: Path) -> None:
    """What doesn't fit the schema never parks; the model is told what to mend."""
    malformed: JsonObject = {"question": "Which?", "options": [{"name": "x"}]}
    model = ScriptedModel([[call("ask_user", malformed)], [call("ask_user", {"question": " "})], "done"])
    session = await agent.session_async(workspace, llm_client=model)
    assert (await session.send_async("go")).text == "done"
    results = [str(m["content"]) for m in session.history() if m["role"] == "tool"]
    assert all(result.startswith("Invalid arguments for tool 'ask_user':") for result in results)
    assert len(results) == 2


async def test_only_the_models_own_turn_may_ask(agent: Agent, workspace: Path) -> None:
    """A host's direct call has nobody to ask."""
    session = await agent.session_async(workspace, llm_client=ScriptedModel([]))
    result = await session.tool_async("ask_user", {"question": "Which?"})
    assert (result.error_kind, result.exit_code) == ("unavailable", 126)
