"""What the tests of hooks share. In: a workspace and a script. Out: sessions, tools that remember, and logs.

One rule: nothing here waits for real time. Known weakness: none known.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

from a3s_code import Agent, Session
from a3s_code.stores.factlog import FileFactLog
from a3s_code.stores.syncer import Syncer
from a3s_code.testing import ScriptedModel, Turn

ASKING = {"permission_policy": {"allow": [], "ask": ["note"], "default_decision": "allow"}}
ANSWERED = {**ASKING, "confirmation_policy": {"enabled": True}}


class Note:
    """A tool that remembers what it was called with; ``args`` is one of its parameters in ``WithArgs``."""

    name = "note"
    description = "Remembers."
    parameters: ClassVar[dict[str, Any]] = {
        "type": "object",
        "properties": {"text": {"type": "string"}, "command": {"type": "string"}, "file_path": {"type": "string"}},
        "required": ["text"],
        "additionalProperties": False,
    }

    def __init__(self) -> None:
        self.calls: list[dict[str, Any]] = []

    async def execute(self, args: dict[str, Any], ctx: Any) -> str:
        self.calls.append(args)
        return f"noted {args['text']}"


class WithArgs(Note):
    name = "spread"
    parameters: ClassVar[dict[str, Any]] = {
        "type": "object",
        "properties": {"args": {"type": "array", "items": {"type": "string"}}},
        "required": ["args"],
        "additionalProperties": False,
    }

    async def execute(self, args: dict[str, Any], ctx: Any) -> str:
        self.calls.append(args)
        return "spread"


class Heard:
    """A handler that remembers the events it got, and answers what it is told to."""

    def __init__(self, answer: Any = None) -> None:
        self.events: list[dict[str, Any]] = []
        self.answer = answer

    async def __call__(self, event: dict[str, Any]) -> Any:
        self.events.append(event)
        return self.answer(event) if callable(self.answer) else self.answer

    @property
    def payloads(self) -> list[dict[str, Any]]:
        return [event["payload"] for event in self.events]

    @property
    def types(self) -> list[str]:
        return [event["event_type"] for event in self.events]


async def open_session(agent: Agent, workspace: Path, *script: Turn, **options: Any) -> Session:
    """A session called ``s`` that answers by ``script``, may do everything and syncs nothing unless told to."""
    given: dict[str, Any] = {"session_id": "s", "log_durability": "os", "permission_policy": "full"}
    given["llm_client"] = ScriptedModel(list(script))
    return await agent.session_async(workspace, **{**given, **options})


def data(workspace: Path, kind: str) -> list[Any]:
    """The data of every fact of this kind, as the log has it."""
    log = FileFactLog(str(workspace.resolve()), "s", created_ms=0, syncer=Syncer())
    return [fact.data for fact in log.read() if fact.kind == kind] if log.exists() else []


async def until(condition: Callable[[], object]) -> None:
    """Lets the loop go round until ``condition`` holds."""
    for _ in range(20_000):
        if condition():
            return
        await asyncio.sleep(0)
    while not condition():  # something in a thread: the test's own timeout bounds it
        await asyncio.sleep(0.001)
