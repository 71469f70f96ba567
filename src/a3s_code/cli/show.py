"""``a3s-code sessions show``. In: a session's id. Out: what log and store have of it.

One rule: nothing is written and nothing is taken, so a session at work may be looked at.
Known weakness: labels are kept by a store only; a log alone doesn't tell them.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec

from a3s_code.cli.known import Known, find_known, view_of
from a3s_code.cli.listing import ago, print_json, print_table, run_row
from a3s_code.cli.setup import workspace_of
from a3s_code.cli.stores import Chosen, chosen_store, opened
from a3s_code.cli.waiting import Waiting, waiting_of
from a3s_code.cli.words import clean, count, number_of, one_line
from a3s_code.core.content import Json, JsonObject
from a3s_code.core.documents import CheckpointHeader, encode
from a3s_code.system.clock import SystemClock


class Shown(msgspec.Struct):
    """``bytes`` is the size of the snapshot as it is stored, before any encryption."""

    known: Known
    runs: list[JsonObject]
    waiting: list[Waiting]
    bytes: int | None


def go(args: argparse.Namespace) -> int:
    workspace = workspace_of(args.workspace)
    chosen = chosen_store(args, workspace, os.environ)
    shown = asyncio.run(_gathered(workspace, chosen, args.session))
    if args.json:
        print_json(_json(shown))
    else:
        _print(shown)
    log = shown.known.log
    return 1 if log is not None and log.fault is not None else 0


async def _gathered(workspace: Path, chosen: Chosen | None, given: str) -> Shown:
    async with opened(chosen) as store:
        known = await find_known(workspace, store, given, SystemClock().now_ms())
        view = await view_of(known, store)
    snapshot = known.snapshot
    runs = known.log.runs if known.log is not None else snapshot.runs if snapshot is not None else []
    size = None if snapshot is None else len(encode(snapshot))
    return Shown(known, runs, [] if view is None else waiting_of(view), size)


def _open_run(shown: Shown) -> str | None:
    if shown.known.checkpoint is not None:
        return shown.known.checkpoint.run_id
    last = shown.runs[-1] if shown.runs else None
    return str(last["id"]) if last is not None and last["status"] == "parked" else None


def _json(shown: Shown) -> JsonObject:
    known = shown.known
    log, snapshot = known.log, known.snapshot
    stored = snapshot or known.checkpoint
    waiting: list[Json] = [{"question": each.question, **each.asked} for each in shown.waiting]
    checkpoints: list[Json] = [_checkpoint(header) for header in known.checkpoints]
    runs: list[Json] = [{key: value for key, value in run.items() if key != "events"} for run in shown.runs]
    return {
        "id": known.id,
        "where": known.where,
        "status": known.status,
        "held_by": known.held_by,
        "labels": dict(stored.labels) if stored else {},
        "workspace": stored.workspace if stored else None,
        "model": stored.model if stored else None,
        "runs": runs,
        "open_run": _open_run(shown),
        "waiting": waiting,
        "log": None if log is None else {"path": log.path, "facts": log.facts, "fault": log.fault},
        "snapshot": None
        if snapshot is None
        else {"saved_ms": snapshot.saved_ms, "digest": snapshot.digest, "bytes": shown.bytes},
        "checkpoints": checkpoints,
    }


def _checkpoint(header: CheckpointHeader) -> JsonObject:
    return {"run_id": header.run_id, "facts": header.seq, "saved_ms": header.saved_ms}


def _print(shown: Shown) -> None:
    for name, text in _lines(shown, SystemClock().now_ms()):
        sys.stdout.write(f"{name.ljust(11)}{clean(text)}\n")
    if shown.runs:
        sys.stdout.write("\n")
        now = SystemClock().now_ms()
        held = shown.known.held_by is not None
        rows = [run_row(run, now, running=held and run is shown.runs[-1]) for run in shown.runs]
        print_table(["run", "began", "took", "status", "steps", "tokens", "prompt"], rows)


def _lines(shown: Shown, now: int) -> Iterator[tuple[str, str]]:
    known = shown.known
    stored = known.snapshot or known.checkpoint
    yield "session", known.id
    yield "status", known.status + (f", held by {known.held_by}" if known.held_by else "")
    if stored is not None:
        yield from (("label", f"{name} {one_line(value)}") for name, value in stored.labels.items())
        yield "workspace", stored.workspace
        yield from [("model", stored.model)] if stored.model else []
    if (run := _open_run(shown)) is not None:
        yield "open run", run
    for each in shown.waiting:
        yield "waits", f"{each.call}: {each.words} ({ago(now, number_of(each.asked['since_ms']))})"
    if known.log is not None:
        yield "log", f"{known.log.path}, {count(known.log.facts, 'fact')}"
        yield from [("damage", known.log.fault)] if known.log.fault else []
    if known.snapshot is not None:
        yield "snapshot", f"saved {ago(now, known.snapshot.saved_ms)}, {count(shown.bytes or 0, 'byte')}"
        yield "digest", known.snapshot.digest
    for header in known.checkpoints:
        yield "checkpoint", f"run {header.run_id}, {count(header.seq, 'fact')}, saved {ago(now, header.saved_ms)}"
