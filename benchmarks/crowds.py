"""Many sessions on one loop. In: an address. Out: how close to ideal they run, what they take, how the loop lags.

One rule: everything runs on one loop, as in a server that embeds the runtime.
Known weakness: the scripted server shares the machine, so with two cores it takes its part of the ideal.
"""

from __future__ import annotations

import asyncio

from a3s_code import Session
from benchmarks.figures import SCALE, Figure
from benchmarks.server import script
from benchmarks.world import PROMPT, Bare, agent, looking, now, resident_kb, session, workspace

SESSIONS = 200
ROUNDS = 5
DELAY_MS = 50
PROBE_S = 0.002


async def two_hundred(address: str, quick: bool) -> list[Figure]:
    with workspace() as root:
        tools = [looking(root)]
        async with agent(address, script(ROUNDS, delay_ms=DELAY_MS)) as made, Bare(address) as bare:
            await bare.record()
            await (await session(made, root, tools=tools)).send_async(PROMPT)
            bodies = await bare.bodies()
            began = now()
            await asyncio.gather(*(bare.exchanges(bodies) for _ in range(SESSIONS)))
            floor = now() - began
            before = resident_kb()
            sessions = [await session(made, root, tools=tools) for _ in range(SESSIONS)]
            began = now()
            results = await asyncio.gather(*(one.send_async(PROMPT) for one in sessions))
            took = now() - began
            added = (resident_kb() - before) / 1024
    if any(not result.text for result in results):
        raise SystemExit("a run gave no text")
    ideal = (ROUNDS + 1) * DELAY_MS / 1000
    return [
        Figure("200 sessions × 5 rounds at 50 ms", took / ideal, "× ideal", 2.5, floor / ideal),
        Figure("memory those sessions add", added, "MB", 15),
    ]


async def loop_lag(address: str, quick: bool) -> list[Figure]:
    """200 sessions stream a delta each 20 ms while 50 run tools; a probe on the loop sees how late it is."""
    with workspace() as root:
        tools = [looking(root, plain=True)]
        async with (
            agent(address, script(deltas=60 if quick else 200, gap_ms=20)) as talkers,
            agent(address, script(10 if quick else 40, delay_ms=DELAY_MS)) as workers,
        ):
            lags: list[float] = []
            watching = asyncio.create_task(probe(lags))
            work = [_read_stream(await session(talkers, root)) for _ in range(SESSIONS)]
            work += [_send(await session(workers, root, tools=tools)) for _ in range(50)]
            await asyncio.gather(*work)
            watching.cancel()
    lags.sort()
    at = lags[int(len(lags) * 0.99)] * SCALE["ms"]
    return [Figure("loop lag, 99 %: 200 stream, 50 run tools", at, "ms", 20, note=f"worst {lags[-1] * 1e3:.0f} ms")]


async def probe(lags: list[float]) -> None:
    while True:
        began = now()
        await asyncio.sleep(PROBE_S)
        lags.append(max(0.0, now() - began - PROBE_S))


async def _read_stream(one: Session) -> None:
    async for _ in await one.stream_async(PROMPT):
        continue


async def _send(one: Session) -> None:
    await one.send_async(PROMPT)
