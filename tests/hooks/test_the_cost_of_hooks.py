"""What hooks cost when there are none: nothing is put together for an event that nobody hears."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hookhelp import Heard, open_session

from a3s_code import Agent
from a3s_code.engine.firing import Firing
from a3s_code.testing import call


async def test_without_hooks_no_event_is_put_together(
    agent: Agent, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run and a direct call come to none of the places where an event is made; one hook is told of its event only."""
    made: list[str] = []
    about = Firing._about

    def counted(self: Firing, *args: Any) -> Any:
        made.append("event")
        return about(self, *args)

    monkeypatch.setattr(Firing, "_about", counted)
    session = await open_session(agent, workspace, [call("ls", {})], "done", "again")
    await session.send_async("go")
    await session.tool_async("ls")
    assert made == []
    session.register_hook("x", "on_success", Heard())
    await session.send_async("go")
    await session.close_async()
    assert made == ["event"]
