"""What a process left undone in a store after a run's end is made up for, and never taken for news."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from runhelp import make_agent, until
from savedhelp import Failing, kept

from a3s_code import Agent, MemorySessionStore
from a3s_code.core.documents import CheckpointHeader
from a3s_code.testing import ScriptedModel, Turn, call

SCRIPT: list[Turn] = [[call("ls", {})], "done"]


async def left_undone(workspace: Path, store: Failing) -> None:
    """A detached run that ended, and whose process could not tell the store all of it."""
    agent = await make_agent()
    session = await kept(agent, workspace, store, *SCRIPT)
    await session.spawn_run_with_id_async("job", "go")
    await until(lambda: session._engine.active is None)
    store.methods = []
    await agent.close_async()
    assert [header.run_id for header in await store.list_checkpoints()] == ["job"]


async def test_a_checkpoint_that_could_not_be_deleted_goes_with_the_next_run(agent: Agent, workspace: Path) -> None:
    """The session that failed to delete it tries again."""
    store = Failing("delete_checkpoint")
    session = await kept(agent, workspace, store, *SCRIPT, "more")
    await session.send_async("go")
    assert len(await store.list_checkpoints()) == 1
    store.methods = []
    await session.send_async("again")
    assert await store.list_checkpoints() == []


async def test_a_resume_saves_what_the_dead_process_did_not(agent: Agent, workspace: Path) -> None:
    """A run whose process died between its last fact and the store's is saved, settled and forgotten by a resume that
    has no step to take."""
    store = Failing("save_snapshot", "settle_run", "delete_checkpoint")
    await left_undone(workspace, store)
    session = await kept(agent, workspace, store)
    assert (await session.resume_run_async("job")).text == "done"
    saved, run = await store.load_snapshot("s"), await store.load_run("job")
    assert saved is not None
    assert saved.messages == session.history()
    assert run is not None
    assert run.record is not None
    assert (run.record["status"], run.record["text"]) == ("completed", "done")
    assert await store.list_checkpoints() == []


async def test_a_checkpoint_older_than_the_snapshot_replaces_nothing(
    agent: Agent, workspace: Path, tmp_path: Path
) -> None:
    """Elsewhere a checkpoint that outlived its run isn't gone on with: the model isn't asked for the saved answer."""
    store = Failing("delete_checkpoint")
    await left_undone(workspace, store)
    (tmp_path / "elsewhere").mkdir()
    model = ScriptedModel(["another answer"])
    session = await kept(agent, tmp_path / "elsewhere", store, llm_client=model)
    before = session.history()
    assert (await session.resume_run_async("job")).text == "done"
    assert model.requests == []
    assert (session.history(), before[-1]["content"]) == (before, "done")
    assert await store.list_checkpoints() == []
    known: Any = await session.spawn_run_with_id_async("job", "go")
    assert (known["replayed"], known["snapshot"]["text"]) == (True, "done")


async def test_all_ids_of_a_run_that_went_on_are_forgotten(agent: Agent, workspace: Path) -> None:
    """When a resumed run's process could delete neither its checkpoint nor that of the run before, one resume by the
    first id deletes both."""
    store = Failing()
    first = await make_agent()
    options: dict[str, Any] = {"permission_policy": {"ask": ["ls"]}, "confirmation_policy": {"enabled": True}}
    parked = await kept(first, workspace, store, [call("ls", {}, id="c")], **options)
    await parked.spawn_run_with_id_async("job", "go")
    await until(lambda: bool(parked.pending_confirmations()))
    await first.close_async()
    second = await make_agent()
    resumed = await kept(second, workspace, store, "done", **options)
    await resumed.confirm_tool_use_async("c", True)
    store.methods = ["delete_checkpoint"]
    assert (await resumed.resume_run_async("job")).text == "done"
    assert len(await store.list_checkpoints()) == 2
    await second.close_async()
    store.methods = []
    last = await kept(agent, workspace, store)
    assert (await last.resume_run_async("job")).text == "done"
    assert await store.list_checkpoints() == []


class Slow(MemorySessionStore):
    """Once it is ``slow`` it keeps a checkpoint only when the session's run has ended, and some turns later."""

    slow: Callable[[], bool] | None = None

    async def append_checkpoint(
        self, run_id: str, header: CheckpointHeader, facts: Sequence[bytes], epoch: int | None = None
    ) -> int:
        if self.slow is not None:
            await until(self.slow)
            for _ in range(1000):
                await asyncio.sleep(0)
        return await super().append_checkpoint(run_id, header, facts, epoch)


async def test_an_answer_that_is_kept_late_leaves_no_checkpoint(agent: Agent, workspace: Path) -> None:
    """A run that ends while its last answer is still on its way to the store is forgotten after that."""
    store = Slow()
    options: dict[str, Any] = {"permission_policy": {"ask": ["ls"]}, "confirmation_policy": {"enabled": True}}
    session = await kept(agent, workspace, store, [call("ls", {}, id="c")], "done", auto_save=False, **options)
    await session.spawn_run_with_id_async("job", "go")
    await until(lambda: bool(session.pending_confirmations()))
    store.slow = lambda: session._engine.view().closed is not None
    assert await session.confirm_tool_use_async("c", False)
    await until(lambda: session._engine.active is None)
    assert session.runs()[-1]["text"] == "done"
    assert await store.list_checkpoints() == []
