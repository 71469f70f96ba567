"""A log in which hooks decided goes through the loop again without them: their decisions are facts."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from hookhelp import ANSWERED, ASKING, Heard, Note, open_session

from a3s_code import Agent
from a3s_code.engine.replay.replay import replay
from a3s_code.stores.factlog import log_path
from a3s_code.stores.logfile import read_header, read_log
from a3s_code.testing import call, calls

DECISIONS: dict[str, tuple[str, Any, dict[str, Any]]] = {
    "rewritten": ("pre_tool_use", {"action": "continue", "modified": {"text": "hook"}}, {}),
    "rewritten and denied": (
        "pre_tool_use",
        {"action": "continue", "modified": {"text": "hook", "command": "rm"}},
        {"permission_policy": {"deny": ["note(*rm*)"], "default_decision": "allow"}},
    ),
    "blocked": ("pre_tool_use", {"action": "block", "reason": "no"}, {}),
    "retry": ("pre_tool_use", {"action": "retry", "reason": "busy", "delay_ms": 3}, {}),
    "untouched": ("pre_tool_use", None, {}),
    "allowed": ("permission_request", {"decision": "allow", "reason": "known"}, ANSWERED),
    "allowed for nobody": ("permission_request", {"decision": "allow"}, ASKING),
    "nobody": ("permission_request", None, ASKING),
    "refused": ("permission_request", {"decision": "deny", "reason": "no"}, ANSWERED),
}


@pytest.mark.parametrize("name", DECISIONS)
async def test_a_run_with_hooks_replays(agent: Agent, workspace: Path, name: str) -> None:
    """Every fact comes out the same, whatever a hook made of one of three calls."""
    event, answer, options = DECISIONS[name]
    script = calls(("note", {"text": "a"}), ("note", {"text": "b"}), ("note", {"text": "c"}))
    session = await open_session(
        agent, workspace, script, [call("note", {"text": "d"})], "done", **{"tools": [Note()], **options}
    )
    session.register_hook("x", event, Heard(lambda event: answer if event["payload"]["args"]["text"] != "c" else None))
    if event == "permission_request":
        session.register_hook("y", event, Heard(answer))
    await session.send_async("go")
    await session.close_async()
    path = log_path(str(workspace), "s")
    done = await asyncio.wait_for(replay(read_header(path), list(read_log(path))), 10)
    assert done.difference is None
    assert (done.same, done.taken) == (done.total, ())
