"""Loop checkpoints (durability.md): what another node needs to go on with a run, at the price of what is new."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from otherprocess import running
from runhelp import data, facts, kinds, log_bytes, make_agent, one_result_each, open_session, until
from savedhelp import REMOTE, Failing, kept, logs, paying, vanished

from a3s_code import Agent, FileSessionStore, MemorySessionStore
from a3s_code.core.documents import CheckpointHeader
from a3s_code.errors import CodeError, RunIdentityConflict, SessionClosed
from a3s_code.testing import ScriptedModel, Turn, call, calls, delay

KILLED = """
@tool
def pay(amount: int) -> str:
    "Pays."
    with open(ws / "effects", "a") as file:
        file.write(str(amount))
    if amount == 2:
        say("effect")
        os.kill(os.getpid(), signal.SIGKILL)
    return "paid"

async def main():
    agent = await make_agent()
    store = FileSessionStore(ws / ".." / "store")
    script = calls(("pay", {"amount": 1}), ("pay", {"amount": 2}))
    session = await open_session(
        agent, ws, script, tools=[pay], session_store=store, permission_policy="full", role="a clerk", tenant_id="t"
    )
    await session.spawn_run_with_id_async("run-a", "pay twice")
    await asyncio.Event().wait()
asyncio.run(main())
"""


def dead_node(workspace: Path) -> FileSessionStore:
    """A node that died in its second payment; gives the store it shared."""
    with running(workspace, KILLED, "effect") as process:
        process.wait()
    assert (workspace / "effects").read_text() == "12"
    return FileSessionStore(workspace.parent / "store")


async def test_another_node_goes_on(agent: Agent, workspace: Path, elsewhere: Path) -> None:
    """From the store alone: what had a result isn't run again, options and labels are those of the run, and the result
    counts what was spent before."""
    store = dead_node(workspace)
    paid: list[int] = []
    model = ScriptedModel(["done"])
    session = await kept(agent, elsewhere, store, llm_client=model, tools=[paying(paid)])
    assert session.tenant_id == "t"
    assert [message["role"] for message in session.history()] == ["user", "assistant", "tool"]
    result = await session.resume_run_async("run-a")
    assert (result.text, result.tool_calls_count, paid) == ("done", 2, [2])
    assert len(model.requests) == 1
    here, there = facts(elsewhere), facts(workspace)
    same = [fact for fact, other in zip(here, there, strict=False) if fact == other]
    assert [fact.kind for fact in same][-1] == "tool.result"
    assert data(elsewhere, "run.opened")[1].context == data(workspace, "run.opened")[0].context
    assert data(elsewhere, "run.opened")[1].resumes == "run-a"
    assert await store.list_checkpoints() == []
    assert (await session.resume_run_async("run-a")).text == "done"
    await store.close()


async def test_a_newer_log_is_not_replaced(agent: Agent, workspace: Path) -> None:
    """A log that holds the whole checkpoint is folded as it is, with the facts that came later."""
    store = dead_node(workspace)
    before = log_bytes(workspace)
    paid: list[int] = []
    session = await kept(agent, workspace, store, "done", tools=[paying(paid)])
    assert (await session.resume_run_async("run-a")).text == "done"
    assert paid == [2]
    assert log_bytes(workspace).startswith(before)
    assert logs(workspace) == ["s.jsonl", "s.lock"]
    assert [started.attempt for started in data(workspace, "tool.started")] == [1, 1, 2]
    await store.close()


async def test_a_log_left_behind_is_rebuilt(agent: Agent, workspace: Path, elsewhere: Path) -> None:
    """A log that went another way is kept beside the one that is made from the checkpoint."""
    store = dead_node(workspace)
    stray = await open_session(agent, elsewhere, "hello")
    await stray.send_async("something else")
    await stray.close_async()
    old = log_bytes(elsewhere)
    session = await kept(agent, elsewhere, store, "done", tools=[paying([])])
    assert (await session.resume_run_async("run-a")).text == "done"
    assert (elsewhere / ".a3s" / "effect-log" / "s.replaced-1").read_bytes() == old
    assert session.history()[0]["content"] == "pay twice"
    await store.close()


async def test_a_third_node_goes_on_by_the_first_id(agent: Agent, workspace: Path, tmp_path: Path) -> None:
    """A resumed run that is left behind too is found by the id that the host knows, with all that was done."""
    store = dead_node(workspace)
    (tmp_path / "b").mkdir()
    (tmp_path / "c").mkdir()
    paid: list[int] = []
    b = await make_agent()
    second = await kept(b, tmp_path / "b", store, [delay(asyncio.Event()), "never"], tools=[paying(paid)])
    stream = await second.resume_stream_async("run-a")
    await until(lambda: data(tmp_path / "b", "tool.result")[-1:] != [] and len(paid) == 1)
    found: list[CheckpointHeader] = []
    while len({header.seq for header in found}) != 1 or len(found) != 2:
        found = await store.list_checkpoints("s")
    assert {header.run_id for header in found} == {"run-a", second.runs()[-1]["id"]}
    await vanished(second)
    third = await kept(agent, tmp_path / "c", store, "done", tools=[paying(paid)])
    assert (await third.resume_run_async("run-a")).text == "done"
    assert paid == [2]
    await b.close_async()
    del stream
    await store.close()


async def test_what_a_resume_needs(agent: Agent, workspace: Path, elsewhere: Path) -> None:
    """Every way in which there is nothing to resume has its own code and message."""
    plain = await open_session(agent, workspace)
    with pytest.raises(CodeError, match=r"^resume_run requires a session_store on this session$") as needs:
        await plain.resume_run_async("x")
    assert needs.value.code == "SESSION_CONFIGURATION_ERROR"
    store = MemorySessionStore()
    empty = await kept(agent, elsewhere, store)
    with pytest.raises(CodeError, match=r"^no loop checkpoint found for run 'x'$") as missing:
        await empty.resume_run_async("x")
    assert missing.value.code == "SESSION_ERROR"
    script: list[Turn] = [[call("ls", {})], [delay(asyncio.Event()), "never"]]
    other = await kept(agent, elsewhere, store, *script, session_id="other")
    stream = await other.stream_async("go")
    await until(lambda: bool(other.runs()))
    run_id = str(other.runs()[0]["id"])
    while await store.load_checkpoint(run_id) is None:
        await asyncio.sleep(0)
    with pytest.raises(CodeError, match=f"^refusing to resume checkpoint '{run_id}'$") as foreign:
        await empty.resume_run_async(run_id)
    assert foreign.value.code == "SESSION_MISMATCH"
    await stream.close_async()
    assert logs(elsewhere) == []


class Counting(MemorySessionStore):
    """Says what each checkpoint brought."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[int] = []

    async def append_checkpoint(
        self, run_id: str, header: CheckpointHeader, facts: Sequence[bytes], epoch: int | None = None
    ) -> int:
        reached = await super().append_checkpoint(run_id, header, facts, epoch)
        if reached == header.seq:
            self.sent.append(len(facts))
        return reached


async def test_a_checkpoint_costs_what_is_new(agent: Agent, workspace: Path) -> None:
    """Each tool result sends the facts since the one before it, also in the session's later runs."""
    store = Counting()
    script: list[Turn] = [[call("ls", {})], [call("ls", {"path": "."})], "done"]
    session = await kept(agent, workspace, store, *script, *script, auto_save=False)
    await session.send_async("go")
    assert store.sent == [5, 3]
    await session.send_async("again")
    assert store.sent[2:] == [7, 3]
    assert await store.list_checkpoints() == []


async def test_a_new_process_sends_only_what_the_store_lacks(workspace: Path) -> None:
    """A session that is opened again asks the store how far it is."""
    store = Counting()
    for _ in range(2):
        agent = await make_agent()
        session = await kept(agent, workspace, store, [call("ls", {})], "done")
        await session.send_async("go")
        await agent.close_async()
    assert store.sent[0] == 5
    assert store.sent[1] == 7


async def test_parallel_results_are_kept_as_they_come(agent: Agent, workspace: Path) -> None:
    """While one call of a group still runs, those that have ended are in the store."""
    store = MemorySessionStore()
    session = await kept(agent, workspace, store, calls(("ls", {}), ("ls", {"path": "."})), "done")
    await session.send_async("go")
    assert one_result_each(workspace)
    assert await store.list_checkpoints() == []


async def test_a_failing_checkpoint_ends_nothing(agent: Agent, workspace: Path) -> None:
    """The run goes on, its caller is told, and the next checkpoint brings what the failed one lacks."""
    session = await kept(agent, workspace, Failing("append_checkpoint", "delete_checkpoint"), [call("ls", {})], "done")
    events = [event async for event in await session.stream_async("go")]
    told = [event.payload for event in events if event.type == "persistence_failed"]
    assert told[0] == {"what": "checkpoint", "error": f"StoreError: {REMOTE}"}
    assert events[-1].type == "agent_end"
    assert kinds(workspace)[-1] == "run.closed"


async def test_a_parked_run_can_go_on_elsewhere(agent: Agent, workspace: Path, elsewhere: Path) -> None:
    """A session that is closed while it waits for an answer leaves a checkpoint, and another node can answer."""
    store = MemorySessionStore()
    options: dict[str, Any] = {
        "permission_policy": {"ask": ["pay"]},
        "confirmation_policy": {"enabled": True},
    }
    paid: list[int] = []
    ask = [call("pay", {"amount": 3}, id="c")]
    first = await kept(agent, workspace, store, ask, tools=[paying(paid)], **options)
    await first.spawn_run_with_id_async("run-a", "pay")
    await until(lambda: bool(first.pending_confirmations()))
    await first.close_async()
    there = await kept(agent, elsewhere, store, "done", tools=[paying(paid)])
    resumed = await there.resume_stream_async("run-a")
    await until(lambda: bool(there.pending_confirmations()))
    assert await there.confirm_tool_use_async("c", True)
    async for _ in resumed:  # type: ignore[union-attr]  # a stream, as there is something to do
        pass
    assert paid == [3]
    assert there.runs()[-1]["text"] == "done"


async def test_a_detached_run_is_admitted_once_on_all_nodes(agent: Agent, workspace: Path, elsewhere: Path) -> None:
    """One node starts it; every other gets its record, running or finished, and other input conflicts."""
    store = MemorySessionStore()
    one = await kept(agent, workspace, store, "answer", auto_save=False)
    started = await one.spawn_run_with_id_async("job", "do it")
    assert started["replayed"] is False
    model = ScriptedModel(["never"])
    two = await kept(agent, elsewhere, store, llm_client=model)
    early = await two.spawn_run_with_id_async("job", "do it")
    assert early["replayed"] is True
    await until(lambda: one._engine.active is None)
    late: Any = await two.spawn_run_with_id_async("job", "do it")
    assert (late["replayed"], late["snapshot"]["text"], late["snapshot"]["status"]) == (True, "answer", "completed")
    assert late["snapshot"] == one.run_snapshot("job")
    with pytest.raises(RunIdentityConflict):
        await two.spawn_run_with_id_async("job", "something else")
    third = await kept(agent, elsewhere, store, session_id="another")
    with pytest.raises(RunIdentityConflict):
        await third.spawn_run_with_id_async("job", "do it")
    assert model.requests == []


async def test_a_store_that_cannot_admit_starts_nothing(agent: Agent, workspace: Path) -> None:
    """A run that could not be recognised again isn't begun."""
    model = ScriptedModel(["never"])
    session = await kept(agent, workspace, Failing("admit_run"), llm_client=model)
    with pytest.raises(CodeError, match=REMOTE):
        await session.spawn_run_with_id_async("job", "do it")
    assert (model.requests, "run.opened" in kinds(workspace)) == ([], False)
    assert (await session.send_async("go")).text == "never"


async def test_a_recovery_can_be_asked_for_again(agent: Agent, workspace: Path, elsewhere: Path) -> None:
    """The same recovery starts once and gives its record from then on; the run it goes on from stays as it was."""
    store = dead_node(workspace)
    source = await store.load_checkpoint("run-a")
    paid: list[int] = []
    session = await kept(agent, elsewhere, store, "done", tools=[paying(paid)])
    first: Any = await session.spawn_recovery_with_run_id_async("run-a", "run-b")
    assert (first["replayed"], first["snapshot"]["cause"], first["snapshot"]["id"]) == (False, "recovery", "run-b")
    again: Any = await session.spawn_recovery_with_run_id_async("run-a", "run-b")
    assert again["replayed"] is True
    await until(lambda: session._engine.active is None)
    ended: Any = await session.spawn_recovery_with_run_id_async("run-a", "run-b")
    assert (ended["replayed"], ended["snapshot"]["text"], paid) == (True, "done", [2])
    with pytest.raises(RunIdentityConflict):
        await session.spawn_recovery_with_run_id_async("run-c", "run-b")
    assert await store.load_checkpoint("run-a") == source
    assert session.run_snapshot("run-a")["status"] == "parked"  # type: ignore[index]  # it is known
    assert await store.load_checkpoint("run-b") is None
    await store.close()


async def test_a_recovery_left_behind_goes_on_from_its_own_checkpoint(
    agent: Agent, workspace: Path, tmp_path: Path
) -> None:
    """When its node is gone too, the same call on a third node repeats nothing that has a result."""
    store = dead_node(workspace)
    paid: list[int] = []
    for name in ("b", "c"):
        (tmp_path / name).mkdir()
    b = await make_agent()
    second = await kept(b, tmp_path / "b", store, [delay(asyncio.Event()), "never"], tools=[paying(paid)])
    await second.spawn_recovery_with_run_id_async("run-a", "run-b")
    while await store.load_checkpoint("run-b") is None:
        await asyncio.sleep(0)
    await vanished(second)
    third = await kept(agent, tmp_path / "c", store, "done", tools=[paying(paid)])
    await third.spawn_recovery_with_run_id_async("run-a", "run-b")
    await until(lambda: third._engine.active is None)
    assert paid == [2]
    record: Any = third.run_snapshot("run-b")
    assert (record["text"], record["status"]) == ("done", "completed")
    await b.close_async()
    await store.close()


async def test_a_recovery_without_a_checkpoint(agent: Agent, workspace: Path) -> None:
    """Errors are those of ``resume_run``, and the id can be used later."""
    session = await kept(agent, workspace, MemorySessionStore())
    for _ in range(2):
        with pytest.raises(CodeError, match="no loop checkpoint found for run 'run-a'"):
            await session.spawn_recovery_with_run_id_async("run-a", "run-b")
    await session.close_async()
    with pytest.raises(SessionClosed):
        await session.spawn_recovery_with_run_id_async("run-a", "run-b")


async def test_a_run_that_was_given_up_goes_on_nowhere(agent: Agent, workspace: Path) -> None:
    """A new prompt settles a run that was left open, and its checkpoint goes too."""
    store = dead_node(workspace)
    session = await kept(agent, workspace, store, "new", tools=[paying([])])
    await session.send_async("something else")
    assert await store.list_checkpoints() == []
    await store.close()


async def test_a_checkpoint_of_an_ended_run_is_deleted_by_a_resume(agent: Agent, workspace: Path) -> None:
    """A checkpoint whose deletion failed is found out: the log says that the run has ended."""
    store = Failing("delete_checkpoint")
    session = await kept(agent, workspace, store, [call("ls", {})], "done", auto_save=False)
    run_id = (await session.send_async("go")).run_id
    assert [header.run_id for header in await store.list_checkpoints()] == [run_id]
    store.methods = []
    assert (await session.resume_run_async(run_id)).text == "done"
    assert await store.list_checkpoints() == []
