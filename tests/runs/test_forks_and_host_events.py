"""Copies of a session up to a fact (facts.md, *Fork and replay*), and events of a host's (api.md, *Events*)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from runhelp import data, facts, kinds, log_bytes, open_session, until
from savedhelp import kept

from a3s_code import Agent, MemorySessionStore
from a3s_code.core.events.catalogue import AGENT_EVENT_TYPES_V1
from a3s_code.errors import CodeError, StoreError
from a3s_code.testing import ScriptedModel, call, delay


async def test_a_fork_is_a_copy_that_goes_its_own_way(agent: Agent, workspace: Path) -> None:
    """The copy has the same facts, options and labels; what is said to one is not said to the other."""
    first = await open_session(agent, workspace, "one", "two", tenant_id="t", role="a poet")
    await first.send_async("go")
    before = log_bytes(workspace)
    copy = await first.fork_async(session_id="copy")
    assert (copy.session_id, copy.tenant_id, copy.history()) == ("copy", "t", first.history())
    assert facts(workspace, "copy") == facts(workspace)
    assert (await copy.send_async("on")).text == "two"
    assert log_bytes(workspace) == before
    opened = data(workspace, "run.opened", "copy")
    assert opened[0].context == opened[1].context
    assert agent.list_sessions() == ["copy", "s"]


async def test_a_fork_up_to_a_fact(agent: Agent, workspace: Path) -> None:
    """Nothing after that fact is in the copy, and a run that was open there can be resumed in it."""
    first = await open_session(agent, workspace, [call("ls", {})], "one")
    await first.send_async("go")
    at = kinds(workspace).index("tool.result") + 1
    copy = await first.fork_async(at)
    assert copy.session_id != "s"
    assert [run["status"] for run in copy.runs()] == ["parked"]
    assert len(facts(workspace, copy.session_id)) == at
    again = await agent.session_async(workspace, session_id=copy.session_id, llm_client=ScriptedModel(["other"]))
    assert (await again.resume_run_async(str(copy.runs()[0]["id"]))).text == "other"
    assert len(data(workspace, "tool.started", copy.session_id)) == 1


async def test_a_session_is_forked_while_it_works(agent: Agent, workspace: Path) -> None:
    """The copy has what was on the log; the run goes on."""
    gate = asyncio.Event()
    first = await open_session(agent, workspace, [delay(gate), "one"])
    stream = await first.stream_async("go")
    await until(lambda: first.runs() != [])
    copy = await first.fork_async()
    assert [message["content"] for message in copy.history()] == ["go"]
    gate.set()
    assert [event async for event in stream][-1].text == "one"
    assert [message["content"] for message in copy.history()] == ["go"]


async def test_what_cannot_be_forked(agent: Agent, workspace: Path) -> None:
    """A fact that isn't there, an id in use and a number that is none are refused, and nothing is left behind."""
    store = MemorySessionStore()
    first = await kept(agent, workspace, store, "one")
    await first.send_async("go")
    saved = await kept(agent, workspace, store, "one", session_id="saved")
    await saved.save_async()
    for at, session_id, error in (
        (99, "x", StoreError),
        (0, "x", CodeError),
        (True, "x", CodeError),
        (None, "s", CodeError),
        (None, "saved", CodeError),
    ):
        with pytest.raises(error):
            await first.fork_async(at, session_id)
    assert not list((workspace / ".a3s" / "effect-log").glob("x*"))
    assert len(facts(workspace)) == 4


async def test_an_empty_session_can_be_forked(agent: Agent, workspace: Path) -> None:
    """There is nothing to copy, so the copy begins empty."""
    first = await open_session(agent, workspace, "one")
    copy = await first.fork_async()
    assert copy.history() == []
    assert (await copy.send_async("go")).text == "one"


async def test_a_host_event_is_on_the_stream(agent: Agent, workspace: Path) -> None:
    """It takes its place among the run's events, with its sequence and labels, and is on the record."""
    gate = asyncio.Event()
    session = await open_session(agent, workspace, [delay(gate), "one"], tenant_id="t")
    stream = await session.stream_async("go")
    await until(lambda: session.runs() != [])
    payload: dict[str, Any] = {"reason": "the node drains", "deadline_ms": 1}
    await session.publish_event_async("passivation_requested", payload)
    await session.publish_event_async("peer_invocation", {"from_session_id": "other"})
    inner: list[Any] = [1]
    await session.publish_event_async("acme.note", {"at": inner})
    inner.append(2)
    gate.set()
    events = [event async for event in stream]
    ours = [event for event in events if event.type in ("passivation_requested", "peer_invocation", "acme.note")]
    assert [event.payload for event in ours] == [payload, {"from_session_id": "other"}, {"at": [1]}]
    assert [event.sequence for event in events] == list(range(1, len(events) + 1))
    assert ours[0].metadata["tenant_id"] == "t"
    assert ours[0].to_dict() in session.run_events(str(session.runs()[0]["id"]))


@pytest.mark.parametrize(
    ("kind", "payload"),
    [
        ("passivation_requested", {}),
        ("passivation_requested", {"reason": 1}),
        ("passivation_requested", {"reason": "x", "deadline_ms": "soon"}),
        ("passivation_requested", {"reason": "x", "deadline_ms": True}),
        ("passivation_requested", {"reason": "x", "other": 1}),
        ("peer_invocation", {"from_tenant_id": "t"}),
        ("acme.note", {"at": object()}),
        ("acme.note", [1]),
        (" ", {}),
        *((kind, {}) for kind in ("agent_end", "error", "tool_end", "agent_mode_changed")),
    ],
)
async def test_what_a_host_may_not_publish(agent: Agent, workspace: Path, kind: str, payload: Any) -> None:
    """The runtime's own types can't be forged, and a known type has its own members."""
    session = await open_session(agent, workspace)
    with pytest.raises(CodeError, match="publish_event") as caught:
        await session.publish_event_async(kind, payload)
    assert caught.value.code == "INVALID_REQUEST"
    assert "passivation_requested" in AGENT_EVENT_TYPES_V1


async def test_an_event_needs_a_run(agent: Agent, workspace: Path) -> None:
    """Without a run at work there is no stream that it could be on."""
    session = await open_session(agent, workspace)
    with pytest.raises(CodeError, match="no run is at work") as caught:
        await session.publish_event_async("acme.note")
    assert caught.value.code == "NO_ACTIVE_RUN"
