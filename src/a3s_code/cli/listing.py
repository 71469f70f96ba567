"""``a3s-code sessions`` and ``a3s-code runs``. In: a workspace, a session. Out: a table, or JSON lines.

One rule: what is listed is read off the logs, so it is the same whoever asks and whenever.
Known weakness: a damaged log is listed with what comes before its damage.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from a3s_code.cli.found import Found, find_log, read_session, sessions_in
from a3s_code.cli.setup import command_line, notice, workspace_of
from a3s_code.cli.table import table_lines
from a3s_code.cli.words import count, duration, number_of, one_line
from a3s_code.core.content import JsonObject
from a3s_code.system.clock import SystemClock


def go(args: argparse.Namespace) -> int:
    workspace = workspace_of(args.workspace)
    if args.what == "runs":
        return _runs(read_session(find_log(workspace, args.session)), args.json)
    return _sessions(workspace, as_json=args.json)


def _sessions(workspace: Path, *, as_json: bool) -> int:
    found = sessions_in(workspace)
    if as_json:
        for each in found:
            _print_json({**msgspec.to_builtins(each), "status": each.status, "prompt": each.prompt})
        return 0
    if not found:
        notice(f'no sessions in {workspace}; begin one with `{command_line("run", workspace=workspace)} "..."`')
        return 0
    now = SystemClock().now_ms()
    rows = [[each.id, ago(now, each.last_ms), str(len(each.runs)), each.status, each.prompt] for each in found]
    _print_table(["session", "last fact", "runs", "status", "first prompt"], rows)
    for each in found:
        if each.fault is not None:
            notice(each.fault)
    return 0


def _runs(found: Found, as_json: bool) -> int:
    if as_json:
        for run in found.runs:
            _print_json(run)
    else:
        now = SystemClock().now_ms()
        _print_table(
            ["run", "began", "took", "status", "steps", "tokens", "prompt"],
            [_row(run, now, found) for run in found.runs],
        )
        for run in found.runs:
            error = run["error"]
            if isinstance(error, dict):
                notice(f"run {run['id']} failed: {error['code']}: {one_line(str(error['message']), 300)}")
    if found.fault is not None:
        notice(found.fault)
        return 1
    return 0


def _row(run: JsonObject, now: int, found: Found) -> list[str]:
    began, ended = number_of(run["created_ms"]), number_of(run["ended_ms"])
    usage = run["usage"]
    tokens = number_of(usage.get("total_tokens")) if isinstance(usage, dict) else 0
    status = str(run["status"])
    if status == "parked":
        status = "running" if found.holder is not None and run is found.runs[-1] else "left open"
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


def _print_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    for line in table_lines(head, rows, shutil.get_terminal_size((120, 24)).columns):
        sys.stdout.write(line + "\n")


def _print_json(value: object) -> None:
    sys.stdout.write(msgspec.json.encode(value).decode() + "\n")
