"""What a store is asked for at every step. In: an address, unused. Out: checkpoints, leases and listings, by store.

One rule: a store's call and the bare write of the same bytes take turns, so that a slow moment hits both.
Known weakness: one caller at a time: what a crowd costs is in ``settling``.
"""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import Awaitable, Callable, Iterator
from itertools import islice

from a3s_code import SessionStore
from a3s_code.core.codec import decode_line, encode
from a3s_code.core.content import JsonObject
from a3s_code.core.documents import SessionSnapshot
from a3s_code.core.documents import encode as encoded
from a3s_code.core.facts import KIND_OF, Fact
from a3s_code.ports.store import CheckpointHeader, Lease
from benchmarks.backends import Bare, Place, Rows, places
from benchmarks.figures import SCALE, Figure
from benchmarks.lengths import story
from benchmarks.world import now

TTL_MS = 60_000
AT_ONCE = 2_000
OPTIONS: JsonObject = {"tool_budget": None, "step_limit": 1000, "permission_policy": {"default_decision": "allow"}}


async def checkpoints(address: str, quick: bool) -> list[Figure]:
    """One more fact, in a checkpoint of its own, when a session has 10, 1,000 and 50,000 facts stored."""
    found = []
    async with places() as all_places:
        for place in all_places:
            marks = (10, 1_000, 10_000 if quick else 50_000)
            found += [await _checkpoint_at(place, mark, 20 if quick else 100) for mark in marks]
    return found


async def _checkpoint_at(place: Place, mark: int, count: int) -> Figure:
    store = place.store()
    lines = _lines(mark + count)
    session_id, run_id = f"s{mark}", f"r{mark}"
    lease = await store.acquire_lease(session_id, "bench", TTL_MS)
    at = 0
    while at < mark:
        some = list(islice(lines, min(AT_ONCE, mark - at)))
        at = await store.append_checkpoint(run_id, _header(session_id, run_id, some[-1]), some, lease.epoch)
    ours, floor, bytes_ours, bytes_bare = [], [], 0, 0
    for raw in lines:
        header = _header(session_id, run_id, raw)
        before = await _written(place.bare)
        ours.append(await _timed(store.append_checkpoint(run_id, header, [raw], lease.epoch)))
        between = await _written(place.bare)
        floor.append(await bare_write(place.bare, [(run_id, raw + encoded(header))]))
        bytes_ours += between - before
        bytes_bare += await _written(place.bare) - between
    await store.close()
    note = f"{bytes_ours / count:,.0f} B written, bare {bytes_bare / count:,.0f}" if place.bare else ""
    return beside(f"a checkpoint at fact {mark:,}, {place.name}", ours, floor, note=note)


def _header(session_id: str, run_id: str, raw: bytes) -> CheckpointHeader:
    line = decode_line(raw)
    return CheckpointHeader(
        run_id=run_id,
        session_id=session_id,
        seq=line.fact.seq,
        sum=line.sum,
        thread=session_id,
        workspace="/work/space",
        model="openai/bench",
        options=OPTIONS,
        saved_ms=line.fact.ts,
    )


def _lines(count: int) -> Iterator[bytes]:
    before = ""
    for seq, (run, data) in zip(range(1, count + 1), story(), strict=False):
        line, before = encode(Fact(seq, f"id{seq}", 1_700_000_000_000 + seq, run, KIND_OF[type(data)], data), before)
        yield line[:-1]


async def leases(address: str, quick: bool) -> list[Figure]:
    found = []
    async with places() as all_places:
        for place in all_places:
            store = place.store()
            held, ours, floor = [], [], []
            for number in range(1_000):
                began = now()
                held.append(await store.acquire_lease(f"s{number}", "bench", TTL_MS))
                ours.append(now() - began)
                floor.append(await bare_write(place.bare, _rows(held[-1:])))
            found.append(beside(f"a lease acquired, {place.name}", ours, floor))
            for count in (1, 100, 1_000):
                ours, floor = await _taking_turns(
                    5 if quick else 20, _renewing(store, held[:count]), place.bare, _rows(held[:count]), synced=False
                )
                found.append(beside(f"{count:,} leases renewed, {place.name}", ours, floor))
            await store.close()
    return found


def _renewing(store: SessionStore, held: list[Lease]) -> Callable[[], Awaitable[object]]:
    async def renew() -> None:
        if None in await store.renew(held, TTL_MS):
            raise SystemExit("a lease was lost")

    return renew


def _rows(held: list[Lease]) -> Rows:
    return [(lease.session_id, encoded(lease)) for lease in held]


async def listings(address: str, quick: bool) -> list[Figure]:
    """Saves 10,000 small sessions, 50 at a time, and lists a hundred from the middle."""
    count = 1_000 if quick else 10_000
    found = []
    async with places() as all_places:
        for place in all_places:
            store = place.store()
            saving = asyncio.Semaphore(50)
            began = now()
            await asyncio.gather(*(_save(store, name, saving) for name in _names(count)))
            each = (now() - began) / count
            data = encoded(SessionSnapshot(session_id="session-00000", labels={"tenant_id": "a"}))
            floor = [await bare_write(place.bare, [(name, data)]) for name in _names(count)]
            found.append(beside(f"{count:,} sessions saved, 50 at a time, each, {place.name}", [each], floor))
            ours, floor = [], []
            for _ in range(5 if quick else 20):
                ours.append(await _timed(_page_of(store, count // 2)))
                if place.bare is not None:
                    floor.append(await _timed(place.bare.page(100)))
            found.append(beside(f"100 of {count:,} sessions listed, {place.name}", ours, floor))
            await store.close()
    return found


def _names(count: int) -> list[str]:
    return [f"session-{number:05d}" for number in range(count)]


async def _save(store: SessionStore, name: str, saving: asyncio.Semaphore) -> None:
    async with saving:
        await store.save_snapshot(SessionSnapshot(session_id=name, labels={"tenant_id": "a"}))


async def _page_of(store: SessionStore, start: int) -> None:
    if len(await store.list_sessions(after=f"session-{start:05d}", limit=100)) != 100:
        raise SystemExit("the page is not full")


async def _timed(work: Awaitable[object]) -> float:
    began = now()
    await work
    return now() - began


async def _taking_turns(
    count: int, ours: Callable[[], Awaitable[object]], bare: Bare | None, rows: Rows, *, synced: bool = True
) -> tuple[list[float], list[float]]:
    """Seconds of each call, and of each bare write of ``rows``."""
    took, floor = [], []
    for _ in range(count):
        took.append(await _timed(ours()))
        floor.append(await bare_write(bare, rows, synced=synced))
    return took, floor


async def bare_write(bare: Bare | None, rows: Rows, *, synced: bool = True) -> float:
    return 0.0 if bare is None else await _timed(bare.write(rows, synced=synced))


async def _written(bare: Bare | None) -> int:
    return 0 if bare is None else await bare.written()


def beside(name: str, ours: list[float], floor: list[float], *, note: str = "") -> Figure:
    """Medians; a floor only where there is a bare side."""
    took, bare = (statistics.median(times) * SCALE["µs"] if times else 0 for times in (ours, floor))
    return Figure(name, took, "µs", None, bare or None, note=note)
