"""What the tests of runs share. In: a workspace and a script. Out: sessions on real files, and what their logs say.

One rule: nothing here waits for real time. Known weakness: none known.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from a3s_code import Agent, Session
from a3s_code.core.content import AssistantMessage, Message, ToolMessage
from a3s_code.core.facts import Fact
from a3s_code.stores.factlog import FileFactLog, log_path
from a3s_code.stores.syncer import Syncer
from a3s_code.testing import ScriptedModel, Turn

CONFIG: dict[str, Any] = {}


async def make_agent() -> Agent:
    """An agent on the running loop, whose sessions bring their own models."""
    return await Agent.create_from_config_async(CONFIG)


async def open_session(agent: Agent, workspace: Path, *script: Turn, **options: Any) -> Session:
    """A session called ``s`` that answers by ``script`` and syncs nothing unless told to."""
    given = {"session_id": "s", "llm_client": ScriptedModel(list(script)), "log_durability": "os", **options}
    return await agent.session_async(workspace, **given)


def facts(workspace: Path, session_id: str = "s") -> list[Fact]:
    """The log as it is on disk; a damaged one raises."""
    log = FileFactLog(str(workspace.resolve()), session_id, created_ms=0, syncer=Syncer())
    return list(log.read())


def kinds(workspace: Path, session_id: str = "s") -> list[str]:
    return [fact.kind for fact in facts(workspace, session_id)]


def data(workspace: Path, kind: str, session_id: str = "s") -> list[Any]:
    """The data of every fact of this kind."""
    return [fact.data for fact in facts(workspace, session_id) if fact.kind == kind]


def outcomes(workspace: Path, session_id: str = "s") -> dict[str, str]:
    """How each call ended."""
    return {each.call: each.outcome for each in data(workspace, "tool.result", session_id)}


def log_bytes(workspace: Path, session_id: str = "s") -> bytes:
    return Path(log_path(str(workspace), session_id)).read_bytes()


def well_formed(messages: tuple[Message, ...] | list[Message]) -> bool:
    """Whether every call is followed by exactly its one result before anything else, and no result stands alone."""
    open_calls: list[str] = []
    for message in messages:
        match message:
            case ToolMessage():
                if not open_calls or open_calls.pop(0) != message.call:
                    return False
            case AssistantMessage():
                if open_calls:
                    return False
                open_calls = [call.id for call in message.calls]
            case _:
                if open_calls:
                    return False
    return not open_calls


def one_result_each(workspace: Path, session_id: str = "s") -> bool:
    """Whether every call on the log has exactly one result, and no run is open."""
    found = facts(workspace, session_id)
    called = [
        call.id for fact in found if fact.kind == "model.turn" for call in msgspec.structs.asdict(fact.data)["calls"]
    ]
    results = [msgspec.structs.asdict(fact.data)["call"] for fact in found if fact.kind == "tool.result"]
    opened = sum(fact.kind == "run.opened" for fact in found)
    closed = sum(fact.kind == "run.closed" for fact in found)
    return sorted(called) == sorted(results) and opened == closed


async def until(condition: Callable[[], bool], turns: int = 20_000) -> None:
    """Lets the loop go round until ``condition`` holds."""
    for _ in range(turns):
        if condition():
            return
        await asyncio.sleep(0)
    while not condition():  # something in a thread: the test's own timeout bounds it
        await asyncio.sleep(0.001)


async def collected(stream: Any) -> list[Any]:
    return [event async for event in stream]
