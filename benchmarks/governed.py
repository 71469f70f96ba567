"""A governed call beside the bare one. In: an address. Out: what ten rules and two hooks cost.

One rule: both calls do the same, in turn, on one session each; the bare one is a host's direct call without hooks.
Known weakness: a shell line that is judged for the first time costs more; its second judgement is measured.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from typing import Any

from a3s_code import PermissionPolicy, Session
from benchmarks.figures import SCALE, Figure, over
from benchmarks.server import script
from benchmarks.world import agent, now, session, workspace

RULES = PermissionPolicy(
    deny=["bash(rm -rf*)", "bash(git push --force*)", "write(**/.env*)"],
    ask=["bash(git push*)", "bash(npm publish*)"],
    allow=["read(*)", "search(*)", "bash(npm run build*)", "bash(git status)", "ls(**)"],
)
CALLS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("a governed ls over the bare one: ten rules, two hooks", "ls", {"path": "."}),
    ("a governed bash over the bare one", "bash", {"command": "git status"}),
)


def look(event: Mapping[str, Any]) -> None:
    """A hook that has nothing to say."""


async def figures_of(address: str, quick: bool) -> list[Figure]:
    count = 40 if quick else 200
    with workspace() as root:
        async with agent(address, script()) as made:
            bare = await session(made, root, sandbox="host")
            governed = await session(made, root, sandbox="host", permission_policy=RULES)
            for name in ("pre_tool_use", "post_tool_use"):
                governed.register_hook(name, name, handler=look)
            return [await _beside(bare, governed, what, tool, args, count) for what, tool, args in CALLS]


async def _beside(bare: Session, governed: Session, what: str, tool: str, args: dict[str, Any], count: int) -> Figure:
    floor, ours = [], []
    for _ in range(count + 5):
        began = now()
        await bare.tool_async(tool, args)
        between = now()
        await governed.governed_tool_async(tool, args)
        floor.append(between - began)
        ours.append(now() - between)
    figure = over(what, ours[5:], floor[5:], "µs", 300)
    ratio = statistics.median(ours[5:]) / statistics.median(floor[5:])
    return figure._replace(note=f"{ratio:.2f} × the bare call of {statistics.median(floor[5:]) * SCALE['µs']:.0f} µs")
