"""Interrupted at every turn of the event loop, in every way (quality.md, *Proofs*; cases B01, B09, H10)."""

from __future__ import annotations

import asyncio
import contextlib
import os
import selectors
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from scenario import FINAL, PROMPT, UNSAFE, effects, open_session

from a3s_code import Agent, Session
from a3s_code.core.facts import Fact, ModelTurn, RunClosed, RunOpened, ToolResulted
from a3s_code.errors import SessionClosed
from a3s_code.stores.factlog import FileFactLog
from a3s_code.stores.syncer import Syncer

IDLE_WORKERS = {"a3s-code-sync", "a3s-code-callback", "a3s-code-worker"}


class CountingLoop(asyncio.SelectorEventLoop):
    """Calls ``act`` before its ``at``-th turn since ``begin``."""

    def __init__(self) -> None:
        super().__init__(selectors.DefaultSelector())
        self.turns = 0
        self.at = 0
        self.act: Callable[[], object] | None = None

    def begin(self, at: int, act: Callable[[], object]) -> None:
        self.turns, self.at, self.act = 0, at, act

    def _run_once(self) -> None:
        self.turns += 1
        act = self.act
        if act is not None and self.turns == self.at:
            self.act = None
            self.call_soon(act)
        super()._run_once()  # type: ignore[misc]  # the one place that sees every turn


def nobody(seq: str) -> None:
    """The proof asks the log instead."""


async def by_cancel(session: Session, arm: Callable[[Callable[[], object]], None]) -> None:
    arm(session.cancel)
    result = await session.send_async(PROMPT)
    assert result.stop_reason in ("cancelled", "done")


async def by_task(session: Session, arm: Callable[[Callable[[], object]], None]) -> None:
    task = asyncio.ensure_future(session.send_async(PROMPT))
    arm(task.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        await task


async def by_close(session: Session, arm: Callable[[Callable[[], object]], None]) -> None:
    closing: list[asyncio.Future[None]] = []
    arm(lambda: closing.append(asyncio.ensure_future(session.close_async())))
    with contextlib.suppress(SessionClosed):
        await session.send_async(PROMPT)
    for task in closing:
        await task


async def by_dropped_stream(session: Session, arm: Callable[[Callable[[], object]], None]) -> None:
    stream: list[Any] = [await session.stream_async(PROMPT)]
    run = session._engine.active

    async def read() -> None:
        with contextlib.suppress(IndexError):
            async for _ in stream[0]:
                if not stream:
                    return

    reading = asyncio.ensure_future(read())

    def drop() -> None:
        reading.cancel()
        stream.clear()

    arm(drop)
    with contextlib.suppress(asyncio.CancelledError):
        await reading
    stream.clear()
    if run is not None:
        await asyncio.wait([run.finished])


async def by_session_token(session: Session, arm: Callable[[Callable[[], object]], None]) -> None:
    arm(session.session_cancel_token().cancel)
    await session.send_async(PROMPT)


WAYS = {
    "cancel": by_cancel,
    "task": by_task,
    "close": by_close,
    "dropped stream": by_dropped_stream,
    "token": by_session_token,
}


def descriptors() -> set[str]:
    """What this process has open, but for what belongs to nobody's log."""
    found = set()
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            target = os.readlink(f"/proc/self/fd/{name}")
            found.add(target if ".a3s" in target or "effects" in target else name)
    return {each for each in found if ".a3s" in each or "effects" in each}


def children_of_this_process() -> list[str]:
    """Processes that this one started and that are still there."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            stat = Path(f"/proc/{name}/stat").read_text()
            state, parent = stat.rpartition(")")[2].split()[:2]
            if int(parent) == os.getpid() and state != "Z":
                found.append(stat)
    return found


def facts(workspace: Path) -> list[Fact]:
    log = FileFactLog(str(workspace), "proof", created_ms=0, syncer=Syncer())
    return list(log.read())


def well_formed(found: list[Fact]) -> bool:
    """Each call has its one result, each run its one end."""
    called = [call.id for fact in found if isinstance(fact.data, ModelTurn) for call in fact.data.calls]
    results = [fact.data.call for fact in found if isinstance(fact.data, ToolResulted)]
    opened = sum(isinstance(fact.data, RunOpened) for fact in found)
    return sorted(called) == sorted(results) and opened == sum(isinstance(fact.data, RunClosed) for fact in found)


async def interrupted(loop: CountingLoop, agent: Agent, workspace: Path, way: str, at: int) -> None:
    session = await open_session(agent, workspace, "report", nobody)
    await WAYS[way](session, lambda act: loop.begin(at, act))
    loop.act = None
    where = f"{way} at turn {at}"
    tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    assert tasks == [], where
    assert session.active_tools() == [], where
    assert children_of_this_process() == [], where
    await session.close_async()
    assert descriptors() == set(), where
    found = facts(workspace)
    assert well_formed(found), where
    assert all(count <= 1 for count in effects(workspace).values()), where
    again = await open_session(agent, workspace, "report", nobody)  # the lock is free, and the conversation goes on
    if found:
        await again.send_async(PROMPT)
        assert well_formed(facts(workspace)), where
    await again.close_async()


@pytest.mark.parametrize("way", WAYS)
def test_interrupted_at_every_turn_of_the_loop(way: str, tmp_path: Path, tell: Callable[[str], None]) -> None:
    """Wherever a run is interrupted, nothing of it is left at work, the log is well formed and the session usable."""
    loop = CountingLoop()
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        agent = runner.run(Agent.create_from_config_async({}))
        whole = tmp_path / "whole"
        whole.mkdir()

        async def undisturbed() -> int:
            async with await open_session(agent, whole, "report", nobody) as session:
                before = loop.turns
                assert (await session.send_async(PROMPT)).text == FINAL
                return loop.turns - before

        turns = max(runner.run(undisturbed()), 20)
        assert effects(whole) == dict.fromkeys(UNSAFE, 1)
        for at in range(1, turns + 5):
            workspace = tmp_path / "ws"
            workspace.mkdir()
            runner.run(interrupted(loop, agent, workspace, way, at))
            shutil.rmtree(workspace)
        runner.run(agent.close_async())
    left = {thread.name for thread in threading.enumerate() if thread is not threading.main_thread()}
    assert left <= IDLE_WORKERS
    tell(f"cancellation proof, by {way}: interrupted at {turns + 4} turns of the event loop")
