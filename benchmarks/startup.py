"""Importing, the first agent, further sessions. In: an address. Out: figures.

One rule: what only happens once a process is measured in processes of its own.
Known weakness: the disk is warm and everything is compiled, as for every program that was started before.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys

from a3s_code import Session
from benchmarks.figures import SCALE, Figure, over
from benchmarks.server import script
from benchmarks.world import agent, configuration, descriptors, now, resident_kb, session, workspace

TIMES = 15
FIRST = """
import sys, time
import a3s_code
acl, root = sys.argv[1:]
began = time.perf_counter()
made = a3s_code.Agent.create(acl)
session = made.session(root)
print(time.perf_counter() - began)
made.close()
"""


def figures_of(address: str, quick: bool) -> list[Figure]:
    acl = configuration(address, script())
    bare, imported, first, whole = [], [], [], []
    with workspace() as root:
        compiled = os.path.join(root, "compiled")
        _run(compiled, FIRST, acl, root)
        for _ in range(5 if quick else TIMES):
            bare.append(_run(compiled, "pass")[0])
            imported.append(_run(compiled, "import a3s_code")[0])
            took, said = _run(compiled, FIRST, acl, root)
            first.append(float(said))
            whole.append(took)
    started = statistics.median(first) * SCALE["ms"]
    everything = (statistics.median(whole) - statistics.median(bare)) * SCALE["ms"]
    return [
        over("import a3s_code, over bare Python", imported, bare, "ms", 40),
        Figure("agent and first session, after the import", started, "ms", 5),
        Figure("all three, and the end of the process", everything, "ms", 45),
    ]


def _run(compiled: str, code: str, *arguments: str) -> tuple[float, str]:
    env = {**os.environ, "PYTHONPYCACHEPREFIX": compiled, "PYTHONDONTWRITEBYTECODE": ""}
    command = [sys.executable, "-c", code, *arguments]
    began = now()
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=env)
    return now() - began, done.stdout


async def further_sessions(address: str, quick: bool) -> list[Figure]:
    count = 200 if quick else 1000
    with workspace() as root:
        async with agent(address, script()) as made:
            await (await session(made, root)).send_async("hello")
            before, open_before = resident_kb(), descriptors()
            kept: list[Session] = []
            times = []
            for _ in range(count):
                began = now()
                kept.append(await made.session_async(root))
                times.append(now() - began)
            idle, opened = resident_kb(), descriptors() - open_before
            for one in kept:
                await one.send_async("hello")
            talked = resident_kb()
    return [
        Figure("a further session", statistics.median(times) * SCALE["µs"], "µs", 300),
        Figure("memory of an idle session", (idle - before) / count, "KB", 20),
        Figure("descriptors of an idle session", opened / count, "", 0),
        Figure("memory of a session after one turn", (talked - before) / count, "KB"),
    ]
