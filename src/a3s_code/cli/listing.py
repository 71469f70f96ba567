"""``a3s-code sessions`` and ``a3s-code runs``. In: a workspace, a store, a session. Out: a table, or JSON lines.

One rule: what is listed is read off logs and store, so it is the same whoever asks and whenever.
Known weakness: a damaged log is listed with what comes before its damage.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from a3s_code.cli.found import Found, find_log, read_session
from a3s_code.cli.known import Known, known_sessions
from a3s_code.cli.setup import command_line, notice, workspace_of
from a3s_code.cli.stores import Chosen, chosen_store, opened
from a3s_code.cli.table import table_lines
from a3s_code.cli.words import count, duration, number_of, one_line
from a3s_code.core.content import JsonObject
from a3s_code.system.clock import SystemClock


def go(args: argparse.Namespace) -> int:
    workspace = workspace_of(args.workspace)
    if args.what == "runs":
        return _runs(read_session(find_log(workspace, args.session)), args.json)
    chosen = chosen_store(args, workspace, os.environ)
    return _sessions(workspace, asyncio.run(_known(workspace, chosen, args.tenant)), chosen, as_json=args.json)


async def _known(workspace: Path, chosen: Chosen | None, tenant_id: str | None) -> list[Known]:
    async with opened(chosen) as store:
        return await known_sessions(workspace, store, SystemClock().now_ms(), tenant_id)


def _sessions(workspace: Path, known: Sequence[Known], chosen: Chosen | None, *, as_json: bool) -> int:
    if as_json:
        for each in known:
            print_json(each.to_dict())
        return 0
    if not known:
        place = f"{workspace}{'' if chosen is None else f' and {chosen.store}'}"
        notice(f'no sessions in {place}; begin one with `{command_line("run", workspace=workspace)} "..."`')
        return 0
    now = SystemClock().now_ms()
    rows = [
        [
            each.id,
            ago(now, each.last_ms),
            str(len(each.log.runs)) if each.log else "",
            each.status,
            "" if chosen is None else each.where,
            each.held_by or "",
            each.prompt,
        ]
        for each in known
    ]
    print_table(["session", "last fact", "runs", "status", "where", "held by", "first prompt"], rows)
    for each in known:
        if each.log is not None and each.log.fault is not None:
            notice(each.log.fault)
    return 0


def _runs(found: Found, as_json: bool) -> int:
    if as_json:
        for run in found.runs:
            print_json(run)
    else:
        now = SystemClock().now_ms()
        print_table(
            ["run", "began", "took", "status", "steps", "tokens", "prompt"],
            [run_row(run, now, running=found.holder is not None and run is found.runs[-1]) for run in found.runs],
        )
        for run in found.runs:
            error = run["error"]
            if isinstance(error, dict):
                notice(f"run {run['id']} failed: {error['code']}: {one_line(str(error['message']), 300)}")
    if found.fault is not None:
        notice(found.fault)
        return 1
    return 0


def run_row(run: JsonObject, now: int, *, running: bool) -> list[str]:
    """A run in a table; ``running`` says that the one which was left open is being worked on."""
    began, ended = number_of(run["created_ms"]), number_of(run["ended_ms"])
    usage = run["usage"]
    tokens = number_of(usage.get("total_tokens")) if isinstance(usage, dict) else 0
    status = str(run["status"])
    if status == "parked":
        status = "running" if running else "left open"
    return [
        str(run["id"]),
        ago(now, began),
        duration(ended - began) if ended else "",
        status,
        str(run["steps"]),
        f"{tokens:,}",
        str(run["prompt"]),
    ]


def ago(now_ms: int, then_ms: int) -> str:
    """How long something is past, in one unit."""
    if not then_ms:
        return "never"
    seconds = max(0, (now_ms - then_ms) // 1000)
    for size, unit in ((86_400, "day"), (3600, "hour"), (60, "minute")):
        if seconds >= size:
            return f"{count(seconds // size, unit)} ago"
    return "just now"


def print_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    for line in table_lines(head, rows, shutil.get_terminal_size((120, 24)).columns):
        sys.stdout.write(line + "\n")


def print_json(value: object) -> None:
    sys.stdout.write(msgspec.json.encode(value).decode() + "\n")
