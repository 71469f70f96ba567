"""A session is kept, goes on elsewhere and is admitted once in every store alike (durability.md)."""

from __future__ import annotations

import asyncio
import itertools
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from storehelp import AnyStore, maker

from a3s_code import Agent, Session, tool
from a3s_code.errors import CodeError, RunIdentityConflict, SessionBusy
from a3s_code.testing import ScriptedModel, Turn, call, calls

pytest_plugins = ["storefixtures"]

CHILD = Path(__file__).parent / "sessionchild.py"
LABELS = {"tenant_id": "acme", "principal": "jo", "correlation_id": "c-λ"}
ASKING: dict[str, Any] = {
    "permission_policy": {"ask": ["pay"], "allow": ["ls"]},
    "confirmation_policy": {"enabled": True},
}
_schemas = itertools.count()


def paying(paid: list[int]) -> Any:
    @tool
    def pay(amount: int) -> str:
        """Pays."""
        paid.append(amount)
        return "paid"

    return pay


async def kept(agent: Agent, workspace: Path, store: AnyStore, *script: Turn, **options: Any) -> Session:
    """A session called ``s`` in ``store``, which is saved after every run."""
    given: dict[str, Any] = {"session_id": "s", "llm_client": ScriptedModel(list(script)), "log_durability": "os"}
    return await agent.session_async(workspace, **{**given, "session_store": store, "auto_save": True, **options})


async def until(condition: Callable[[], bool]) -> None:
    """Lets others run; the test's own timeout bounds it."""
    while not condition():
        await asyncio.sleep(0.001)


async def test_it_goes_on_on_another_node(
    make_store: Callable[[], AnyStore], agent: Agent, workspace: Path, elsewhere: Path
) -> None:
    """From another handle, without the log: conversation, labels, options, records, events, traces and artifacts."""
    one, two = make_store(), make_store()
    (workspace / "long.txt").write_text("word " * 5000 + "\n" + "line\n" * 5000)
    shown = {"tool_result_transform_policy": {"max_output_bytes": 1024, "head_bytes": 256, "tail_bytes": 128}}
    script = [calls(("ls", {}), ("read", {"file_path": "long.txt"})), "ünö \U0001f600 \0"]
    first = await kept(agent, workspace, one, *script, role="a poet", **LABELS, **shown)
    run = (await first.send_async("go \ud83d")).run_id
    history, events, traces = first.history(), first.run_events(run), first.trace_events()
    saved = await one.load_snapshot("s")
    assert saved is not None
    uri = str(saved.artifacts[0]["uri"])
    artifact = first.get_artifact(uri)
    await first.close_async()
    there = await kept(agent, elsewhere, two, "two")
    assert (there.tenant_id, there.principal, there.correlation_id) == ("acme", "jo", "c-λ")
    assert (there.history(), there.run_events(run), there.trace_events()) == (history, events, traces)
    assert there.get_artifact(uri) == artifact is not None
    assert (await there.send_async("more")).text == "two"
    await there.close_async()
    assert [entry.session_id for entry in await one.list_sessions("acme")] == ["s"]
    again = await agent.resume_session_async("s", session_store=one, llm_client=ScriptedModel([]))
    assert again.workspace == str(elsewhere)
    assert len(again.history()) == len(history) + 2
    await again.close_async()
    await one.close()
    await two.close()


async def test_an_answer_is_given_on_another_node(
    make_store: Callable[[], AnyStore], agent: Agent, workspace: Path, elsewhere: Path
) -> None:
    """A run that waits when its session is closed goes on from its checkpoint wherever somebody answers, once."""
    one, two = make_store(), make_store()
    paid: list[int] = []
    script = [calls(("ls", {}), call("pay", {"amount": 3}, id="c"))]
    first = await kept(agent, workspace, one, *script, tools=[paying(paid)], **ASKING)
    await first.spawn_run_with_id_async("run-a", "pay")
    await until(lambda: first._engine.active is not None and first._engine.active.parked)
    await first.close_async()
    model = ScriptedModel(["done"])
    there = await kept(agent, elsewhere, two, llm_client=model, tools=[paying(paid)])
    resumed: Any = await there.resume_stream_async("run-a")
    await until(lambda: bool(there.pending_confirmations()))
    assert await there.confirm_tool_use_async("c", True)
    async for _ in resumed:
        pass
    assert (paid, len(model.requests), there.runs()[-1]["text"]) == ([3], 1, "done")
    assert await one.list_checkpoints() == []
    await there.close_async()
    await one.close()
    await two.close()


async def test_a_detached_run_starts_once(
    make_store: Callable[[], AnyStore], agent: Agent, workspace: Path, elsewhere: Path
) -> None:
    """Whoever asks for the same id gets the one record; other input and another session are conflicts."""
    one, two = make_store(), make_store()
    first = await kept(agent, workspace, one, "answer", auto_save=False)
    assert (await first.spawn_run_with_id_async("job", "do it"))["replayed"] is False
    await until(lambda: first._engine.active is None)
    model = ScriptedModel(["never"])
    there = await kept(agent, elsewhere, two, llm_client=model)
    late: Any = await there.spawn_run_with_id_async("job", "do it")
    assert (late["replayed"], late["snapshot"]) == (True, first.run_snapshot("job"))
    with pytest.raises(RunIdentityConflict):
        await there.spawn_run_with_id_async("job", "something else")
    other = await kept(agent, elsewhere, two, "never", session_id="another")
    with pytest.raises(RunIdentityConflict):
        await other.spawn_run_with_id_async("job", "do it")
    assert model.requests == []
    for session in (first, there, other):
        await session.close_async()
    await one.close()
    await two.close()


async def test_one_node_works_at_a_time(
    make_store: Callable[[], AnyStore], agent: Agent, workspace: Path, elsewhere: Path
) -> None:
    """While one node holds the session another's prompt is SESSION_BUSY and writes nothing; once it is closed it is
    free."""
    one, two = make_store(), make_store()
    first = await kept(agent, workspace, one, "one")
    await first.send_async("go")
    model = ScriptedModel(["two"])
    there = await kept(agent, elsewhere, two, llm_client=model)
    with pytest.raises(SessionBusy):
        await there.send_async("me too")
    assert model.requests == []
    await first.close_async()
    assert (await there.send_async("now me")).text == "two"
    assert [message["content"] for message in there.history()] == ["go", "one", "now me", "two"]
    await there.close_async()
    await one.close()
    await two.close()


async def test_it_is_forked_and_replaced(make_store: Callable[[], AnyStore], agent: Agent, workspace: Path) -> None:
    """A copy is a session of its own in the store; a replaced one is the same session set up anew."""
    store = make_store()
    first = await kept(agent, workspace, store, "one", "two", "three", tenant_id="acme")
    await first.send_async("go")
    copy = await first.fork_async(session_id="copy")
    await copy.send_async("elsewhere")
    with pytest.raises(CodeError) as known:
        await first.fork_async(session_id="copy")
    assert known.value.code in ("SESSION_ERROR", "IO_ERROR")
    new = await agent.replace_session_async(first, role="a poet")
    assert (first.is_closed(), new.tenant_id, new.history()) == (True, "acme", first.history())
    await new.send_async("more")
    await new.close_async()
    await copy.close_async()
    by_id = {name: await store.load_snapshot(name) for name in ("s", "copy")}
    said = {name: [m["content"] for m in found.messages] for name, found in by_id.items() if found is not None}
    assert said == {"s": ["go", "one", "more", "three"], "copy": ["go", "one", "elsewhere", "two"]}
    assert by_id["s"] is not None
    assert by_id["s"].options["role"] == "a poet"
    await store.close()


@pytest.mark.parametrize("died_in", ["file", "encrypted", "sqlite", "postgres"])
async def test_a_node_dies_and_another_goes_on(
    died_in: str, agent: Agent, workspace: Path, elsewhere: Path, quick: Path, request: pytest.FixtureRequest
) -> None:
    """From the store alone, at once: what has a result isn't run again, options and labels are those of the run, and a
    recovery that is asked for again is the same one."""
    dsn = request.getfixturevalue("postgres_dsn") if died_in == "postgres" else ""
    schema = f"dies_{os.getpid()}_{next(_schemas)}"
    command = [sys.executable, str(CHILD), died_in, str(quick), dsn, schema, str(workspace)]
    assert subprocess.run(command, check=False).returncode == -9
    assert (workspace / "paid").read_text() == "12"
    store = maker(died_in, quick, lambda: dsn, schema)()
    before = await store.load_checkpoint("run-a")
    assert before is not None
    paid: list[int] = []
    model = ScriptedModel(["done"])
    there = await kept(agent, elsewhere, store, llm_client=model, tools=[paying(paid)])
    assert there.tenant_id == "acme"
    first: Any = await there.spawn_recovery_with_run_id_async("run-a", "run-b")
    assert (first["replayed"], first["snapshot"]["cause"]) == (False, "recovery")
    await until(lambda: there._engine.active is None)
    again: Any = await there.spawn_recovery_with_run_id_async("run-a", "run-b")
    assert (again["replayed"], again["snapshot"]["text"], paid, len(model.requests)) == (True, "done", [2], 1)
    assert await store.load_checkpoint("run-a") == before
    assert await store.load_checkpoint("run-b") is None
    await there.close_async()
    await store.close()
