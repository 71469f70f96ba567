"""Calls written as text, from the configuration file through a real provider's stream to the tool (case A26)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from loopback import Reply, loopback, streamed
from provider_bytes import DONE, STOP, openai_event

from a3s_code import Agent
from a3s_code.core.content import UserMessage
from a3s_code.core.delta import ModelDelta
from a3s_code.ports.model import ModelRequest, ToolSpec
from a3s_code.providers.textcalls import TextCallsModel
from a3s_code.testing import ScriptedModel, text

MARKUP = '<tool_call>\n{"name": "write", "arguments": {"file_path": "hi.txt", "content": "hi"}}\n</tool_call>'


def said(content: str, size: int = 7) -> Reply:
    pieces = (content[at : at + size] for at in range(0, len(content), size))
    return streamed(*(openai_event(delta={"content": piece}, finish_reason=None) for piece in pieces), STOP, DONE)


def config(url: str, extra: str) -> str:
    return f"""default_model = "local/m"
providers "local" {{
  baseUrl = "{url}"
  models "m" {{ {extra} }}
}}
"""


async def test_a_call_in_the_text_runs_and_is_sent_back_as_a_call(tmp_path: Path) -> None:
    """The tool runs, the reader never sees the markup, and the next request holds a structured call and its result."""
    async with loopback(said(f"I write.\n{MARKUP}"), said("Written.")) as server:
        agent = await Agent.create_async(config(server.url, "textToolCalls = true"))
        session = await agent.session_async(tmp_path)
        result = await session.send_async("Write hi")
        history = session.history()
        await agent.close_async()
        second = json.loads(server.requests[1][1])["messages"]
    assert (result.text, (tmp_path / "hi.txt").read_text()) == ("Written.", "hi")
    assert "tool_call>" not in str(history)
    answer, output = second[-2:]
    assert answer["content"].strip() == "I write."
    assert answer["tool_calls"][0]["function"]["name"] == "write"
    assert output["tool_call_id"] == answer["tool_calls"][0]["id"]


@pytest.mark.parametrize(
    ("extra", "content"), [("", MARKUP), ("text_tool_calls = true", f"The file:\n```\n{MARKUP}\n```")]
)
async def test_markup_that_is_no_call_is_the_answer(tmp_path: Path, extra: str, content: str) -> None:
    """Without the setting, and in a quoted file with it, markup is text and nothing is written."""
    async with loopback(said(content)) as server:
        agent = await Agent.create_async(config(server.url, extra))
        session = await agent.session_async(tmp_path)
        result = await session.send_async("Show it")
        await agent.close_async()
    assert (result.text, (tmp_path / "hi.txt").exists()) == (content, False)


async def test_a_long_call_is_no_silence() -> None:
    """While markup is held back, every delta that came is one that goes on, so no watchdog takes it for silence."""
    offered = (ToolSpec("write", "", {"type": "object"}),)
    pieces = [text(MARKUP[at : at + 5]) for at in range(0, len(MARKUP), 5)]
    model = TextCallsModel(ScriptedModel([pieces]))
    got = [delta async for delta in model.stream(ModelRequest("m", [UserMessage("q")], tools=offered))]
    assert len([delta for delta in got if delta == ModelDelta()]) >= len(pieces)
    assert [delta.call.name for delta in got if delta.call is not None] == ["write"]
