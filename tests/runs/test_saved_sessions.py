"""Sessions in a store (durability.md, *Snapshot*): saved whole, restored anywhere, continued where the log says so."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from runhelp import data, facts, log_bytes, make_agent, open_session, well_formed
from savedhelp import REMOTE, Failing, kept, logs, vanished

from a3s_code import Agent, FileSessionStore, HostEnvConfig, MemorySessionStore, SqliteSessionStore
from a3s_code.core.documents import SessionSnapshot
from a3s_code.engine import persistence
from a3s_code.errors import CodeError, SessionBusy, SessionConfigurationError, StoreError
from a3s_code.testing import ScriptedModel, call, calls, delay

LABELS = {"tenant_id": "t", "principal": "p", "agent_template_id": "a", "correlation_id": "c"}


@pytest.fixture(params=["memory", "file", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    match request.param:
        case "memory":
            return MemorySessionStore()
        case "file":
            return FileSessionStore(tmp_path / "store")
        case _:
            return SqliteSessionStore(tmp_path / "store.db")


async def test_a_settled_run_is_saved_whole(agent: Agent, workspace: Path, store: Any) -> None:
    """With ``auto_save`` the snapshot of a settled run holds the conversation, the run's record and all its events."""
    session = await kept(agent, workspace, store, [call("ls", {})], "done", **LABELS)
    result = await session.send_async("go")
    saved = await store.load_snapshot("s")
    assert saved.messages == session.history()
    assert (saved.labels, saved.workspace) == (LABELS, str(workspace))
    assert saved.fact_log == {"thread": "s", "seq": len(facts(workspace)), "sum": saved.mark.sum}
    assert saved.runs[0]["events"] == session.run_events(result.run_id)
    assert saved.runs[0]["events"][-1]["type"] == "agent_end"
    assert saved.runs[0]["event_count"] == len(saved.runs[0]["events"])
    assert saved.runs[0]["status"] == "completed"
    assert [trace["name"] for trace in saved.traces] == [trace["name"] for trace in session.trace_events()]
    await store.close()


async def test_a_session_is_restored_in_place(agent: Agent, workspace: Path, store: Any) -> None:
    """``resume_session`` goes on from the log that holds the snapshot, with labels, records, events and traces."""
    first = await kept(agent, workspace, store, "one", **LABELS)
    run = await first.send_async("go")
    events, traces, before = first.run_events(run.run_id), first.trace_events(), log_bytes(workspace)
    await first.close_async()
    again = await agent.resume_session_async("s", session_store=store, llm_client=ScriptedModel(["two"]))
    assert (again.workspace, again.tenant_id, again.correlation_id) == (str(workspace), "t", "c")
    assert again.run_events(run.run_id) == events
    assert again.trace_events() == traces
    assert again.run_snapshot(run.run_id) == first.run_snapshot(run.run_id)
    assert log_bytes(workspace) == before
    assert (await again.send_async("more")).text == "two"
    assert [turn.text for turn in data(workspace, "model.turn")] == ["one", "two"]
    assert logs(workspace) == ["s.jsonl", "s.lock"]
    await again.close_async()
    await store.close()


async def test_another_node_begins_with_the_messages(
    agent: Agent, workspace: Path, elsewhere: Path, store: Any
) -> None:
    """Without the log old turns become facts: the model sees them once more as history, and none is asked for anew."""
    first = await kept(agent, workspace, store, calls(("ls", {}), ("ls", {"path": "."})), "one")
    await first.send_async("go")
    history = first.history()
    await first.close_async()
    model = ScriptedModel(["two"])
    there = await kept(agent, elsewhere, store, llm_client=model)
    assert there.history() == history
    assert [run["text"] for run in there.runs()] == ["one"]
    assert {fact.run for fact in facts(elsewhere)} == {""}
    await there.send_async("more")
    assert len(model.requests) == 1
    assert well_formed(list(model.requests[0].messages))
    assert len(model.requests[0].messages) == len(history) + 1
    await there.close_async()
    await store.close()


async def test_a_log_that_was_left_behind_is_kept_beside(agent: Agent, workspace: Path, elsewhere: Path) -> None:
    """A machine that comes back finds the conversation where another one took it; its own file is kept in whole."""
    store = MemorySessionStore()
    first = await kept(agent, workspace, store, "one")
    await first.send_async("go")
    await first.close_async()
    old = log_bytes(workspace)
    there = await kept(agent, elsewhere, store, "two")
    await there.send_async("more")
    history = there.history()
    await there.close_async()
    back = await kept(agent, workspace, store, "three")
    assert back.history() == history
    assert (workspace / ".a3s" / "effect-log" / "s.replaced-1").read_bytes() == old
    assert (await back.send_async("again")).text == "three"
    await back.close_async()
    assert logs(workspace) == ["s.jsonl", "s.replaced-1"]


async def test_a_log_begun_from_a_snapshot_goes_on(agent: Agent, workspace: Path, elsewhere: Path) -> None:
    """What is said after a log was begun from a snapshot is not lost when the session is opened again unsaved."""
    store = MemorySessionStore()
    first = await kept(agent, workspace, store, "one")
    await first.send_async("go")
    await first.close_async()
    for text in ("two", "three"):
        there = await kept(agent, elsewhere, store, text, auto_save=False)
        await there.send_async("more")
        await there.close_async()
    assert [turn.text for turn in data(elsewhere, "model.turn")] == ["one", "two", "three"]
    assert logs(elsewhere) == ["s.jsonl"]


async def test_a_log_that_another_session_writes_is_not_replaced(
    agent: Agent, workspace: Path, elsewhere: Path
) -> None:
    """A session that still writes its log keeps it: who would have to replace it is told that it is busy."""
    store = MemorySessionStore()
    first = await kept(agent, workspace, store, "one", "never")
    await first.send_async("go")
    await vanished(first)
    there = await kept(agent, elsewhere, store, "two")
    await there.send_async("more")
    before = log_bytes(workspace)
    with pytest.raises(SessionBusy):
        await kept(agent, workspace, store)
    assert (log_bytes(workspace), logs(workspace)) == (before, ["s.jsonl", "s.lock"])
    assert len(agent.list_sessions()) == 1


async def test_given_options_win(agent: Agent, workspace: Path) -> None:
    """What the caller leaves unset comes from the snapshot, and so the run's standing context is the same."""
    store = MemorySessionStore()
    options: dict[str, Any] = {"role": "a poet", "step_limit": 5, "tool_budget": None, "permission_policy": "read_only"}
    first = await kept(agent, workspace, store, "one", **options, **LABELS)
    await first.send_async("go")
    await first.close_async()
    given = {"session_store": store, "llm_client": ScriptedModel(["two"]), "step_limit": 6, "principal": "other"}
    again = await agent.resume_session_async("s", given)
    assert (again.tenant_id, again.principal) == ("t", "other")
    rules = again._engine.parts.rules
    assert (rules.step_limit, rules.tool_budget) == (6, None)
    await again.send_async("go")
    opened = data(workspace, "run.opened")
    assert opened[0].context == opened[1].context


async def test_where_commands_run_is_never_restored(agent: Agent, workspace: Path) -> None:
    """A stored session can't take the sandbox from the machine it is resumed on."""
    store = MemorySessionStore()
    first = await kept(agent, workspace, store, "one", sandbox="host")
    await first.send_async("go")
    await first.close_async()
    again = await agent.resume_session_async("s", session_store=store, llm_client=ScriptedModel([]))
    assert again.sandbox["kind"] != "process_host"


async def test_an_unknown_session_is_an_error(agent: Agent, workspace: Path) -> None:
    """``resume_session`` never begins a session; without a store it says so."""
    with pytest.raises(CodeError, match="no saved session 'x'") as caught:
        await agent.resume_session_async("x", session_store=MemorySessionStore())
    assert caught.value.code == "SESSION_ERROR"
    with pytest.raises(SessionConfigurationError, match="session_store"):
        await agent.resume_session_async("x")


async def test_saving_needs_a_store(agent: Agent, workspace: Path) -> None:
    """Without a store ``save`` and ``auto_save`` are refused, and nothing is written."""
    session = await open_session(agent, workspace)
    with pytest.raises(SessionConfigurationError, match="save requires a session_store on this session"):
        await session.save_async()
    with pytest.raises(SessionConfigurationError, match="auto_save"):
        await open_session(agent, workspace, auto_save=True)
    assert logs(workspace) == []


async def test_an_object_that_is_no_store_is_refused(agent: Agent, workspace: Path) -> None:
    """The option names the method that is missing."""
    with pytest.raises(SessionConfigurationError, match=r"session_store.*has no save_snapshot\(\)"):
        await open_session(agent, workspace, session_store=object())


async def test_a_session_that_said_nothing_can_be_saved(agent: Agent, workspace: Path) -> None:
    """Saving an empty session makes no log, and it can be resumed."""
    store = MemorySessionStore()
    session = await kept(agent, workspace, store)
    await session.save_async()
    await session.close_async()
    again = await agent.resume_session_async("s", session_store=store, llm_client=ScriptedModel(["one"]))
    assert (again.history(), logs(workspace)) == ([], [])
    assert (await again.send_async("go")).text == "one"


async def test_a_failing_store_is_told_and_ends_nothing(agent: Agent, workspace: Path) -> None:
    """``persistence_failed`` comes before the run's last event; the answer is the caller's all the same."""
    session = await kept(agent, workspace, Failing("save_snapshot"), "one")
    events = [event async for event in await session.stream_async("go")]
    assert [event.type for event in events][-2:] == ["persistence_failed", "agent_end"]
    assert events[-2].payload == {"what": "snapshot", "error": f"StoreError: {REMOTE}"}
    assert [event.sequence for event in events] == list(range(1, len(events) + 1))
    assert session.runs()[0]["status"] == "completed"
    with pytest.raises(StoreError, match=REMOTE):
        await session.save_async()


class Silent(MemorySessionStore):
    """A store that never answers a save."""

    async def save_snapshot(self, snapshot: SessionSnapshot, epoch: int | None = None) -> str:
        await asyncio.Event().wait()
        return ""


async def test_a_store_that_hangs_is_given_up(agent: Agent, workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A settled run is its caller's after a while, and the caller is told what was not kept."""
    monkeypatch.setattr(persistence, "PATIENCE_S", 0.01)
    session = await kept(agent, workspace, Silent(), "one")
    events = [event async for event in await session.stream_async("go")]
    told = {"what": "snapshot", "error": "TimeoutError: no answer within 0.01 s"}
    assert (events[-2].payload, events[-1].text) == (told, "one")


async def test_a_run_that_ends_by_a_fault_is_saved_too(agent: Agent, workspace: Path) -> None:
    """The snapshot of a failed run says so, and its events end with the error."""
    store = MemorySessionStore()
    session = await kept(agent, workspace, store)
    with pytest.raises(CodeError):
        await session.send_async("go")
    saved = await store.load_snapshot("s")
    assert saved is not None
    assert saved.runs[0]["status"] == "failed"
    assert saved.runs[0]["events"] == session.run_events(str(session.runs()[0]["id"]))
    assert await store.list_checkpoints() == []


async def test_a_store_that_cannot_be_read_opens_no_session(agent: Agent, workspace: Path) -> None:
    """What is kept is never begun anew over because it could not be read."""
    with pytest.raises(StoreError, match=REMOTE):
        await kept(agent, workspace, Failing("load_snapshot"))
    assert agent.list_sessions() == []


async def test_replacing_a_session_keeps_what_is_not_given(agent: Agent, workspace: Path) -> None:
    """The new session has the old one's conversation, records and options; the old one is closed."""
    store = MemorySessionStore()
    old = await kept(agent, workspace, store, "one", "two", tenant_id="t")
    run = await old.send_async("go")
    new = await agent.replace_session_async(old, role="a poet")
    assert (old.is_closed(), new.is_closed(), new.session_id, new.tenant_id) == (True, False, "s", "t")
    assert new.history() == old.history()
    assert new.run_events(run.run_id) == old.run_events(run.run_id)
    assert (await new.send_async("more")).text == "two"
    assert agent.list_sessions() == ["s"]


async def test_a_session_that_cannot_be_replaced_stays(agent: Agent, workspace: Path) -> None:
    """Wrong options, a failing store or work in hand leave the old session live."""
    store = Failing()
    old = await kept(agent, workspace, store, "one", [delay(asyncio.Event()), "never"])
    await old.send_async("go")
    for options, error in (({"step_limit": 0}, SessionConfigurationError), ({"session_id": "x"}, CodeError)):
        with pytest.raises(error):
            await agent.replace_session_async(old, options)
    store.methods = ["save_snapshot"]
    with pytest.raises(StoreError):
        await agent.replace_session_async(old)
    stream = await old.stream_async("more")
    with pytest.raises(SessionBusy):
        await agent.replace_session_async(old)
    assert not old.is_closed()
    await stream.close_async()


async def test_the_configuration_gives_a_store(workspace: Path, tmp_path: Path) -> None:
    """``sessions_dir`` gives every session a file store, ``custom`` asks for the host's own."""
    from a3s_code import Agent as Made

    directory = tmp_path / "sessions"
    async with await Made.create_from_config_async({"sessions_dir": str(directory)}) as agent:
        session = await open_session(agent, workspace, "one", auto_save=True)
        await session.send_async("go")
        await session.close_async()
        assert (await agent.resume_session_async("s", llm_client=ScriptedModel([]))).history() == session.history()
    assert (await FileSessionStore(directory).load_snapshot("s")) is not None
    async with await Made.create_from_config_async({"storage_backend": "custom"}) as agent:
        with pytest.raises(SessionConfigurationError, match="session_store"):
            await open_session(agent, workspace)
        await open_session(agent, workspace, session_store=MemorySessionStore())


async def test_same_inputs_give_the_same_snapshot(agent: Agent, tmp_path: Path) -> None:
    """Under a fixed host environment two sessions in two places store the same generation."""
    found = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        store = MemorySessionStore()
        env = HostEnvConfig("id", 1_000)
        session = await kept(agent, tmp_path / name, store, [call("ls", {})], "done", host_env=env)
        await session.send_async("go")
        await session.close_async()
        snapshot = await store.load_snapshot("s")
        assert snapshot is not None
        found.append({key: value for key, value in _members(snapshot).items() if key not in ("workspace", "digest")})
    assert found[0] == found[1]


def _members(snapshot: Any) -> dict[str, Any]:
    return {name: getattr(snapshot, name) for name in snapshot.__struct_fields__}


async def test_artifacts_are_restored(workspace: Path) -> None:
    """A URI in an earlier result still leads to the whole output on another day."""
    (workspace / "big.txt").write_text("\n".join(f"line {n} " + "x" * 200 for n in range(3_000)))
    store = MemorySessionStore()
    one = await make_agent()
    script = [call("bash", {"command": "cat big.txt"})]
    session = await kept(one, workspace, store, script, "ok", sandbox="host", permission_policy="full")
    await session.send_async("go")
    await one.close_async()
    saved = await store.load_snapshot("s")
    assert saved is not None
    two = await make_agent()
    again = await two.resume_session_async("s", session_store=store, llm_client=ScriptedModel([]))
    uris = [str(artifact["uri"]) for artifact in saved.artifacts]
    assert uris
    for uri in uris:
        assert again._engine.kernel.results.artifacts.get(uri) is not None
    await two.close_async()


async def test_the_last_result_is_known_on_another_node(agent: Agent, workspace: Path, elsewhere: Path) -> None:
    """A run that had ended before its node died is resumed to its end: nothing is asked of the model again."""
    store = MemorySessionStore()
    first = await kept(agent, workspace, store, "one")
    result = await first.send_async("go")
    await first.close_async()
    model = ScriptedModel([])
    there = await kept(agent, elsewhere, store, llm_client=model)
    again = await there.resume_run_async(str(result.run_id))
    assert (again.text, again.run_id, again.stop_reason) == ("one", result.run_id, "done")
    assert (again.total_tokens, again.steps, model.requests) == (result.total_tokens, result.steps, [])
