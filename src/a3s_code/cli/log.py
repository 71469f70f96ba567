"""``a3s-code log``. In: a log file or a session. Out: its facts, what is wrong with it, a mended file, or a replay.

One rule: only ``repair`` writes, and it keeps what was there.
Known weakness: ``replay`` holds the whole log in memory.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Callable, Iterator

from a3s_code.cli.facts import told
from a3s_code.cli.found import find_log
from a3s_code.cli.setup import workspace_of
from a3s_code.cli.words import count
from a3s_code.engine.replay.replay import Replayed, replay
from a3s_code.engine.replay.tape import Difference
from a3s_code.stores.logfile import Report, read_header, read_log, repair_log, verify_log

_AROUND = 60


def go(args: argparse.Namespace) -> int:
    path = find_log(workspace_of(args.workspace), args.log)
    if args.action == "show":
        return show(path, as_json=args.json)
    actions: dict[str, Callable[[str], int]] = {"verify": verify, "repair": _repair, "replay": _replay}
    return actions[args.action](path)


def show(path: str, *, as_json: bool = False, limit: int | None = None) -> int:
    """Prints a line a fact, or the lines of the file; at most ``limit``."""
    for line in _first(path, limit):
        sys.stdout.write((line[1].decode("utf-8", "replace") if as_json else line[0]) + "\n")
    return 0


def _first(path: str, limit: int | None) -> Iterator[tuple[str, bytes]]:
    for number, line in enumerate(read_log(path)):
        if number == limit:
            return
        yield told(line.fact), line.raw


def verify(path: str) -> int:
    report = verify_log(path)
    for line in _verified(report):
        print(line)
    return 0 if report.ok else 1


def _verified(report: Report) -> Iterator[str]:
    yield f"{report.path}"
    facts = f"{count(report.facts, 'fact')}, last sum {report.sum or 'none'}"
    if report.ok:
        yield f"good: {facts}"
    else:
        yield f"damaged: {facts} before the damage, {report.later} whole ones after it"
        yield from (f"  line {problem.line}: {problem.what}" for problem in report.problems)
        yield "`a3s-code log repair` keeps what comes before the damage, and the damaged file beside it"
    if report.torn:
        yield f"an unfinished write of {count(report.torn, 'byte')} at the end; the next prompt moves it aside"


def _repair(path: str) -> int:
    report = repair_log(path)
    if report.ok:
        print(f"{path}\nnothing to repair: {count(report.facts, 'fact')}, last sum {report.sum or 'none'}")
        return 0
    first = report.problems[0]
    print(f"{path}\nrepaired: it ends with fact {report.facts} now; line {first.line} was damaged: {first.what}")
    print(f"the file as it was: {report.kept_as}")
    return 0


def _replay(path: str) -> int:
    header, lines = read_header(path), list(read_log(path))
    done = asyncio.run(replay(header, lines))
    for line in _replayed(done):
        print(line)
    if done.difference is None:
        print(f"last sum {lines[-1].sum if lines else 'none'} ({os.path.basename(path)})")
    return 1 if done.difference is not None else 0


def _replayed(done: Replayed) -> Iterator[str]:
    for taken in done.taken:
        yield f"facts {taken.first} to {taken.last} taken as recorded, not replayed (run {taken.run}): {taken.why}"
    if done.difference is not None:
        yield f"stopped at fact {done.difference.seq}: {done.difference.why}"
        yield from _compared(done.difference)
        yield f"{count(done.same, 'fact')} before it came out byte for byte the same"
        return
    every = "every one" if done.same == done.total else "every replayed one"
    yield f"replayed {done.same} of {count(done.total, 'fact')}: {every} came out byte for byte the same"


def _compared(difference: Difference) -> Iterator[str]:
    """Both lines around the first byte in which they differ."""
    pairs = enumerate(zip(difference.recorded, difference.made, strict=False))
    at = next((i for i, (recorded, made) in pairs if recorded != made), 0)
    for name, line in (("recorded", difference.recorded), ("replayed", difference.made)):
        if line:
            start = max(0, at - _AROUND)
            piece = line[start : at + _AROUND].decode("utf-8", "replace")
            yield f"  {name}: {'...' if start else ''}{piece}{'...' if at + _AROUND < len(line) else ''}"
