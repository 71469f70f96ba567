"""``a3s-code steer``, ``interrupt`` and ``passivate``. In: a session that has a store. Out: what its holder answered.

One rule: the request goes through the store, so it doesn't matter which process or machine holds the session.
Known weakness: a session without a store can't be reached.
"""

from __future__ import annotations

import argparse
import asyncio
import os
from pathlib import Path
from typing import Any, Final

from a3s_code.api.agent import Agent
from a3s_code.cli.known import Known, find_known
from a3s_code.cli.listing import print_json
from a3s_code.cli.setup import notice, workspace_of
from a3s_code.cli.stores import Chosen, CommandStore, opened, required_store
from a3s_code.cli.words import one_line, text_of
from a3s_code.config.model import OFFLINE, SCOUT
from a3s_code.core.content import JsonObject
from a3s_code.errors import CodeError
from a3s_code.system.clock import SystemClock

NOT_YET: Final = 3
"""The exit code while nobody has answered."""


def go(args: argparse.Namespace) -> int:
    workspace = workspace_of(args.workspace)
    chosen = required_store(args, workspace, os.environ)
    request: dict[str, Any] = {"kind": args.kind}
    if args.kind == "steer":
        request["text"] = args.text
    elif args.kind == "passivate" and args.deadline is not None:
        request["deadline_ms"] = SystemClock().now_ms() + int(args.deadline * 1000)
    known, receipt = asyncio.run(_asked(workspace, chosen, args.session, request, args.wait))
    return tell(known, receipt, args.wait, as_json=args.json)


async def _asked(
    workspace: Path, chosen: Chosen, given: str, request: dict[str, Any], wait_s: float
) -> tuple[Known, JsonObject]:
    async with opened(chosen) as store:
        if store is None:
            raise CodeError(f"{chosen.store} holds no session yet", "INVALID_REQUEST")
        known = await find_known(workspace, store, given, SystemClock().now_ms())
        return known, await post(store, known.id, request, wait_s)


async def post(store: CommandStore, session_id: str, request: dict[str, Any], wait_s: float) -> JsonObject:
    """The receipt, of state ``posted`` when nobody has answered after ``wait_s`` seconds."""
    async with await Agent.create_from_config_async({"default_model": f"{OFFLINE}/{SCOUT}"}) as agent:
        return await agent.post_control_async(
            session_id, request, session_store=store, wait_ms=max(0, int(wait_s * 1000))
        )


def tell(known: Known, receipt: JsonObject, wait_s: float, *, as_json: bool) -> int:
    """Prints the receipt; the exit code that it asks for."""
    state, kind = str(receipt["state"]), str(receipt["kind"])
    detail = receipt["detail"]
    if as_json:
        print_json(receipt)
    elif state == "posted" and known.lease is None:
        print(f"{kind}: posted, and kept for who goes on with session {known.id}: nobody holds it now")
    elif state == "posted":
        print(f"{kind}: posted; {known.held_by} has not answered within {wait_s:g} s, and still may")
    else:
        print(f"{kind}: {state}" + (f", run {receipt['run_id']}" if receipt["run_id"] else ""))
    if state == "rejected":
        why = text_of(detail, "message") if isinstance(detail, dict) else ""
        notice(f"{receipt['code']}{f': {one_line(why, 300)}' if why else ''}")
    return 1 if state == "rejected" else NOT_YET if state in ("posted", "accepted") else 0
