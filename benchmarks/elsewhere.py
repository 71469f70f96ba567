"""Sessions that go on on another node. In: an address, unused. Out: how long until they are there, by store.

One rule: the other node has a workspace, a session and a handle on the store of its own; it shares nothing but storage.
Known weakness: both nodes are one process, so what is imported once is paid for already.
"""

from __future__ import annotations

from pathlib import Path

from a3s_code import Agent, MemorySessionStore, SessionStore
from a3s_code.core.documents import Checkpoint, SessionSnapshot, encode
from a3s_code.ports.store import Epoch
from a3s_code.testing import ScriptedModel, call
from benchmarks.backends import BareFiles, Place, places
from benchmarks.figures import Figure
from benchmarks.kept import beside
from benchmarks.lengths import Answering
from benchmarks.saves import ASKS
from benchmarks.server import script
from benchmarks.world import agent, looking, now, session, workspace

ID = "moving"
FACTS_A_ROUND = 3


class Keeping(MemorySessionStore):
    """Leaves the checkpoint of a run that has ended, as a node does that dies before its end."""

    async def delete_checkpoint(self, run_id: str, epoch: Epoch = None) -> bool:
        return False


async def figures_of(address: str, quick: bool) -> list[Figure]:
    turns, facts = (100, 100) if quick else (1_000, 1_000)
    with workspace() as root:
        async with agent(address, script()) as made:
            snapshot = await _snapshot(made, root, turns)
            checkpoint = await _checkpoint(made, root, facts)
            found = []
            async with places() as all_places:
                for place in all_places:
                    store = place.store()
                    found.append(await _from_snapshot(made, place, store, snapshot, turns, 3 if quick else 7))
                    found.append(await _from_checkpoint(made, place, store, checkpoint, 3 if quick else 7))
                    await store.close()
    return found


async def _snapshot(made: Agent, root: str, turns: int) -> SessionSnapshot:
    store = Keeping()
    one = await session(made, root, session_id=ID, session_store=store, llm_client=Answering())
    for _ in range(turns):
        await one.send_async(ASKS)
    await one.save_async()
    await one.close_async()
    stored = await store.load_snapshot(ID)
    assert stored is not None
    return stored


async def _checkpoint(made: Agent, root: str, facts: int) -> Checkpoint:
    """That of a run whose model was to answer for the last time."""
    store = Keeping()
    rounds = [[call("look", {"file_path": "f01.txt"})]] * (facts // FACTS_A_ROUND)
    more = {"tools": [looking(root)], "llm_client": ScriptedModel([*rounds, "Done."]), "max_tool_rounds": facts}
    one = await session(made, root, session_id="run", session_store=store, **more)
    await one.send_async(ASKS)
    stored = await store.load_checkpoint(str(one.runs()[-1]["id"]))
    await one.close_async()
    assert stored is not None
    return stored


async def _from_snapshot(
    made: Agent, place: Place, store: SessionStore, snapshot: SessionSnapshot, turns: int, count: int
) -> Figure:
    await store.save_snapshot(snapshot)
    data = encode(snapshot)
    ours, floor = [], []
    for _ in range(count):
        with workspace() as there:
            began = now()
            one = await session(made, there, session_id=ID, session_store=store, llm_client=Answering())
            held = len(one.history())
            ours.append(now() - began)
            await one.close_async()
            floor.append(await _moved(place, there, data))
    if held != 2 * turns:
        raise SystemExit(f"only {held} messages came along")
    return beside(
        f"a session of {turns:,} turns elsewhere, {place.name}", ours, floor, note=f"{len(data) / 1e3:.0f} KB"
    )


async def _from_checkpoint(
    made: Agent, place: Place, store: SessionStore, checkpoint: Checkpoint, count: int
) -> Figure:
    header, data = checkpoint.header, b"\n".join(checkpoint.facts)
    ours, floor = [], []
    for _ in range(count):
        await store.append_checkpoint(header.run_id, header, checkpoint.facts)
        with workspace() as there:
            more = {"session_store": store, "tools": [looking(there)], "llm_client": Answering()}
            began = now()
            one = await session(made, there, session_id="run", **more)
            result = await one.resume_run_async(header.run_id)
            ours.append(now() - began)
            await one.close_async()
            floor.append(await _moved(place, there, data))
    if not result.text:
        raise SystemExit("the run gave no text")
    name = f"a run of {header.seq:,} facts resumed elsewhere, {place.name}"
    return beside(name, ours, floor, note=f"{len(data) / 1e3:.0f} KB, to the end of the run")


async def _moved(place: Place, there: str, data: bytes) -> float:
    """Reads the same bytes from the same backend, and writes them to a file of the workspace."""
    if place.bare is None:
        return 0.0
    await place.bare.write([("moving", data)])
    began = now()
    await BareFiles(Path(there)).write([("moved", await place.bare.read("moving"))])
    return now() - began
