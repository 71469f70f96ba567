"""One send, a tool round, and what is stored of it. In: an address. Out: figures over the floor.

One rule: ours and the floor take turns, so that a slow moment of the machine hits both.
Known weakness: the floor leaves out the tool itself, which takes about 20 µs.
"""

from __future__ import annotations

import os
import statistics
from pathlib import Path

from a3s_code import Session
from a3s_code.stores.disk import Disk, use_disk
from benchmarks.figures import SCALE, Figure, over
from benchmarks.server import script
from benchmarks.world import PROMPT, Bare, agent, looking, now, session, workspace

ROUNDS = 20
LOG_DIRECTORY = Path(".a3s", "effect-log")


async def one_send(address: str, quick: bool) -> list[Figure]:
    ours: list[float] = []
    floor: list[float] = []
    with workspace() as root:
        async with agent(address, script()) as made, Bare(address) as bare:
            for _ in range(20):
                body = await _recorded(bare, await session(made, root))
            for _ in range(100 if quick else 500):
                one = await session(made, root)
                ours.append(await _send(one))
                floor.append(await bare.exchanges(body))
    return [over("one send, over the floor", ours, floor, "µs", 600)]


async def tool_rounds(address: str, quick: bool) -> list[Figure]:
    found = []
    for plain, how in ((False, "coroutine"), (True, "function in a thread")):
        ours: list[float] = []
        floor: list[float] = []
        with workspace() as root:
            tools = [looking(root, plain=plain)]
            async with agent(address, script(ROUNDS)) as made, Bare(address) as bare:
                bodies = await _recorded(bare, await session(made, root, tools=tools))
                for _ in range(5 if quick else 20):
                    ours.append(await _send(await session(made, root, tools=tools)))
                    floor.append(await bare.exchanges(bodies))
        found.append(over(f"a tool round, over the floor ({how})", ours, floor, "µs", 500, each=ROUNDS))
    return found


async def synced_rounds(address: str, quick: bool) -> list[Figure]:
    """With ``log_durability="fsync"``: the same, two syncs, and what is on the disk afterwards."""
    ours: list[float] = []
    floor: list[float] = []
    syncs: list[float] = []
    counting = Counting()
    before = use_disk(counting)
    with workspace() as root:
        tools = [looking(root)]
        async with agent(address, script(ROUNDS)) as made, Bare(address) as bare:
            bodies = await _recorded(bare, await session(made, root, tools=tools, log_durability="fsync"))
            for _ in range(3 if quick else 10):
                counting.syncs = 0
                one = await session(made, root, tools=tools, log_durability="fsync")
                ours.append(await _send(one))
                floor.append(await bare.exchanges(bodies))
                syncs += _synced_appends(root)
            stored = (Path(root, LOG_DIRECTORY) / f"{one.session_id}.jsonl").stat().st_size
            texts = sum(len(str(m["content"])) for m in one.history() if m["role"] == "tool")
    use_disk(before)
    sync = statistics.median(syncs) * SCALE["µs"]
    synced = over("a synced round, over the floor", ours, floor, "µs", 500 + 2 * sync, each=ROUNDS)
    return [
        Figure("a bare append and fdatasync", sync, "µs"),
        synced._replace(note="goal: a round and two syncs"),
        Figure("synced calls in 20 rounds", counting.syncs, "", 41),
        Figure("bytes stored for 20 rounds, without output", (stored - texts) / 1024, "KB", 12),
    ]


class Counting(Disk):
    syncs = 0

    def fdatasync(self, fd: int) -> None:
        self.syncs += 1
        super().fdatasync(fd)


async def _recorded(bare: Bare, one: Session) -> list[bytes]:
    await bare.record()
    await one.send_async(PROMPT)
    return await bare.bodies()


async def _send(one: Session) -> float:
    began = now()
    result = await one.send_async(PROMPT)
    took = now() - began
    if not result.text.strip():
        raise SystemExit("the run gave no text")
    return took


def _synced_appends(root: str) -> list[float]:
    times = []
    fd = os.open(os.path.join(root, "floor.log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for _ in range(ROUNDS):
        began = now()
        os.write(fd, b"x" * 299 + b"\n")
        os.fdatasync(fd)
        times.append(now() - began)
    os.close(fd)
    return times
