"""Explicit history (api.md): seen by the model, left out of ``history()`` for good."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from runhelp import data, make_agent, open_session, well_formed

from a3s_code import Agent
from a3s_code.core.content import AssistantMessage, UserMessage
from a3s_code.errors import CodeError
from a3s_code.testing import ScriptedModel

SEED: list[Any] = [
    {"role": "user", "content": "earlier"},
    {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"id": "c", "type": "function", "function": {"name": "ls", "arguments": "{}"}}],
    },
    {"role": "tool", "tool_call_id": "c", "content": "a.txt"},
    {"role": "assistant", "content": "one file"},
]


def texts(model: ScriptedModel, request: int) -> list[str]:
    return [m.text for m in model.requests[request].messages if isinstance(m, UserMessage | AssistantMessage)]


async def test_it_seeds_an_empty_log(agent: Agent, workspace: Path) -> None:
    """On an empty log the model sees the history and the prompt; ``history()`` stays empty, later turns see it all."""
    model = ScriptedModel(["answer", "later"])
    session = await open_session(agent, workspace, llm_client=model)
    result = await session.send_async("question", SEED)
    assert result.text == "answer"
    assert texts(model, 0) == ["earlier", "", "one file", "question"]
    assert session.history() == []
    await session.send_async("and?")
    assert texts(model, 1) == ["earlier", "", "one file", "question", "answer", "and?"]
    assert [message["content"] for message in session.history()] == ["and?", "later"]
    assert all(well_formed(list(request.messages)) for request in model.requests)


async def test_it_seeds_nothing_else(agent: Agent, workspace: Path) -> None:
    """On a log that has facts the given history is not added; the run is hidden all the same."""
    model = ScriptedModel(["a", "b", "c"])
    session = await open_session(agent, workspace, llm_client=model)
    await session.send_async("first")
    before = session.history()
    await session.send_async("second", SEED)
    assert session.history() == before
    assert texts(model, 1) == ["first", "a", "second"]
    assert [each.source for each in data(workspace, "user.message")] == ["prompt", "prompt"]


async def test_it_stays_hidden_after_a_restart(workspace: Path) -> None:
    """Another process tells the same history."""
    one = await make_agent()
    session = await open_session(one, workspace, "a", "b")
    await session.send_async("hidden", [])
    await session.send_async("shown")
    await one.close_async()
    two = await make_agent()
    again = await open_session(two, workspace, "c")
    assert [message["content"] for message in again.history()] == ["shown", "b"]
    await two.close_async()


async def test_a_failed_hidden_run_stays_hidden(agent: Agent, workspace: Path) -> None:
    """Also a run that failed in the middle leaves ``history()`` as it was."""
    session = await open_session(agent, workspace)
    with pytest.raises(CodeError):
        await session.send_async("hidden", SEED)
    assert session.history() == []


@pytest.mark.parametrize(
    "history",
    [
        "text",
        {"role": "user"},
        [5],
        [{"role": "system", "content": "x"}],
        [{"role": "tool", "tool_call_id": "c", "content": "orphan"}],
        [{"role": "user", "content": {"a": 1}}],
    ],
)
async def test_a_bad_history_is_refused(agent: Agent, workspace: Path, history: Any) -> None:
    """A malformed message is INVALID_REQUEST before a fact is written (case B02)."""
    session = await open_session(agent, workspace, "fine")
    with pytest.raises(CodeError) as caught:
        await session.send_async("x", history)
    assert caught.value.code == "INVALID_REQUEST"
    assert not (workspace / ".a3s").exists()


async def test_the_prompt_form_as_a_mapping(agent: Agent, workspace: Path) -> None:
    """History may come in the request mapping."""
    session = await open_session(agent, workspace, "a")
    await session.send_async({"prompt": "x", "history": SEED})
    assert session.history() == []
