"""The scripted run that proofs disturb. In: a workspace and how to treat what is not known. Out: a session and its end.

A run of four model turns with three tools: ``look`` (safe to repeat), ``pay`` (unsafe: each call adds a line to a file,
which is the side effect that is counted) and ``bash`` (the same, by a shell). The model answers by how far it is
with the last prompt, so that a resumed run gets the same answers.

One rule: whatever happens to a run, the same facts give the same next answer.
Known weakness: none known.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from a3s_code import Agent, Session, tool
from a3s_code.core.content import AssistantMessage, UserMessage
from a3s_code.core.facts import Fact, ModelTurn, ToolResulted, ToolStarted
from a3s_code.errors import StoreError
from a3s_code.ports.clock import HostEnvConfig
from a3s_code.ports.model import ModelRequest
from a3s_code.ports.tool import ToolContext
from a3s_code.testing import ScriptedModel, Turn, calls

PROMPT = "pay what is owed"
FINAL = "all is paid"
STEER = "bob as well"
COMMAND = (
    "if [ -e kill-before-bash ]; then kill -9 $PPID; exit; fi; echo bash >> effects.txt; "
    "if [ -e kill-after-bash ]; then kill -9 $PPID; exit; fi"
)
SCRIPT: list[Turn] = [
    calls(("look", {"at": "a"}), ("look", {"at": "b"}), ("pay", {"whom": "ann"})),
    calls(("bash", {"command": COMMAND})),
    calls(("pay", {"whom": "bob"})),
    FINAL,
]
UNSAFE = ("ann", "bash", "bob")
TOLD = "had begun when the run was interrupted"
"""In every text about a call whose outcome is not known."""


def answer(request: ModelRequest) -> Turn:
    """By how many turns follow the last prompt; a steer is none."""
    at = 0
    for message in reversed(request.messages):
        if isinstance(message, UserMessage) and message.text != STEER:
            break
        at += isinstance(message, AssistantMessage)
    return SCRIPT[at]


def effects(workspace: Path) -> dict[str, int]:
    """How often each side effect happened."""
    path = workspace / "effects.txt"
    lines = path.read_text().split() if path.exists() else []
    return {name: lines.count(name) for name in UNSAFE}


class Watched(ScriptedModel):
    """Calls ``seen`` at each request: at that moment everything before it must be on the disk."""

    def __init__(self, seen: Callable[[], None]) -> None:
        super().__init__([answer], repeat_last=True)
        self._seen = seen

    def stream(self, request: ModelRequest) -> Any:
        self._seen()
        return super().stream(request)


def tools(workspace: Path, began: Callable[[], None]) -> list[Any]:
    def effect(name: str) -> None:
        began()
        _kill_at(workspace, f"kill-before-{name}")
        fd = os.open(workspace / "effects.txt", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(fd, f"{name}\n".encode())
        os.close(fd)
        _kill_at(workspace, f"kill-after-{name}")

    @tool(read_only=True, idempotent=True, max_parallelism=4)
    def look(at: str) -> str:
        """Looks."""
        _kill_at(workspace, f"kill-before-{at}")
        return f"seen {at}"

    @tool
    def pay(whom: str, ctx: ToolContext) -> str:
        """Pays."""
        effect(whom)
        return f"paid {whom}"

    return [look, pay]


def _kill_at(workspace: Path, mark: str) -> None:
    if (workspace / mark).exists():
        os.kill(os.getpid(), signal.SIGKILL)


MARKS = [f"kill-before-{name}" for name in ("a", "b", *UNSAFE)] + [f"kill-after-{name}" for name in UNSAFE]


async def open_session(
    agent: Agent, workspace: Path, unknown: str, acknowledged: Callable[[str], None], **options: Any
) -> Session:
    """The session of the proof. ``acknowledged`` is told ``seq`` whenever the outside depends on all facts up to it.
    With ``unknown="ask"`` paying needs a confirmation."""
    found: list[Session] = []

    def tell() -> None:
        acknowledged(str(found[0]._engine.view().seq))

    if unknown == "ask":
        options = {
            "permission_policy": {"ask": ["pay"], "default_decision": "allow"},
            "confirmation_policy": {"enabled": True},
            **options,
        }
    session = await agent.session_async(
        workspace,
        session_id="proof",
        sandbox="host",  # the script kills the process that runs it, which it can only reach there
        llm_client=Watched(tell),
        tools=tools(workspace, tell),
        host_env=HostEnvConfig("n", 1_700_000_000_000),
        unknown_outcome=unknown,
        **options,
    )
    found.append(session)
    return session


async def attended(
    session: Session,
    work: Any,
    acknowledged: Callable[[str], None],
    repair: Callable[[], None] | None = None,
    before_answering: Callable[[Session], Awaitable[None]] | None = None,
) -> Any:
    """``work``, with somebody who approves what asks, but rejects what may have had its effect already. An answer that
    meets a failing disk is given again after ``repair``. Answers come when the run waits, so that logs are equal."""
    task = asyncio.ensure_future(work)
    while not task.done():
        run = session._engine.active
        for pending in session.pending_confirmations() if run is not None and run.parked else []:
            fresh = TOLD not in str(pending["reason"])
            if before_answering is not None:
                await before_answering(session)
            before = session._engine.view().seq
            try:
                if await session.confirm_tool_use_async(str(pending["tool_id"]), fresh):
                    acknowledged(str(before + 1))
            except StoreError:
                if repair is None:
                    raise
                repair()
        await asyncio.wait([task], timeout=0.001)
    return task.result()


def unanswered(found: list[Fact]) -> dict[str, str]:
    """Unsafe calls by what they do: ``done`` with a result, ``begun`` without one."""
    names = {
        call.id: str(call.args.get("whom", call.name))
        for fact in found
        if isinstance(fact.data, ModelTurn)
        for call in fact.data.calls
    }
    states: dict[str, str] = {}
    for fact in found:
        if isinstance(fact.data, ToolStarted) and fact.data.rerun == "unsafe":
            states[names[fact.data.call]] = "begun"
        elif isinstance(fact.data, ToolResulted):
            states[names[fact.data.call]] = "done"
    return states
