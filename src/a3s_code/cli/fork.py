"""``a3s-code sessions fork``. In: a session, perhaps a fact and a new id. Out: another session that begins so.

One rule: the first session stays as it is; no model is asked for anything.
Known weakness: a session that only a store has is set up in the workspace first.
"""

from __future__ import annotations

import argparse
import asyncio
import os
from pathlib import Path

from a3s_code.api.agent import Agent
from a3s_code.cli.known import find_known
from a3s_code.cli.listing import print_json
from a3s_code.cli.setup import command_line, workspace_of
from a3s_code.cli.stores import Chosen, chosen_store, opened
from a3s_code.config.model import OFFLINE, SCOUT
from a3s_code.system.clock import SystemClock


def go(args: argparse.Namespace) -> int:
    workspace = workspace_of(args.workspace)
    chosen = chosen_store(args, workspace, os.environ)
    source, made = asyncio.run(_fork(workspace, chosen, args.session, args.at, args.new_id))
    if args.json:
        print_json({"session_id": made, "forked_from": source, "at_seq": args.at})
    else:
        words = chosen.words if chosen is not None else ()
        again = command_line("run", "--session", made, *words, workspace=workspace)
        print(f'session {made} begins as {source}: go on with `{again} "..."`')
    return 0


async def _fork(
    workspace: Path, chosen: Chosen | None, given: str, at_seq: int | None, new_id: str | None
) -> tuple[str, str]:
    async with opened(chosen) as store:
        known = await find_known(workspace, store, given, SystemClock().now_ms())
        async with await Agent.create_from_config_async({"default_model": f"{OFFLINE}/{SCOUT}"}) as agent:
            options = {"session_id": known.id, "session_store": store}
            session = await agent.session_async(workspace, {k: v for k, v in options.items() if v is not None})
            forked = await session.fork_async(at_seq=at_seq, session_id=new_id)
            return known.id, forked.session_id
