"""A disk that fails under a run, and a log that is damaged (facts.md, *Writing*, *Opening*; cases C01, C02)."""

from __future__ import annotations

from pathlib import Path

import pytest
from runhelp import collected, facts, log_bytes, one_result_each, open_session

from a3s_code import Agent
from a3s_code.errors import CodeError, StoreError
from a3s_code.ports.model import ModelRequest
from a3s_code.stores.factlog import log_path
from a3s_code.testing import Turn, calls
from a3s_code.testing.faults import FaultyDisk, on_disk


def filling(disk: FaultyDisk, answer: Turn) -> Turn:
    """The answer, after which the disk takes the turn and nothing more."""

    def give(request: ModelRequest) -> Turn:
        disk._fail_at = disk.operations + 2
        return answer

    return give


async def test_a_full_disk_ends_the_run_and_not_the_session(agent: Agent, workspace: Path) -> None:
    """ENOSPC in the middle is IO_ERROR with what there was; once there is space the same session goes on."""
    disk = FaultyDisk(0, "enospc", lasting=True)
    with on_disk(disk):
        session = await open_session(agent, workspace, filling(disk, calls(("ls", {}))), "next")
    events = await collected(await session.stream_async("go"))
    assert events[-1].type == "error"
    assert events[-1].payload["code"] == "IO_ERROR"
    assert session.runs()[0]["status"] == "failed"
    with pytest.raises(StoreError) as caught:
        await session.send_async("again")
    assert caught.value.code == "IO_ERROR"
    disk.heal()
    assert (await session.send_async("again")).text == "next"
    assert one_result_each(workspace)
    assert session.runs()[-1]["status"] == "completed"


async def test_the_error_holds_what_there_was(agent: Agent, workspace: Path) -> None:
    """The error of a run whose log failed has the partial result."""
    disk = FaultyDisk(0, "enospc", lasting=True)
    with on_disk(disk):
        session = await open_session(agent, workspace, filling(disk, ["so far", *calls(("ls", {}))]), "unheard")
    with pytest.raises(StoreError) as caught:
        await session.send_async("go")
    assert caught.value.result.text == "so far"


async def test_a_first_write_that_fails_leaves_nothing(agent: Agent, workspace: Path) -> None:
    """A prompt that could not be recorded has no run, and the gate is free."""
    disk = FaultyDisk(1, "enospc", lasting=True)
    with on_disk(disk):
        session = await open_session(agent, workspace, "fine")
    with pytest.raises(StoreError):
        await session.send_async("go")
    assert session.runs() == []
    assert session.history() == []
    disk.heal()
    assert (await session.send_async("go")).text == "fine"


async def test_a_torn_tail_is_put_aside(agent: Agent, workspace: Path) -> None:
    """A last line cut in the middle is moved beside the log before the next fact; the conversation goes on."""
    session = await open_session(agent, workspace, "a", "b")
    await session.send_async("go")
    await session.close_async()
    path = Path(log_path(str(workspace), "s"))
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"seq":5,"id":"x","ts":1,"ki')
    again = await open_session(agent, workspace, "b")
    assert len(again.history()) == 2
    assert (await again.send_async("on")).text == "b"
    assert log_bytes(workspace).startswith(whole)
    assert len(facts(workspace)) == 8
    assert [each.read_bytes() for each in path.parent.glob("s.torn-*")] == [b'{"seq":5,"id":"x","ts":1,"ki']


async def test_damage_in_the_middle_is_named_and_kept(agent: Agent, workspace: Path) -> None:
    """A line that was changed is IO_ERROR with file and line from whatever looks first; the file stays as it is."""
    session = await open_session(agent, workspace, "a")
    await session.send_async("go")
    await session.close_async()
    path = Path(log_path(str(workspace), "s"))
    damaged = path.read_bytes().replace(b'"text":"go"', b'"text":"no"')
    path.write_bytes(damaged)
    again = await open_session(agent, workspace, "b")
    for look in (again.history, again.runs, again.pending_confirmations):
        with pytest.raises(StoreError, match=r"s\.jsonl, line 3"):
            look()
    for operation in (again.send_async("x"), again.resume_run_async("r"), again.stream_async("x")):
        with pytest.raises(CodeError) as caught:
            await operation
        assert caught.value.code == "IO_ERROR"
    assert path.read_bytes() == damaged
