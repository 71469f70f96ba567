"""``a3s-code pending``. In: a workspace, perhaps a session. Out: what waits for an answer, a row or a JSON line each.

One rule: what is listed is read off the logs, whoever has them open.
Known weakness: a log is read whole.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path

import msgspec

from a3s_code.cli.found import find_log, holder_of, id_of, logs_in
from a3s_code.cli.listing import ago
from a3s_code.cli.setup import command_line, notice, workspace_of
from a3s_code.cli.table import table_lines
from a3s_code.cli.waiting import Waiting, waiting_in
from a3s_code.cli.words import number_of, one_line
from a3s_code.core.content import JsonObject
from a3s_code.system.clock import SystemClock

_HEAD = ["session", "call", "since", "what", "why"]


def go(args: argparse.Namespace) -> int:
    workspace = workspace_of(args.workspace)
    paths = [find_log(workspace, args.session)] if args.session else logs_in(workspace)
    found = [(id_of(path), holder_of(path), each) for path in paths for each in waiting_in(path)]
    if args.json:
        for session, holder, each in found:
            row: JsonObject = {"session_id": session, "holder": holder, "question": each.question, **each.asked}
            sys.stdout.write(msgspec.json.encode(row).decode() + "\n")
        return 0
    if not found:
        notice(f"nothing waits for an answer in {workspace}")
        return 0
    _print(found)
    _say_how(found, workspace)
    return 0


def _print(found: list[tuple[str, int | None, Waiting]]) -> None:
    now = SystemClock().now_ms()
    rows = [
        [session, each.call, ago(now, number_of(each.asked["since_ms"])), each.words, one_line(each.reason, 200)]
        for session, _, each in found
    ]
    for line in table_lines(_HEAD, rows, shutil.get_terminal_size((120, 24)).columns):
        sys.stdout.write(line + "\n")


def _say_how(found: list[tuple[str, int | None, Waiting]], workspace: Path) -> None:
    for session in dict.fromkeys(session for session, holder, _ in found if holder is not None):
        notice(f"session {session} is open in a program: answer there")
    session, _, first = found[0]
    answer = "TEXT" if first.question else "yes"
    notice(f"answer with `{command_line('answer', session, first.call, answer, workspace=workspace)}`")
