"""Run records, events kept, cursors, retention (api.md, *Run record*, *Retention*; cases C24, H15)."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from runhelp import collected, make_agent, open_session, until

from a3s_code import Agent
from a3s_code.core.content import Usage
from a3s_code.core.facts import Fact
from a3s_code.errors import CodeError
from a3s_code.ports.log import Position
from a3s_code.stores.factlog import FileFactLog
from a3s_code.testing import ScriptedModel, Turn, calls, delay, text, turn


async def test_a_record_tells_the_run(agent: Agent, workspace: Path) -> None:
    """A settled run's record has status, prompt, cause, times, counts, usage and text; running ones say so."""
    gate = asyncio.Event()
    session = await open_session(agent, workspace, turn("partial", delay(gate), Usage(3, 4, 7)))
    assert session.current_run() is None
    task = asyncio.ensure_future(session.send_async("the prompt"))
    await until(lambda: session.current_run() is not None)
    at_work = session.current_run()
    assert at_work is not None
    assert (at_work["status"], at_work["ended_ms"]) == ("running", None)
    gate.set()
    result = await task
    record = session.run_snapshot(result.run_id)
    assert record == session.runs()[0] == session.current_run()
    assert {
        key: record[key] for key in ("id", "session_id", "status", "prompt", "cause", "steps", "text", "error")
    } == {
        "id": result.run_id,
        "session_id": "s",
        "status": "completed",
        "prompt": "the prompt",
        "cause": "send",
        "steps": 1,
        "text": "partial",
        "error": None,
    }
    assert int(str(record["created_ms"])) <= int(str(record["updated_ms"])) <= int(str(record["ended_ms"]))
    assert record["usage"]["total_tokens"] == 7  # type: ignore[index,call-overload]  # a mapping
    assert record["event_count"] == len(session.run_events(result.run_id))


async def test_unknown_ids_give_nothing(agent: Agent, workspace: Path) -> None:
    """An unknown id is ``None``, ``[]``, ``False`` or an empty page."""
    session = await open_session(agent, workspace)
    assert session.run_snapshot("x") is None
    assert session.run_events("x") == []
    assert not session.cancel_run("x")
    assert session.run_event_page("x") == {"events": [], "next_sequence": 0, "retention_gap": False}
    with pytest.raises(CodeError):
        session.run_event_page("x", limit=0)
    cursor: Any = "1"
    with pytest.raises(CodeError, match="after_sequence"):
        session.run_event_page("x", cursor)
    assert not (workspace / ".a3s").exists()


async def test_pages_give_every_event_once(agent: Agent, workspace: Path) -> None:
    """Following ``next_sequence`` gives all kept events in order, each once, and then nothing more."""
    session = await open_session(agent, workspace, *[calls(("ls", {"path": "."})), "done"])
    result = await session.send_async("go")
    events: list[Any] = []
    cursor = None
    while True:
        page: Any = session.run_event_page(result.run_id, cursor, limit=2)
        assert not page["retention_gap"]
        if not page["events"]:
            break
        assert len(page["events"]) <= 2
        events += page["events"]
        cursor = page["next_sequence"]
    assert events == session.run_events(result.run_id)
    assert page["next_sequence"] == cursor
    assert [event["metadata"]["sequence"] for event in events] == sorted(e["metadata"]["sequence"] for e in events)


async def test_a_reader_goes_on_from_its_cursor(agent: Agent, workspace: Path) -> None:
    """A consumer that lost the run at event k finds the rest, the terminal event included (case C24)."""
    session = await open_session(agent, workspace, calls(("ls", {})), text("abc", chunks=3))
    events = await collected(session.stream("go"))
    run_id = events[0].metadata["run_id"]
    for event in events:
        page: Any = session.run_event_page(run_id, event.metadata["sequence"])
        rest = [each["metadata"]["sequence"] for each in page["events"]]
        assert all(sequence > event.metadata["sequence"] for sequence in rest)
        assert bool(rest) == (event is not events[-1])


async def test_retention_keeps_the_newest(agent: Agent, workspace: Path) -> None:
    """``max_runs_retained`` drops the oldest runs, ``max_events_per_run`` the oldest events and says so."""
    limits = {"max_runs_retained": 2, "max_events_per_run": 3, "max_trace_events": 2}
    script = [*[calls(("ls", {})), "done"] * 3]
    session = await open_session(agent, workspace, *script, retention_limits=limits)
    ids = [(await session.send_async(f"go {n}")).run_id for n in range(3)]
    assert [run["id"] for run in session.runs()] == ids[1:]
    assert session.run_snapshot(ids[0]) is None
    assert len(session.run_events(ids[2])) == 3
    assert session.run_events(ids[2])[-1]["type"] == "agent_end"
    assert int(str(session.runs()[-1]["event_count"])) > 3
    assert session.run_event_page(ids[2], 1)["retention_gap"]
    assert not session.run_event_page(ids[2], int(str(session.runs()[-1]["event_count"])) + 1)["retention_gap"]
    assert len(session.trace_events()) == 2


async def test_records_survive_a_restart(workspace: Path) -> None:
    """Another process reads the same records off the log; only the events are gone."""
    one = await make_agent()
    session = await open_session(one, workspace, turn("a", Usage(1, 2, 3)))
    await session.send_async("first")
    with pytest.raises(CodeError):
        await session.send_async("second")
    before = session.runs()
    await one.close_async()
    two = await make_agent()
    after = (await open_session(two, workspace)).runs()
    assert [{**each, "event_count": 0} for each in before] == [{**each, "event_count": 0} for each in after]
    await two.close_async()


@pytest.fixture
def eager_threads() -> Iterator[None]:
    """Threads take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("eager_threads")
def test_records_can_be_read_from_other_threads_while_a_run_works(workspace: Path) -> None:
    """Getters of the blocking face never fail, whatever the run is doing at that moment."""
    made = Agent.create_from_config({})
    script: list[Turn] = [
        [*[text(f"{n}", chunks=1) for n in range(300)], *calls(("ls", {"path": "."}))] for _ in range(6)
    ]
    model = ScriptedModel([*script, "done"])
    session = made.session(
        workspace, session_id="s", llm_client=model, tool_budget=None, log_durability="os",
        retention_limits={"max_events_per_run": 40}, duplicate_tool_call_threshold=100,
    )  # fmt: skip
    failures: list[BaseException] = []
    over = threading.Event()

    def look() -> None:
        try:
            while not over.is_set():
                for run in session.runs():
                    session.run_events(str(run["id"]))
                    session.run_event_page(str(run["id"]), 5)
                session.history()
                session.trace_events()
                session.active_tools()
                session.pending_confirmations()
        except Exception as error:  # noqa: BLE001  whatever it is, the test tells it
            failures.append(error)

    threads = [threading.Thread(target=look) for _ in range(3)]
    for thread in threads:
        thread.start()
    assert session.send("go").text == "done"
    over.set()
    for thread in threads:
        thread.join()
    made.close()
    assert failures == []


def test_a_log_is_folded_once_by_all_who_ask_for_it(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads that look at a session whose log was never read, and a prompt meanwhile, wait for one another."""
    with Agent.create_from_config({}) as made:
        first = made.session(workspace, session_id="s", llm_client=ScriptedModel(["x"]))
        first.send("prompt")
        expected = first.history()
    inside, second = threading.Event(), threading.Event()
    real = FileFactLog.read

    def read(log: FileFactLog, after: Position | None = None) -> Iterator[Fact]:
        if inside.is_set():
            second.set()
        inside.set()
        for fact in real(log, after):
            yield fact
            second.wait(0.02)  # as long as a second reader takes to get here, if nothing keeps it out

    monkeypatch.setattr(FileFactLog, "read", read)
    with Agent.create_from_config({}) as made:
        session = made.session(workspace, session_id="s", llm_client=ScriptedModel(["y"]))
        found: list[Any] = []
        looking = threading.Thread(target=lambda: found.append(session.history()))
        looking.start()
        inside.wait()
        session.send("one more")
        looking.join()
        assert not second.is_set()
        assert [message["content"] for message in session.history()] == ["prompt", "x", "one more", "y"]
        assert found in ([expected], [session.history()])
