"""``a3s-code sessions export``. In: a session's id. Out: one JSON document with all that log and store have of it.

``{"export_version", "session_id", "workspace", "exported_ms", "snapshot", "checkpoints", "log"}``: the stored snapshot,
the headers of checkpoints, and ``{"path", "header", "facts", "damage"}`` of the log, or of the newest checkpoint
(``path`` ``null``) where that is ahead of it. Each fact stands as in the log, byte for byte, on a line of its own.

One rule: a log is copied line by line, so its length doesn't matter; a damaged one is exported up to its damage.
Known weakness: a file that ``-o`` names is replaced without a question.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, Final

import msgspec

from a3s_code.cli.known import Known, find_known
from a3s_code.cli.setup import notice, workspace_of
from a3s_code.cli.stores import Chosen, chosen_store, opened
from a3s_code.cli.words import count
from a3s_code.core.codec import Header
from a3s_code.core.content import JsonObject
from a3s_code.core.documents import Checkpoint
from a3s_code.errors import CodeError, StoreError
from a3s_code.stores.logfile import read_header, read_log
from a3s_code.system.clock import SystemClock

VERSION: Final = 1
_PART: Final = ".part"


class Log(msgspec.Struct):
    path: str | None
    header: JsonObject | None
    lines: Iterable[bytes]


def go(args: argparse.Namespace) -> int:
    workspace = workspace_of(args.workspace)
    chosen = chosen_store(args, workspace, os.environ)
    known, checkpoint = asyncio.run(_gathered(workspace, chosen, args.session))
    with _output(args.output) as out:
        damage = _write(out, workspace, known, _log(known, checkpoint))
    if args.output is not None:
        notice(f"session {known.id}: exported to {args.output} ({count(Path(args.output).stat().st_size, 'byte')})")
    if damage is not None:
        notice(damage)
    return 0 if damage is None else 1


async def _gathered(workspace: Path, chosen: Chosen | None, given: str) -> tuple[Known, Checkpoint | None]:
    async with opened(chosen) as store:
        known = await find_known(workspace, store, given, SystemClock().now_ms())
        if store is None or known.checkpoint is None:
            return known, None
        return known, await store.load_checkpoint(known.checkpoint.run_id)


def _log(known: Known, checkpoint: Checkpoint | None) -> Log | None:
    if checkpoint is not None:
        named = checkpoint.header
        header = Header(named.thread, named.session_id, named.created_ms, named.logic)
        return Log(None, msgspec.to_builtins(header), checkpoint.facts)
    return None if known.log is None else Log(known.log.path, _header(known.log.path), _raw(known.log.path))


def _header(path: str) -> JsonObject | None:
    """``None`` for a damaged one, which reading the facts tells about."""
    try:
        header: JsonObject = msgspec.to_builtins(read_header(path))
    except StoreError:
        return None
    return header


def _raw(path: str) -> Iterator[bytes]:
    for line in read_log(path):
        yield line.raw


def _write(out: BinaryIO, workspace: Path, known: Known, log: Log | None) -> str | None:
    """What is wrong with the log, if anything."""
    head: JsonObject = {
        "export_version": VERSION,
        "session_id": known.id,
        "workspace": str(workspace),
        "exported_ms": SystemClock().now_ms(),
        "snapshot": msgspec.to_builtins(known.snapshot),
        "checkpoints": msgspec.to_builtins(known.checkpoints),
    }
    out.write(msgspec.json.encode(head)[:-1])
    if log is None:
        out.write(b',"log":null}\n')
        return None
    out.write(b',"log":{"path":%b,"header":%b,"facts":[' % (_json(log.path), _json(log.header)))
    damage = _write_lines(out, log.lines)
    out.write(b'\n],"damage":%b}}\n' % _json(damage))
    return damage


def _write_lines(out: BinaryIO, lines: Iterable[bytes]) -> str | None:
    before = b"\n"
    try:
        for raw in lines:
            out.write(before + raw)
            before = b",\n"
    except StoreError as error:
        return str(error)
    return None


def _json(value: object) -> bytes:
    return msgspec.json.encode(value)


@contextlib.contextmanager
def _output(path: str | None) -> Iterator[BinaryIO]:
    """A file appears in whole, or not at all, and only its owner may read it: a conversation holds anything."""
    if path is None:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    part = path + _PART
    try:
        with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as out:
            yield out
        os.replace(part, path)
    except OSError as error:
        raise CodeError(f"-o {path}: {error.strerror}", "INVALID_REQUEST") from error
    finally:
        with contextlib.suppress(OSError):
            os.unlink(part)
