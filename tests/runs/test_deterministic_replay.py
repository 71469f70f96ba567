"""The same script gives the same bytes (facts.md, api.md, *HostEnvConfig*; case H21)."""

from __future__ import annotations

from pathlib import Path

from otherprocess import run
from runhelp import facts, log_bytes

SCENARIO = """
import json
(ws / "a.txt").write_text("alpha\\n")

@tool
def stamp(what: str) -> dict:
    "Stamps."
    return {"b": 1, "a": what}

SCRIPT = [
    [thought("hm"), text("looking", chunks=3), *calls(
        ("read", {"file_path": "a.txt"}), ("ls", {}), ("search", {"query": "alpha", "mode": "grep"})
    )],
    calls(("bash", {"command": "echo out; echo err >&2; exit 3"}), ("stamp", {"what": "x"})),
    calls(
        ("write", {"file_path": "b.txt", "content": "beta\\n"}), ("nothing", {}),
        ("edit", {"file_path": "a.txt", "old_string": "alpha", "new_string": "gamma"})
    ),
    calls(call("ls", "{")),
    text("all done", chunks=4),
]

async def main():
    agent = await make_agent()
    session = await open_session(agent, ws, *SCRIPT, tools=[stamp], session_id=None, log_durability="fsync",
        host_env=HostEnvConfig("n", 1_700_000_000_000), tenant_id="t", tool_budget=None)
    events = await collected(await session.stream_async("go"))
    events += await collected(await session.stream_async("and on", [{"role": "user", "content": "x"}]))
    say(session.session_id)
    for event in events:
        say(event.payload_json, event.metadata_json)
    say(json.dumps(session.trace_events()), json.dumps(session.runs()), json.dumps(session.history()))
    await agent.close_async()
asyncio.run(main())
"""


def replayed(workspace: Path) -> tuple[list[str], bytes]:
    workspace.mkdir(parents=True)
    said = run(workspace, SCENARIO)
    return said, log_bytes(workspace, said[0])


def test_two_runs_write_the_same_bytes(tmp_path: Path) -> None:
    """Two processes in two directories give byte-identical logs, events, traces and records under a HostEnvConfig."""
    one, two = replayed(tmp_path / "one" / "ws"), replayed(tmp_path / "another" / "ws")
    assert one[1] == two[1]
    assert one[0] == two[0]
    assert one[0][0] == "n-1"
    found = facts(tmp_path / "one" / "ws", "n-1")
    assert len(found) > 25
    assert {fact.ts for fact in found} == {1_700_000_000_000}
    ids = [fact.id for fact in found]
    assert len(ids) == len(set(ids))
    assert all(name.startswith("n-") for name in ids)


GO_ON = """
async def main():
    agent = await make_agent()
    session = await open_session(agent, ws, "more", session_id="n-1", host_env=HostEnvConfig("n", 1_700_000_000_000))
    await session.send_async("later")
    await agent.close_async()
asyncio.run(main())
"""


def test_ids_go_on_behind_an_existing_log(tmp_path: Path) -> None:
    """A session on an existing log never gives an id that the log holds."""
    workspace = tmp_path / "ws"
    replayed(workspace)
    run(workspace, GO_ON)
    ids = [fact.id for fact in facts(workspace, "n-1")]
    runs = {fact.run for fact in facts(workspace, "n-1")}
    assert len(ids) == len(set(ids))
    assert len(runs) == 3
    assert not runs & set(ids)
