"""Streamed deltas. In: an address. Out: what each costs, and how late the first one is.

One rule: CPU time of this process only; the server's is its own.
Known weakness: the first delta's way includes the kernel's, which the floor has too.
"""

from __future__ import annotations

import statistics
import time

import aiohttp

from a3s_code import Session
from benchmarks.figures import SCALE, Figure
from benchmarks.server import ASKED, script
from benchmarks.world import PROMPT, agent, cpu, session, workspace

DELTAS = 2000


async def figures_of(address: str, quick: bool) -> list[Figure]:
    found = []
    for paced in (False, True):
        name = script(deltas=DELTAS, gap_ms=int(paced))
        ours: list[tuple[float, float]] = []
        floor: list[tuple[float, float]] = []
        with workspace() as root:
            async with agent(address, name) as made, aiohttp.ClientSession() as http:
                for _ in range(4 if quick else 11):
                    one = await session(made, root)
                    ours.append(await _ours(one))
                    floor.append(await _floor(http, address, name))
        how = "paced" if paced else "burst"
        spent, bare = (statistics.median(c for c, _ in runs[1:]) * SCALE["µs"] / DELTAS for runs in (ours, floor))
        late, least = (statistics.median(f for _, f in runs[1:]) for runs in (ours, floor))
        found.append(Figure(f"CPU of a streamed delta, {how}", spent, "µs", 15, bare))
        found.append(Figure(f"first delta after the server's, {how}", late, "ms", 1, least))
    return found


async def _ours(one: Session) -> tuple[float, float]:
    began = cpu()
    late = 0.0
    async for event in await one.stream_async(PROMPT):
        if event.type == "text_delta" and not late:
            late = _late(event.text or "0")
    return cpu() - began, late


async def _floor(http: aiohttp.ClientSession, address: str, name: str) -> tuple[float, float]:
    """Reads the same answer line by line, decoding nothing."""
    began = cpu()
    late = 0.0
    body = b'{"messages":[{"role":"user","content":"%b"}],"model":"%b"}' % (ASKED.encode(), name.encode())
    async with http.post(f"{address}/v1/chat/completions", data=body) as answer:
        async for line in answer.content:
            if not late and b'"content":"' in line:
                late = _late(line.split(b'"content":"')[1].decode())
    return cpu() - began, late


def _late(text: str) -> float:
    return (time.monotonic_ns() - int(text.split(" ")[0])) / 1e6
