"""Attachments of prompts (api.md): checked before a fact, kept beside the log, named by digest (case F19)."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
from runhelp import data, log_bytes, make_agent, open_session

from a3s_code import Agent
from a3s_code.core.content import UserMessage
from a3s_code.errors import CodeError
from a3s_code.testing import ScriptedModel

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(32))


async def test_images_and_texts_reach_the_model(agent: Agent, workspace: Path) -> None:
    """Paths, bytes and base64 are kept as files; facts hold digests; the request can load the bytes."""
    (workspace / "notes.txt").write_text("remember")
    model = ScriptedModel(["seen"])
    session = await open_session(agent, workspace, llm_client=model)
    given: list[Any] = [
        {"path": "notes.txt"},
        {"data": PNG, "media_type": "image/png"},
        {"data": base64.b64encode(PNG).decode(), "media_type": "image/png"},
    ]
    await session.send_async("look", attachments=given)
    (said,) = data(workspace, "user.message")
    assert [ref.kind for ref in said.attachments] == ["text", "image", "image"]
    assert said.attachments[1].sha256 == said.attachments[2].sha256
    (message,) = model.requests[0].messages
    assert isinstance(message, UserMessage)
    load = model.requests[0].load
    assert load is not None
    assert [load(ref) for ref in message.attachments] == [b"remember", PNG, PNG]
    assert base64.b64encode(PNG)[:16] not in log_bytes(workspace)
    assert len(list((workspace / ".a3s" / "attachments").iterdir())) >= 2


async def test_they_survive_a_restart(workspace: Path) -> None:
    """Another process can send the conversation with its attachments again."""
    one = await make_agent()
    session = await open_session(one, workspace, "seen")
    await session.send_async("look", attachments=[{"data": PNG, "media_type": "image/png"}])
    await one.close_async()
    two = await make_agent()
    model = ScriptedModel(["again"])
    await (await open_session(two, workspace, llm_client=model)).send_async("and?")
    message, load = model.requests[0].messages[0], model.requests[0].load
    assert isinstance(message, UserMessage)
    assert load is not None
    assert load(message.attachments[0]) == PNG
    await two.close_async()


@pytest.mark.parametrize(
    "attachment",
    [
        {"path": "missing"},
        {"path": "../outside.txt"},
        {"path": "a", "data": b"x"},
        {},
        {"data": 5},
        {"data": "not base64!"},
        {"data": b"\xff\xfe\x00\x01", "media_type": "text/plain"},
        {"data": b"text", "media_type": "image/png"},
        {"data": b"\x89PNG\r\n\x1a\n" + b"x" * (5 * 1024 * 1024)},
        {"paht": "a"},
        "a.png",
    ],
)
async def test_what_can_t_be_taken_is_refused_before_a_fact(agent: Agent, workspace: Path, attachment: Any) -> None:
    """INVALID_REQUEST names the attachment; neither a fact nor a file is written."""
    (workspace.parent / "outside.txt").write_text("secret")
    session = await open_session(agent, workspace, "never")
    with pytest.raises(CodeError, match=r"attachments\[0\]") as caught:
        await session.send_async("look", attachments=[attachment])
    assert caught.value.code == "INVALID_REQUEST"
    assert not (workspace / ".a3s").exists()
