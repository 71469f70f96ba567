"""Observers in the background (extensions.md §1.1): not waited for, told in order, drained at the end."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest
from hookhelp import Heard, open_session, until

from a3s_code import Agent
from a3s_code.engine import leaving
from a3s_code.hooks import background
from a3s_code.testing import call

IN_THE_BACKGROUND = {"background": True}


async def test_a_background_hook_holds_nothing_up_and_hears_all_in_order(agent: Agent, workspace: Path) -> None:
    """While its first event is still being handled the run goes on; the end of the run waits for the rest."""
    heard = Heard()
    release = asyncio.Event()

    async def slow(event: dict[str, Any]) -> None:
        await release.wait()
        await heard(event)

    session = await open_session(agent, workspace, [call("ls", {})], [call("ls", {"path": "."})], "done")
    session.register_hook("slow", "post_tool_use", None, IN_THE_BACKGROUND, slow)
    last = Heard(lambda event: release.set())
    session.register_hook("last", "post_response", last)
    result = await session.send_async("go")
    assert result.text == "done"
    assert last.events[0]["payload"]["tool_calls_count"] == 2
    assert [event["turn_id"] for event in heard.events] == ["turn-1", "turn-2"]


async def test_the_end_of_an_operation_waits_no_longer_than_its_limit(
    agent: Agent, workspace: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A hook that isn't done by then goes on afterwards, and what is left when the session closes is dropped."""
    monkeypatch.setattr(leaving, "DRAIN_S", 0.01)
    heard, release = Heard(), asyncio.Event()

    async def stuck(event: dict[str, Any]) -> None:
        await heard(event)
        await release.wait()

    session = await open_session(agent, workspace)
    session.register_hook("stuck", "post_tool_use", None, IN_THE_BACKGROUND, stuck)
    with caplog.at_level(logging.WARNING, "a3s_code"):
        await session.tool_async("ls")
        await session.tool_async("ls")
    assert len(heard.events) == 1
    assert "not done after 0.01 s" in caplog.text
    release.set()
    await until(lambda: len(heard.events) == 2)
    release.clear()
    await session.tool_async("ls")
    await session.tool_async("ls")
    await session.close_async()
    release.set()
    await asyncio.sleep(0)
    assert len(heard.events) == 3


async def test_one_slow_hook_holds_up_no_other(agent: Agent, workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each background hook has its own line."""
    monkeypatch.setattr(leaving, "DRAIN_S", 0.01)
    release, heard = asyncio.Event(), Heard()

    async def stuck(event: dict[str, Any]) -> None:
        await release.wait()

    session = await open_session(agent, workspace)
    session.register_hook("stuck", "post_tool_use", None, IN_THE_BACKGROUND, stuck)
    session.register_hook("other", "post_tool_use", None, IN_THE_BACKGROUND, heard)
    await session.tool_async("ls")
    await session.tool_async("ls")
    assert len(heard.events) == 2
    release.set()


async def test_a_hook_that_never_keeps_up_loses_the_newest(
    agent: Agent, workspace: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """What waits is bounded."""
    monkeypatch.setattr(leaving, "DRAIN_S", 0.001)
    monkeypatch.setattr(background, "LONGEST", 2)
    release, heard = asyncio.Event(), Heard()

    async def stuck(event: dict[str, Any]) -> None:
        await release.wait()
        await heard(event)

    session = await open_session(agent, workspace)
    session.register_hook("stuck", "post_tool_use", None, IN_THE_BACKGROUND, stuck)
    with caplog.at_level(logging.WARNING, "a3s_code"):
        for _ in range(5):
            await session.tool_async("ls")
    assert "is too slow" in caplog.text
    release.set()
    await until(lambda: len(heard.events) == 3)


async def test_a_background_hook_that_raises_hears_the_next_event(agent: Agent, workspace: Path) -> None:
    """A failure is logged and ends nothing."""
    heard = Heard(lambda event: 1 / 0)
    session = await open_session(agent, workspace)
    session.register_hook("x", "post_tool_use", None, IN_THE_BACKGROUND, heard)
    await session.tool_async("ls")
    await session.tool_async("ls")
    assert len(heard.events) == 2


async def test_a_session_that_ends_drains_its_background(agent: Agent, workspace: Path) -> None:
    """session_end in the background is told before close() returns."""
    heard = Heard()
    session = await open_session(agent, workspace)
    session.register_hook("x", "session_end", None, IN_THE_BACKGROUND, heard)
    await session.tool_async("ls")
    await session.close_async()
    assert heard.types == ["session_end"]
