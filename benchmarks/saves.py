"""Sessions that are saved. In: an address. Out: what a snapshot costs, a tool round with a store, and a crowd of them.

One rule: sessions are real ones, and the floor is a bare write of the same document, or the same without a store.
Known weakness: what a worker thread computes holds up the loop too (one interpreter lock): see ``loop late``.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import AsyncIterator

from a3s_code import ModelDelta, ModelRequest, Session, SessionStore, Usage
from a3s_code.core.documents import encode
from benchmarks.backends import Place, places
from benchmarks.crowds import probe
from benchmarks.figures import SCALE, Figure
from benchmarks.kept import bare_write, beside
from benchmarks.lengths import Answering
from benchmarks.sends import ROUNDS
from benchmarks.server import script
from benchmarks.world import PROMPT, agent, looking, now, session, workspace

ASKS = f"{PROMPT}: please look at the thing described here, about a hundred bytes of plain prompt text, and answer."
CROWD = 50


async def snapshots(address: str, quick: bool) -> list[Figure]:
    """``save()`` of a session of 10 and of 1,000 turns."""
    found = []
    async with places() as all_places:
        for place in all_places:
            with workspace() as root:
                async with agent(address, script()) as made:
                    for turns in (10, 100 if quick else 1_000):
                        store = place.store()
                        one = await session(made, root, session_store=store, llm_client=Answering())
                        for _ in range(turns):
                            await one.send_async(ASKS)
                        found.append(await _snapshot(place, store, one, turns, 5 if quick else 20))
                        await one.close_async()
                        await store.close()
    return found


async def _snapshot(place: Place, store: SessionStore, one: Session, turns: int, count: int) -> Figure:
    await one.save_async()
    stored = await store.load_snapshot(one.session_id)
    assert stored is not None
    data = encode(stored)
    ours, floor, on_loop = [], [], []
    lags: list[float] = []
    for _ in range(count):
        watching = asyncio.create_task(probe(lags))
        await asyncio.sleep(0)
        began, used = now(), time.thread_time()
        await one.save_async()
        ours.append(now() - began)
        on_loop.append(time.thread_time() - used)
        watching.cancel()
        floor.append(await bare_write(place.bare, [(one.session_id, data)]))
    took, used = (statistics.median(times) * SCALE["ms"] for times in (ours, on_loop))
    worst = max(lags, default=0) * SCALE["ms"]
    note = f"{len(data) / 1e3:.0f} KB; {used:.2f} ms on the loop, {took - used:.2f} off it; loop late {worst:.1f} ms"
    return beside(f"a snapshot of {turns:,} turns, {place.name}", ours, floor, note=note)


async def rounds_with_store(address: str, quick: bool) -> list[Figure]:
    """A tool round of a session with a store beside that of one without."""
    found = []
    async with places() as all_places:
        for durability in ("os", "fsync"):
            for place in all_places:
                ours, floor = [], []
                store = place.store()
                with workspace() as root:
                    tools = [looking(root)]
                    more = {"tools": tools, "log_durability": durability}
                    async with agent(address, script(ROUNDS)) as made:
                        for _ in range(3 if quick else 15):
                            ours.append(await _run(await session(made, root, session_store=store, **more)) / ROUNDS)
                            floor.append(await _run(await session(made, root, **more)) / ROUNDS)
                await store.close()
                name = f"a tool round, {durability}, {place.name} store"
                found.append(beside(name, ours[1:], floor[1:], note="floor: without a store"))
    return found


async def _run(one: Session) -> float:
    began = now()
    await one.send_async(PROMPT)
    took = now() - began
    await one.close_async()
    return took


class Thinking:
    """A model that takes its time without needing any."""

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelDelta]:
        await asyncio.sleep(0.02)
        yield ModelDelta(text="Done.")
        yield ModelDelta(finish="stop", usage=Usage(10, 2, 12))


async def settling(address: str, quick: bool) -> list[Figure]:
    """How late the loop is while 50 sessions with ``auto_save`` settle runs."""
    found = []
    async with places() as all_places:
        for place in all_places:
            store = place.store()
            with_store = await _crowd(address, quick, session_store=store, auto_save=True)
            without = await _crowd(address, quick)
            await store.close()
            at, least = (lags[int(len(lags) * 0.99)] * SCALE["ms"] for lags in (with_store, without))
            note = f"worst {with_store[-1] * SCALE['ms']:.0f} ms; floor: without a store"
            found.append(Figure(f"loop lag, 99 %: 50 settle runs, {place.name}", at, "ms", 20, least, note=note))
    return found


async def _crowd(address: str, quick: bool, **more: object) -> list[float]:
    """Sorted lags, in seconds."""
    lags: list[float] = []
    with workspace() as root:
        async with agent(address, script()) as made:
            crowd = [await session(made, root, llm_client=Thinking(), **more) for _ in range(CROWD)]
            await asyncio.gather(*(one.send_async(ASKS) for one in crowd))
            watching = asyncio.create_task(probe(lags))
            await asyncio.gather(*(_sends(one, 5 if quick else 30) for one in crowd))
            watching.cancel()
    return sorted(lags)


async def _sends(one: Session, count: int) -> None:
    for _ in range(count):
        await one.send_async(ASKS)
