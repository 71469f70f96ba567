"""``a3s-code sessions delete``. In: ids, or limits. Out: sessions deleted from store and workspace, and which stayed.

Limits are those of ``Agent.prune_sessions``, on the sessions of the store; without one on the logs of the workspace.

One rule: nothing is deleted before somebody said yes, and nothing that is being worked on or, unless forced by its id,
in which a run is open.
Known weakness: between the question and the answer more sessions may pass a limit; they go as well.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from a3s_code.api.agent import Agent
from a3s_code.api.retention import Limits
from a3s_code.cli.governed import at_a_terminal
from a3s_code.cli.known import Known, find_known, known_sessions
from a3s_code.cli.listing import ago, print_json
from a3s_code.cli.setup import notice, workspace_of
from a3s_code.cli.stores import Chosen, CommandStore, chosen_store, opened
from a3s_code.cli.words import count, number_of
from a3s_code.config.model import OFFLINE, SCOUT
from a3s_code.core.content import JsonObject
from a3s_code.core.documents import SessionEntry
from a3s_code.errors import CodeError
from a3s_code.system.clock import SystemClock

_AGE: Final = re.compile(r"(\d+)([smhdw])")
_AGES: Final = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_SIZE: Final = re.compile(r"(\d+)([KMGT]?)B?", re.IGNORECASE)
_SIZES: Final = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_STAYS: Final = {"running": "held", "left open": "open_run", "damaged": "failed"}
_OPTION: Final = {"max_age_ms": "--older-than", "max_sessions": "--keep", "max_bytes": "--max-bytes"}


class Deletion(msgspec.Struct, frozen=True):
    """What was asked for: ``given`` ids, or ``limits``."""

    given: Sequence[str]
    limits: Limits
    tenant_id: str | None
    force: bool


def go(args: argparse.Namespace) -> int:
    workspace = workspace_of(args.workspace)
    wanted = _wanted(args)
    chosen = chosen_store(args, workspace, os.environ)
    if wanted.tenant_id is not None and chosen is None:
        raise CodeError("--tenant needs a store: logs don't tell it", "INVALID_REQUEST")
    rows = asyncio.run(_run(workspace, chosen, wanted, dry_run=True))
    if not args.dry_run and any(row["deleted"] for row in rows):
        if not args.yes and not _agreed(rows):
            return 1
        rows = asyncio.run(_run(workspace, chosen, wanted, dry_run=False))
    if args.json:
        print_json({"dry_run": args.dry_run, "sessions": rows})
    else:
        _print(rows, dry_run=args.dry_run)
    stayed = [row for row in rows if not row["deleted"] and (wanted.given or row["reason"] == "failed")]
    return 1 if stayed else 0


def _wanted(args: argparse.Namespace) -> Deletion:
    limits = Limits(_age(args.older_than), args.keep, _size(args.max_bytes))
    limited = any(value is not None for value in (limits.max_age_ms, limits.max_sessions, limits.max_bytes))
    if bool(args.session) == limited:
        raise CodeError("name sessions by their ids, or by --older-than, --keep and --max-bytes", "INVALID_REQUEST")
    if args.keep is not None and args.keep < 0:
        raise CodeError(f"--keep {args.keep}: expected 0 or more", "INVALID_REQUEST")
    if args.session and args.tenant is not None:
        raise CodeError("--tenant goes with --older-than, --keep and --max-bytes", "INVALID_REQUEST")
    if limited and args.force:
        raise CodeError("--force goes with ids: a limit deletes no session with an open run", "INVALID_REQUEST")
    return Deletion(args.session, limits, args.tenant, args.force)


def _age(given: str | None) -> int | None:
    if given is None:
        return None
    found = _AGE.fullmatch(given)
    if found is None:
        raise CodeError(f"--older-than {given}: expected an age like 30d, 12h or 90m", "INVALID_REQUEST")
    return int(found[1]) * _AGES[found[2]]


def _size(given: str | None) -> int | None:
    if given is None:
        return None
    found = _SIZE.fullmatch(given)
    if found is None:
        raise CodeError(f"--max-bytes {given}: expected a size like 500M, 2G or 4096", "INVALID_REQUEST")
    return int(found[1]) * _SIZES[found[2].upper()]


async def _run(workspace: Path, chosen: Chosen | None, wanted: Deletion, *, dry_run: bool) -> list[JsonObject]:
    """A row for each session that was named, or that a limit wants gone."""
    async with (
        opened(chosen) as store,
        await Agent.create_from_config_async({"default_model": f"{OFFLINE}/{SCOUT}"}) as agent,
    ):
        if wanted.given:
            return await _named(agent, workspace, store, wanted, dry_run=dry_run)
        if store is None and chosen is not None:
            return []
        if store is None:
            return await _logs(agent, workspace, wanted.limits, dry_run=dry_run)
        limits = wanted.limits
        return await agent.prune_sessions_async(
            max_age_ms=limits.max_age_ms,
            max_sessions=limits.max_sessions,
            max_bytes=limits.max_bytes,
            tenant_id=wanted.tenant_id,
            session_store=store,
            dry_run=dry_run,
        )


async def _named(
    agent: Agent, workspace: Path, store: CommandStore | None, wanted: Deletion, *, dry_run: bool
) -> list[JsonObject]:
    now_ms = SystemClock().now_ms()
    known = {each.id: each for each in [await find_known(workspace, store, each, now_ms) for each in wanted.given]}
    return [
        await _delete(agent, workspace, store, each, force=wanted.force, dry_run=dry_run) for each in known.values()
    ]


async def _logs(agent: Agent, workspace: Path, limits: Limits, *, dry_run: bool) -> list[JsonObject]:
    """As ``Agent.prune_sessions`` does it in a store: the one used longest ago goes first."""
    now_ms = SystemClock().now_ms()
    known = list(reversed(await known_sessions(workspace, None, now_ms)))
    sizes = {each.id: _bytes(each) for each in known}
    sessions, stored_bytes = len(known), sum(sizes.values())
    rows = []
    for each in known:
        limit = limits.passed(
            SessionEntry(each.id, None, each.last_ms, "", sizes[each.id]), now_ms, sessions, stored_bytes
        )
        if limit is None:
            break
        row = await _delete(agent, workspace, None, each, force=False, dry_run=dry_run)
        if row["deleted"]:
            sessions, stored_bytes = sessions - 1, stored_bytes - sizes[each.id]
        rows.append({**row, "limit": limit, "stored_bytes": sizes[each.id]})
    return rows


def _bytes(known: Known) -> int:
    return os.stat(known.log.path).st_size if known.log is not None else 0


async def _delete(
    agent: Agent, workspace: Path, store: CommandStore | None, known: Known, *, force: bool, dry_run: bool
) -> JsonObject:
    """One session, wherever it is: its log is here, or where it was saved from."""
    status = known.status
    reason = _STAYS.get(status)
    detail = f"held by {known.held_by}" if status == "running" else status
    if reason is None or (force and reason != "held"):
        try:
            here = workspace if known.log is not None else None
            if not dry_run:
                await agent.delete_session_async(known.id, workspace=here, session_store=store, force=force)
            reason = None
        except CodeError as error:
            reason, detail = "held" if error.code == "SESSION_BUSY" else "failed", str(error)
    return {
        "session_id": known.id,
        "tenant_id": known.tenant_id,
        "saved_ms": known.last_ms,
        "stored_bytes": None,
        "limit": None,
        "deleted": reason is None,
        "reason": reason,
        "detail": None if reason is None else detail,
    }


def _agreed(rows: Sequence[JsonObject]) -> bool:
    going = [row for row in rows if row["deleted"]]
    if not at_a_terminal():
        message = f"this deletes {count(len(going), 'session')}: add --yes, or look first with --dry-run"
        raise CodeError(message, "INVALID_REQUEST")
    now = SystemClock().now_ms()
    for row in going:
        notice(f"  {row['session_id']} (last used {ago(now, number_of(row['saved_ms']))})")
    print(f"delete {count(len(going), 'session')} for good? [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _print(rows: Sequence[JsonObject], *, dry_run: bool) -> None:
    done = "would be deleted" if dry_run else "deleted"
    for row in rows:
        why = f" ({_OPTION[str(row['limit'])]})" if row["limit"] else ""
        print(f"{row['session_id']}: {done}{why}" if row["deleted"] else f"{row['session_id']}: kept, {row['detail']}")
    if not rows:
        notice("nothing is to be deleted")
