"""Every operation on the log fails once, in every way it can (facts.md, *What must be proved*)."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from scenario import FINAL, PROMPT, UNSAFE, attended, effects, open_session

from a3s_code import Agent, Session
from a3s_code.core.facts import Fact, RunClosed
from a3s_code.errors import CodeError, StoreError
from a3s_code.stores.factlog import FileFactLog
from a3s_code.stores.syncer import Syncer
from a3s_code.testing.faults import FaultKind, FaultyDisk, on_disk


def facts(workspace: Path) -> list[Fact]:
    log = FileFactLog(str(workspace), "proof", created_ms=0, syncer=Syncer())
    return list(log.read())


async def run_on(disk: FaultyDisk, workspace: Path, mode: str) -> tuple[int, CodeError | None]:
    """Runs the scenario on ``disk``, heals that, has the same session go on, and gives what was acknowledged and what
    ended the first run."""
    acked = [0]

    def acknowledged(seq: str) -> None:
        acked.append(int(seq))

    caught: CodeError | None = None
    async with await Agent.create_from_config_async({}) as agent:
        with on_disk(disk):
            session = await open_session(agent, workspace, mode, acknowledged)
        try:
            result = await attended(session, session.send_async(PROMPT), acknowledged, disk.heal)
            acknowledged(str(session._engine.view().seq))
            assert result.text == FINAL
        except StoreError as error:
            caught = error
        disk.heal()
        assert session.active_tools() == []
        assert session.cancel() is False
        if caught is not None:
            await go_on(session, workspace, mode)
    return max(acked), caught


async def go_on(session: Session, workspace: Path, mode: str) -> None:
    """The same session resumes what the fault ended, or sends the prompt that was never recorded."""

    def ignore(seq: str) -> None:
        """Nothing more is asked here than that it works."""

    known = bool(session._engine.view().seq)
    work = session.resume_run_async("latest") if known else session.send_async(PROMPT)
    assert (await attended(session, work, ignore)).text == FINAL


@pytest.mark.parametrize("lasting", [False, True])
@pytest.mark.parametrize("kind", ["enospc", "eio", "torn", "fsync"])
async def test_a_fault_at_every_operation(
    kind: FaultKind, lasting: bool, tmp_path: Path, tell: Callable[[str], None]
) -> None:
    """A run that meets a fault ends with IO_ERROR or doesn't notice; the log keeps what was acknowledged, and once the
    disk works the same session ends with the same text and every effect done as often as the mode allows."""
    counted = FaultyDisk(0, kind)
    workspace = tmp_path / "whole"
    workspace.mkdir()
    assert (await run_on(counted, workspace, "report"))[1] is None
    failed = 0
    for at in range(1, counted.operations + 1):
        for mode in ("run", "report", "ask"):
            workspace = tmp_path / "ws"
            workspace.mkdir()
            disk = FaultyDisk(at, kind, lasting=lasting)
            acked, caught = await run_on(disk, workspace, mode)
            where = f"{kind} at {at}, {mode}"
            assert disk.operations >= at, f"{where}: not reached"
            if caught is not None:
                failed += 1
                assert caught.code == "IO_ERROR", where
                assert str(workspace) in str(caught), where
            found = facts(workspace)
            assert len(found) >= acked, where
            assert [f.data for f in found if isinstance(f.data, RunClosed)][-1].status == "completed", where
            most = 2 if mode == "run" else 1
            assert all(count <= most for count in effects(workspace).values()), f"{where}: {effects(workspace)}"
            if mode == "run":
                assert all(effects(workspace)[name] for name in UNSAFE), where
            shutil.rmtree(workspace)
    assert failed > 0
    spell = "lasting" if lasting else "single"
    points = counted.operations
    tell(f"disk proof: {spell} {kind} at {points} operations, {failed} of {3 * points} runs ended by it")
