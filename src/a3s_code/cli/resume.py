"""``a3s-code resume``. In: a session, or none. Out: its open run goes on, shown as ``run`` shows it.

One rule: which run is open is read off log and store; the newest one is taken, and the others are told.
Known weakness: a run that another process has at work isn't offered, and isn't waited for.
"""

from __future__ import annotations

import argparse
import asyncio
import os
from pathlib import Path

from a3s_code.cli.known import Known, known_sessions, look_up
from a3s_code.cli.run import Task, work
from a3s_code.cli.setup import command_line, notice, workspace_of
from a3s_code.cli.stores import Chosen, chosen_store, opened
from a3s_code.system.clock import SystemClock

_TOLD = 10


def go(args: argparse.Namespace) -> int:
    workspace = workspace_of(args.workspace)
    chosen = chosen_store(args, workspace, os.environ)
    if args.session is not None:
        known = asyncio.run(look_up(workspace, chosen, args.session))
    else:
        left = asyncio.run(_left_open(workspace, chosen))
        if not left:
            notice(f"no run was left open in {workspace}{'' if chosen is None else f' and {chosen.store}'}")
            return 0
        known = left[0]
        if not args.json:
            _tell(known, left[1:], workspace)
    return work(args, workspace, chosen, Task("", known.id))


async def _left_open(workspace: Path, chosen: Chosen | None) -> list[Known]:
    async with opened(chosen) as store:
        known = await known_sessions(workspace, store, SystemClock().now_ms())
    return [each for each in known if each.status == "left open"]


def _tell(known: Known, others: list[Known], workspace: Path) -> None:
    notice(f"going on with session {known.id}")
    if others:
        ids = ", ".join(each.id for each in others[:_TOLD])
        more = f" and {len(others) - _TOLD} more" if len(others) > _TOLD else ""
        again = command_line("resume", "SESSION", workspace=workspace)
        notice(f"left open too: {ids}{more}; go on with one by `{again}`")
