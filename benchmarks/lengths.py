"""Long sessions and long logs. In: an address. Out: what a turn costs late, opening a log, memory over time.

One rule: the log is the durable one wherever a figure says so.
Known weakness: this version has no compaction, so a long session keeps its whole conversation; the log of a million
facts holds the compactions that a later version writes.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

from a3s_code import Agent, ModelDelta, ModelRequest, Usage
from a3s_code.core.codec import Header, encode, encode_header
from a3s_code.core.content import Call
from a3s_code.core.facts import (
    KIND_OF,
    CompactionDone,
    Fact,
    FactData,
    ModelTurn,
    RunClosed,
    RunOpened,
    ToolResulted,
    ToolStarted,
    UserSaid,
)
from benchmarks.figures import SCALE, Figure
from benchmarks.server import script
from benchmarks.world import PROMPT, Bare, agent, configuration, now, peak_mb, resident_kb, session, workspace

MARKS = (10, 100, 500, 1000)
AROUND = 10
CUT_EVERY = 2000


async def late_turns(address: str, quick: bool) -> list[Figure]:
    marks = MARKS[:2] if quick else MARKS
    asks = f"{PROMPT}: please look at the thing described here, about a hundred bytes of plain prompt text, and answer."
    at: dict[int, tuple[float, float]] = {}
    with workspace() as root:
        async with agent(address, script()) as made, Bare(address) as bare:
            one = await session(made, root, log_durability="fsync")
            for turn in range(1, marks[-1] + AROUND):
                mark = next((mark for mark in marks if mark <= turn < mark + AROUND), None)
                if mark == turn:
                    ours: list[float] = []
                    floor: list[float] = []
                    await bare.record()
                began = now()
                await one.send_async(asks)
                took = now() - began
                if mark is not None:
                    ours.append(took)
                    if mark == turn:
                        bodies = await bare.bodies()
                    floor.append(await bare.exchanges(bodies))
                    at[mark] = (statistics.median(ours), statistics.median(floor))
            log = Path(root, ".a3s", "effect-log", f"{one.session_id}.jsonl").stat().st_size
            said = sum(len(str(message["content"])) for message in one.history())
    found = [Figure(f"turn {mark:,}, synced", ours * 1e3, "ms", None, bare * 1e3) for mark, (ours, bare) in at.items()]
    first, last = marks[0], marks[-1]
    apart = (last - first) / SCALE["µs"]
    slope, least = ((at[last][i] - at[first][i]) / apart for i in (0, 1))
    found.append(Figure("each earlier turn adds to a turn", slope, "µs", 1.5, least))
    found.append(Figure("bytes stored a turn, without content", (log - said) / (last + AROUND - 1), "B", 300))
    return found


def opening(address: str, quick: bool) -> list[Figure]:
    """Opens logs of 10⁵ and 10⁶ facts (quick: the first), each in a process of its own, so that its peak is its own;
    then once more with the view beside it that the first one left."""
    acl = configuration(address, script())
    return [figure for count in (100_000, 1_000_000)[: 1 if quick else 2] for figure in _opened(acl, count)]


def _opened(acl: str, count: int) -> list[Figure]:
    with workspace() as root:
        directory = Path(root, ".a3s", "effect-log")
        directory.mkdir(parents=True)
        size = _write_log(directory / "long.jsonl", count)
        took, peak = _child(acl, root, count)
        again, _ = _child(acl, root, count)
        read = _read_bare(directory / "long.jsonl")
        beside = (directory / "long.view").stat().st_size
    label = f"opening a log of {count:,} facts"
    return [
        Figure(label, took, "s", None, read, note=f"{size / 1e6:.0f} MB, {took / count * 1e6:.1f} µs a fact"),
        Figure("its peak memory", peak, "MB", 150),
        Figure("the same with its view beside it", again * SCALE["ms"], "ms", note=f"{beside / 1e3:.0f} KB"),
    ]


def _child(acl: str, root: str, count: int) -> tuple[float, float]:
    """Seconds and peak megabytes."""
    code = f"from {__name__} import open_long; open_long()"
    done = subprocess.run([sys.executable, "-c", code, acl, root], capture_output=True, text=True, check=True)
    took, peak, facts = (float(word) for word in done.stdout.split())
    if facts < count:
        raise SystemExit(f"only {facts:.0f} of {count} facts were read")
    return took, peak


def open_long() -> None:
    """The child: opens the log of session ``long`` and says seconds, peak megabytes and facts."""
    acl, root = sys.argv[1:]
    with Agent.create(acl) as made:
        one = made.session(root, session_id="long")
        began = now()
        one.runs()
        print(now() - began, peak_mb(), one._engine.view().seq)


def _read_bare(path: Path) -> float:
    began = now()
    with path.open("rb") as file:
        while file.read(1 << 18):
            continue
    return now() - began


def _write_log(path: Path, count: int) -> int:
    before = ""
    with path.open("wb") as file:
        file.write(encode_header(Header("long", "long", 0)))
        for seq, (run, data) in zip(range(1, count + 1), story(), strict=False):
            line, before = encode(
                Fact(seq, f"id{seq}", 1_700_000_000_000 + seq, run, KIND_OF[type(data)], data), before
            )
            file.write(line)
        return file.tell()


def story() -> Iterator[tuple[str, FactData]]:
    """Runs of one tool round each, and a compaction every so often."""
    seq = 0
    number = 0
    while True:
        number += 1
        run, call = f"run{number}", f"call{number}"
        facts: list[FactData] = [
            RunOpened(run, "send", {"instructions": "a" * 10, "tools": "b" * 10}),
            UserSaid(PROMPT, "prompt"),
            ModelTurn("", "model", (Call(call, "look", {"file_path": "f01.txt"}),), (), Usage(50, 8, 58), "bench"),
            ToolStarted(call, 1, "safe", True),
            ToolResulted(call, "look", "x" * 100, 0, "ok"),
            ModelTurn("All done.", "model", (), (), Usage(60, 3, 63), "bench", "stop"),
            RunClosed("completed", 3),
        ]
        seq += len(facts)
        if seq % CUT_EVERY < len(facts):
            seq += 1
            facts.append(CompactionDone("What was said before.", seq - 1, 5000, 100))
        for data in facts:
            yield run, data


class Answering:
    """A model that needs no network."""

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelDelta]:
        yield ModelDelta(text="Done.")
        yield ModelDelta(finish="stop", usage=Usage(10, 2, 12))


async def long_session(address: str, quick: bool) -> list[Figure]:
    """Memory after 1,000 turns against the end; what grows is the conversation, as nothing compacts it yet."""
    turns = 5_000 if quick else 100_000
    with workspace() as root:
        async with agent(address, script()) as made:
            one = await session(made, root, llm_client=Answering())
            began = now()
            for turn in range(turns):
                if turn == 1000:
                    early = resident_kb()
                await one.send_async("hello")
            took = now() - began
            grown = resident_kb() - early
    note = f"of {early / 1024:.0f} MB: {grown / (turns - 1000) * 1024:.0f} B and {took / turns * 1e6:.0f} µs a turn"
    return [Figure(f"memory that {turns:,} turns add after 1,000", grown / early * 100, "%", 5, note=note)]
