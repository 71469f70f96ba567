"""``python -m benchmarks [scenario…] [--quick]``: the table of the specification's goals, measured here and now.

In: names of scenarios (all by default). Out: one line a figure, as it is known.

One rule: each scenario runs in a process of its own, so that none inherits another's memory or warmth.
Known weakness: other programs on the machine show in every figure; compare within one table only.
"""

from __future__ import annotations

import argparse
import asyncio
import inspect
import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

from benchmarks import crowds, elsewhere, governed, kept, lengths, saves, sends, startup, streams
from benchmarks.figures import Figure, head
from benchmarks.world import now, server

SCENARIOS: dict[str, Callable[[str, bool], Any]] = {
    "import": startup.figures_of,
    "sessions": startup.further_sessions,
    "send": sends.one_send,
    "tools": sends.tool_rounds,
    "synced": sends.synced_rounds,
    "governed": governed.figures_of,
    "stream": streams.figures_of,
    "crowd": crowds.two_hundred,
    "lag": crowds.loop_lag,
    "turns": lengths.late_turns,
    "open": lengths.opening,
    "long": lengths.long_session,
    "checkpoint": kept.checkpoints,
    "lease": kept.leases,
    "list": kept.listings,
    "snapshot": saves.snapshots,
    "elsewhere": elsewhere.figures_of,
    "stored": saves.rounds_with_store,
    "settle": saves.settling,
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Prints figures beside floors and goals.")
    parser.add_argument("scenarios", nargs="*", metavar="scenario", help=f"of {', '.join(SCENARIOS)}; all by default")
    parser.add_argument("--quick", action="store_true", help="fewer repetitions, smaller logs")
    parser.add_argument("--child", metavar="ADDRESS", help=argparse.SUPPRESS)
    given = parser.parse_args()
    unknown = set(given.scenarios) - set(SCENARIOS)
    if unknown:
        parser.error(f"no scenario {min(unknown)!r}; there are {', '.join(SCENARIOS)}")
    if given.child:
        _measure(given.child, given.scenarios[0], given.quick)
        return 0
    began = now()
    print(head())
    with server() as address:
        failed = [name for name in given.scenarios or SCENARIOS if not _show(address, name, given.quick)]
    print(
        f"\n{now() - began:.0f} s. Medians; the floor is a bare aiohttp exchange of the same bytes, or what is named."
    )
    return 1 if failed else 0


def _show(address: str, name: str, quick: bool) -> bool:
    """Runs one scenario and prints its lines; false when it broke."""
    command = [sys.executable, "-m", "benchmarks", name, "--child", address, *(["--quick"] if quick else [])]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        print(f"{name}: failed, see above")
        return False
    for values in json.loads(done.stdout.splitlines()[-1]):
        print(Figure(*values).line(), flush=True)
    return True


def _measure(address: str, name: str, quick: bool) -> None:
    scenario = SCENARIOS[name]
    found = scenario(address, quick)
    print(json.dumps(asyncio.run(found) if inspect.iscoroutine(found) else found))


if __name__ == "__main__":
    sys.exit(main())
