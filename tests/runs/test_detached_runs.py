"""Detached runs (api.md): known by an id of the host's, started once."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from runhelp import data, make_agent, open_session, until

from a3s_code import Agent
from a3s_code.errors import CodeError, RunIdentityConflict, SessionBusy, SessionClosed
from a3s_code.testing import ScriptedModel, delay


async def test_a_run_is_started_once(agent: Agent, workspace: Path) -> None:
    """The same id and prompt start nothing a second time, also while the first is at work; another prompt conflicts."""
    gate = asyncio.Event()
    model = ScriptedModel([[delay(gate), "answer"]])
    session = await open_session(agent, workspace, llm_client=model)
    first = await session.spawn_run_with_id_async("job", "do it")
    assert first["replayed"] is False
    assert first["snapshot"]["status"] == "running"  # type: ignore[index,call-overload]  # a mapping
    assert first["snapshot"]["cause"] == "spawned"  # type: ignore[index,call-overload]  # a mapping
    second = await session.spawn_run_with_id_async("job", "do it")
    assert second["replayed"] is True
    with pytest.raises(RunIdentityConflict) as caught:
        await session.spawn_run_with_id_async("job", "do something else")
    assert caught.value.code == "RUN_IDENTITY_CONFLICT"
    with pytest.raises(SessionBusy):
        await session.spawn_run_with_id_async("job 2", "do it")
    gate.set()
    await until(lambda: session.runs()[0]["status"] == "completed")
    again = await session.spawn_run_with_id_async("job", "do it")
    assert again["snapshot"]["text"] == "answer"  # type: ignore[index,call-overload]  # a mapping
    assert len(model.requests) == 1


async def test_it_is_known_after_a_restart(workspace: Path) -> None:
    """Another process knows the run from the log, with its outcome."""
    one = await make_agent()
    session = await open_session(one, workspace, "answer")
    await session.spawn_run_with_id_async("job", "do it")
    await until(lambda: session.runs()[0]["status"] == "completed")
    await one.close_async()
    two = await make_agent()
    model = ScriptedModel(["never"])
    again = await open_session(two, workspace, llm_client=model)
    replayed = await again.spawn_run_with_id_async("job", "do it")
    assert replayed["replayed"] is True
    assert replayed["snapshot"]["text"] == "answer"  # type: ignore[index,call-overload]  # a mapping
    with pytest.raises(RunIdentityConflict):
        await again.spawn_run_with_id_async("job", "another")
    assert model.requests == []
    await two.close_async()


async def test_it_is_known_when_its_record_is_no_longer_kept(agent: Agent, workspace: Path) -> None:
    """Retention drops a record, never the knowledge that its id was used."""
    model = ScriptedModel(["x"], repeat_last=True)
    session = await open_session(agent, workspace, llm_client=model, retention_limits={"max_runs_retained": 2})
    await session.spawn_run_with_id_async("job", "do it")
    await until(lambda: session.runs()[0]["status"] == "completed")
    for n in range(4):
        await session.send_async(f"{n}")
    replayed = await session.spawn_run_with_id_async("job", "do it")
    assert replayed["replayed"] is True
    with pytest.raises(RunIdentityConflict):
        await session.spawn_run_with_id_async("job", "another")
    assert [opened.run for opened in data(workspace, "run.opened")].count("job") == 1


async def test_closing_cancels_it(agent: Agent, workspace: Path) -> None:
    """``close`` cancels a detached run; its record says so in the log."""
    session = await open_session(agent, workspace, [delay(asyncio.Event())])
    await session.spawn_run_with_id_async("job", "do it")
    await session.close_async()
    assert [closed.status for closed in data(workspace, "run.closed")] == ["cancelled"]
    with pytest.raises(SessionClosed):
        await session.spawn_run_with_id_async("job", "do it")


async def test_a_failed_one_is_a_record(agent: Agent, workspace: Path) -> None:
    """Nobody waits for a detached run: its failure is in its record."""
    session = await open_session(agent, workspace)
    await session.spawn_run_with_id_async("job", "do it")
    await until(lambda: session.runs()[0]["status"] == "failed")
    assert session.runs()[0]["error"]["code"] == "LLM_ERROR"  # type: ignore[index,call-overload]  # a mapping


@pytest.mark.parametrize("run_id", ["", "  ", None, 5])
async def test_a_bad_id_is_refused(agent: Agent, workspace: Path, run_id: object) -> None:
    """A run id is text that is not blank."""
    session = await open_session(agent, workspace, "x")
    with pytest.raises(CodeError) as caught:
        await session.spawn_run_with_id_async(run_id, "x")  # type: ignore[arg-type]  # the point
    assert caught.value.code == "INVALID_REQUEST"


async def test_a_bad_prompt_is_refused(agent: Agent, workspace: Path) -> None:
    """A blank prompt, or none, is refused before anything is written."""
    session = await open_session(agent, workspace, "x")
    for prompt in ("", " ", None, 5):
        with pytest.raises(CodeError) as caught:
            await session.spawn_run_with_id_async("job", prompt)  # type: ignore[arg-type]  # the point
        assert caught.value.code == "INVALID_REQUEST"
    assert not (workspace / ".a3s").exists()
