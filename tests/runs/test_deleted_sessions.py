"""Deleting a session by its name, and pruning where sessions are live: nothing goes that somebody works on."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from pathlib import Path
from typing import Any

import pytest
from otherprocess import running
from runhelp import facts, kinds, log_bytes, make_agent, until
from savedhelp import kept, logs

from a3s_code import Agent, FileSessionStore, MemorySessionStore, SqliteSessionStore
from a3s_code.api import retention
from a3s_code.errors import SessionBusy, SessionClosed, SessionConfigurationError, StoreError
from a3s_code.testing import ScriptedModel, calls, delay
from a3s_code.testing.faults import FaultyDisk, on_disk

ASKS: dict[str, Any] = {
    "permission_policy": {"ask": ["write"], "default_decision": "allow"},
    "confirmation_policy": {"enabled": True},
}

PNG = b"\x89PNG\r\n\x1a\n" + bytes(32)

WRITES = """
async def main():
    agent = await make_agent()
    session = await open_session(agent, ws, "one")
    await session.send_async("go")
    say("written")
    await asyncio.Event().wait()
asyncio.run(main())
"""

DIES = """
@tool
def die() -> str:
    "Dies."
    say("dying")
    os.kill(os.getpid(), signal.SIGKILL)

async def main():
    agent = await make_agent()
    session = await open_session(agent, ws, calls(("die", {})), tools=[die], permission_policy="full")
    await session.spawn_run_with_id_async("run-a", "go")
    await asyncio.Event().wait()
asyncio.run(main())
"""


@pytest.fixture(params=["memory", "file", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    match request.param:
        case "memory":
            return MemorySessionStore()
        case "file":
            return FileSessionStore(tmp_path / "store")
        case _:
            return SqliteSessionStore(tmp_path / "store.db")


async def left_parked(agent: Agent, workspace: Path, store: Any, **options: Any) -> str:
    """A session closed while a call of it waits for an answer; gives the run's id."""
    script = calls(("write", {"file_path": "a", "content": "a"})), "written"
    session = await kept(agent, workspace, store, *script, **ASKS, **options)
    task = asyncio.ensure_future(session.send_async("go"))
    await until(lambda: bool(session.runs()) and session.runs()[0]["status"] == "parked")
    run_id = str(session.runs()[0]["id"])
    await session.close_async()
    await asyncio.gather(task, return_exceptions=True)
    return run_id


async def finished(agent: Agent, workspace: Path, store: Any, **options: Any) -> None:
    session = await kept(agent, workspace, store, "done", **options)
    await session.send_async("go", attachments=[{"data": PNG, "media_type": "image/png"}])
    await session.close_async()


async def test_a_deleted_session_leaves_nothing(agent: Agent, workspace: Path, store: Any) -> None:
    """What the store keeps goes with the log in the session's workspace; then the id is a new session's."""
    await finished(agent, workspace, store)
    assert "s.jsonl" in logs(workspace)
    assert await agent.delete_session_async("s", session_store=store) is True
    assert (await store.load_snapshot("s"), logs(workspace)) == (None, [])
    assert len(list((workspace / ".a3s" / "attachments").glob("*.png"))) == 1
    assert await agent.delete_session_async("s", session_store=store) is False
    session = await kept(agent, workspace, store, "anew")
    assert session.history() == []
    assert (await session.send_async("go")).text == "anew"
    await store.close()


async def test_a_live_session_is_busy(agent: Agent, workspace: Path) -> None:
    """A session that is live in the agent is refused, forced or not, until it is closed; pruning passes it by."""
    store = MemorySessionStore()
    session = await kept(agent, workspace, store, "done")
    await session.send_async("go")
    before = log_bytes(workspace)
    for force in (False, True):
        with pytest.raises(SessionBusy, match="live in this agent: close it first"):
            await agent.delete_session_async("s", session_store=store, workspace=workspace, force=force)
    for dry_run in (False, True):
        (line,) = await agent.prune_sessions_async(session_store=store, max_sessions=0, dry_run=dry_run)
        assert (line["deleted"], line["reason"]) == (False, "live")
    assert log_bytes(workspace) == before
    await session.close_async()
    assert await agent.delete_session_async("s", session_store=store) is True


async def test_a_session_that_waits_for_an_answer_goes_by_force_only(agent: Agent, workspace: Path, store: Any) -> None:
    """An open run is named and stays, in the store, in the log and for pruning, and can still be answered; forced it
    goes with all."""
    run_id = await left_parked(agent, workspace, store)
    for where in ({"session_store": store}, {"workspace": workspace}):
        with pytest.raises(SessionBusy, match=f"run '{run_id}' of session 's' is open; force=True"):
            await agent.delete_session_async("s", **where)
    # The first save comes with the end of a run, so there is a checkpoint only, and no listing has the session.
    assert await agent.prune_sessions_async(session_store=store, max_sessions=0) == []
    session = await kept(agent, workspace, store, "written", **ASKS)
    assert [each["tool_name"] for each in await pending(session)] == ["write"]
    await session.save_async()
    await session.close_async()
    (line,) = await agent.prune_sessions_async(session_store=store, max_age_ms=0, max_sessions=0)
    assert (line["deleted"], line["reason"]) == (False, "open_run")
    assert await store.load_checkpoint(run_id) is not None
    assert await agent.delete_session_async("s", session_store=store, force=True) is True
    assert (await store.load_checkpoint(run_id), logs(workspace)) == (None, [])
    await store.close()


async def pending(session: Any) -> Any:
    return session.pending_confirmations()


async def test_a_log_that_another_process_writes_stays(agent: Agent, workspace: Path) -> None:
    """Where another process has the log, deletion names it and removes nothing, from the store neither."""
    store = MemorySessionStore()
    await finished(agent, workspace, store)
    with running(workspace, WRITES, "written") as process:
        before = log_bytes(workspace)
        for force in (False, True):
            with pytest.raises(SessionBusy, match=f"process {process.pid}"):
                await agent.delete_session_async("s", session_store=store, force=force)
        with pytest.raises(SessionBusy, match=f"process {process.pid}"):
            await agent.delete_session_async("s", workspace=workspace)
        assert log_bytes(workspace) == before
    assert await store.load_snapshot("s") is not None


async def test_a_session_that_another_node_holds_stays(agent: Agent, workspace: Path, store: Any) -> None:
    """A lease that somebody else has is SESSION_BUSY naming the holder, forced or not; log and snapshot stay."""
    await finished(agent, workspace, store)
    lease = await store.acquire_lease("s", "node-b", 60_000)
    for force in (False, True):
        with pytest.raises(SessionBusy, match="node-b"):
            await agent.delete_session_async("s", session_store=store, force=force)
    assert facts(workspace)
    assert await store.load_snapshot("s") is not None
    await store.release(lease)
    assert await agent.delete_session_async("s", session_store=store) is True
    await store.close()


async def test_a_run_at_work_elsewhere_is_never_cut(agent: Agent, workspace: Path, store: Any) -> None:
    """Pruning and deleting from another agent pass by a session whose run is at work, and the run ends as it would."""
    await finished(agent, workspace, store)
    goes_on = asyncio.Event()
    elsewhere = await make_agent()
    session = await kept(elsewhere, workspace, store, [delay(goes_on), "ended"])
    task = asyncio.ensure_future(session.send_async("go on"))
    await until(lambda: session.current_run() is not None)
    await until(lambda: "run.opened" in kinds(workspace)[-2:])
    (line,) = await agent.prune_sessions_async(session_store=store, max_age_ms=0, max_sessions=0, max_bytes=0)
    assert (line["deleted"], line["reason"]) == (False, "held")
    with pytest.raises(SessionBusy, match="held by"):
        await agent.delete_session_async("s", session_store=store, force=True)
    goes_on.set()
    assert (await task).text == "ended"
    assert await store.load_snapshot("s") is not None
    await elsewhere.close_async()
    await store.close()


async def test_a_run_that_died_is_open(agent: Agent, workspace: Path) -> None:
    """Without a store the log says that a run is open: what a dead process left can go on until it is forced away."""
    with running(workspace, DIES, "dying") as process:
        process.wait()
    with pytest.raises(SessionBusy, match="run 'run-a'"):
        await agent.delete_session_async("s", workspace=workspace)
    assert facts(workspace)
    assert await agent.delete_session_async("s", workspace=workspace, force=True) is True
    assert logs(workspace) == []
    assert await agent.delete_session_async("s", workspace=workspace) is False


async def test_pruning_takes_finished_sessions_with_their_logs(
    agent: Agent, workspace: Path, tmp_path: Path, store: Any
) -> None:
    """Finished sessions go with the logs in their workspaces; one whose log went on after it was saved stays, and so
    does a log where no session was saved."""
    places = {name: tmp_path / name for name in ("one", "two", "more")}
    for name, place in places.items():
        place.mkdir()
        await finished(agent, place, store, session_id=name)
    session = await kept(agent, places["more"], store, "unsaved", session_id="more", auto_save=False)
    await session.send_async("go on")
    await session.close_async()
    report = await agent.prune_sessions_async(session_store=store, max_sessions=0)
    assert {str(each["session_id"]): each["reason"] for each in report} == {"one": None, "two": None, "more": "unsaved"}
    files = {
        name: [path.suffix for path in (place / ".a3s" / "effect-log").glob("*.jsonl")]
        for name, place in places.items()
    }
    assert files == {"one": [], "two": [], "more": [".jsonl"]}
    again = await kept(agent, places["more"], store, "last", session_id="more")
    assert [each["content"] for each in again.history() if each["role"] == "assistant"] == ["done", "unsaved"]
    await store.close()


async def test_a_workspace_of_another_machine_is_left_out(agent: Agent, workspace: Path, tmp_path: Path) -> None:
    """Where the session's workspace is no directory the store's part goes; a given workspace wins over it."""
    store = MemorySessionStore()
    await finished(agent, workspace, store)
    moved = workspace.rename(tmp_path / "moved")
    await agent.delete_session_async("s", session_store=store)
    assert await store.load_snapshot("s") is None
    assert facts(moved)
    assert await agent.delete_session_async("s", session_store=store, workspace=moved) is True
    assert logs(moved) == []


async def test_a_deletion_that_a_disk_cuts_short_is_done_by_the_next(
    agent: Agent, workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever operation of the disk fails, the log is whole or gone, a session that lost it is still listed, and the
    next pass takes what is left."""
    monkeypatch.setattr(retention, "_LEASE_MS", 1)
    store = FileSessionStore(tmp_path / "store")
    await finished(agent, workspace, store)
    whole = facts(workspace)
    before = shutil.copytree(tmp_path, f"{tmp_path}-before")
    cut = set()
    for at in range(1, 200):
        disk = FaultyDisk(at, "eio")
        done = False
        with on_disk(disk), contextlib.suppress(StoreError):  # the listing failed
            done = bool((await agent.prune_sessions_async(session_store=store, max_sessions=0))[0]["deleted"])
        left = facts(workspace)
        assert left in ([], whole)
        if disk.operations < at:
            break
        if not done:
            listed = await store.list_sessions()
            assert listed or not left
            cut.add((bool(left), bool(listed)))
        async with asyncio.timeout(20):
            while await store.list_sessions():  # a lease whose file was written but not synced is waited out
                await agent.prune_sessions_async(session_store=store, max_sessions=0)
        assert logs(workspace) == []
        shutil.rmtree(tmp_path)
        shutil.copytree(before, tmp_path)
    assert done
    assert cut == {(True, True), (False, True), (False, False)}  # the last: gone, but not synced
    await store.close()


async def test_the_agent_s_own_store_is_used(tmp_path: Path, workspace: Path) -> None:
    """Blocking and without a store given, the configured one is pruned; without any, deletion needs a workspace."""

    def use() -> None:
        with Agent.create_from_config({"sessions_dir": str(tmp_path / "kept")}) as agent:
            for name in ("a", "b"):
                with agent.session(workspace, session_id=name, llm_client=ScriptedModel(["ok"])) as session:
                    session.send("go")
                    session.save()
            assert [each["session_id"] for each in agent.prune_sessions(max_sessions=1, dry_run=True)] == ["a"]
            assert [each["deleted"] for each in agent.prune_sessions(max_sessions=1)] == [True]
            assert agent.delete_session("b") is True
            assert agent.delete_session("b") is False
        with pytest.raises(SessionClosed):
            agent.delete_session("b")

    await asyncio.to_thread(use)
    bare = await make_agent()
    with pytest.raises(SessionConfigurationError, match="session_store or a workspace"):
        await bare.delete_session_async("s")
    with pytest.raises(SessionConfigurationError, match="not a directory"):
        await bare.delete_session_async("s", workspace=tmp_path / "nowhere")
    await bare.close_async()
