"""Sessions by their logs. In: a workspace, or an id. Out: what each log says of its session and its runs.

One rule: nothing is written and no lock is taken; a log that can't be read is listed with what is wrong.
Known weakness: every log is read whole.
"""

from __future__ import annotations

import contextlib
import difflib
import os
from pathlib import Path
from typing import Final

import msgspec

from a3s_code.core.content import JsonObject
from a3s_code.core.fold import fold
from a3s_code.core.state import View
from a3s_code.engine.parts import Limits
from a3s_code.engine.runs import RunBook
from a3s_code.errors import CodeError
from a3s_code.stores.factlog import DIRECTORY, log_path
from a3s_code.stores.logfile import read_header, read_log

SHORTEST_PREFIX: Final = 3
"""How many first letters of an id name its session."""
_EVERYTHING: Final = Limits(None, None, None, None)


class Found(msgspec.Struct):
    """One session. ``last_ms`` is when its last fact was written; ``fault`` says what is wrong with its log;
    ``holder`` is the process that has it open for writing."""

    id: str
    path: str
    facts: int = 0
    last_ms: int = 0
    runs: list[JsonObject] = []
    fault: str | None = None
    holder: int | None = None

    @property
    def prompt(self) -> str:
        return next((str(run["prompt"]) for run in self.runs if run["prompt"]), "")

    @property
    def status(self) -> str:
        if self.fault is not None:
            return "damaged"
        status = str(self.runs[-1]["status"]) if self.runs else "empty"
        if status == "parked":
            return "running" if self.holder is not None else "left open"
        return status


def sessions_in(workspace: Path) -> list[Found]:
    """The last one that was used comes first."""
    return sorted((read_session(path) for path in logs_in(workspace)), key=lambda found: (-found.last_ms, found.id))


def logs_in(workspace: Path) -> list[str]:
    return [str(path) for path in sorted((workspace / ".a3s" / DIRECTORY).glob("*.jsonl"))]


def read_session(path: str) -> Found:
    found = Found(Path(path).stem, path, runs=[], holder=holder_of(path))
    book = RunBook(found.id, _EVERYTHING)
    view = View()
    try:
        found.id = read_header(path).session_id
        book = RunBook(found.id, _EVERYTHING)
        for line in read_log(path):
            view = fold(view, line.fact)
            book.observe(line.fact, view)
            found.facts, found.last_ms = line.fact.seq, line.fact.ts
    except CodeError as error:
        found.fault = str(error)
    found.runs = [record.snapshot() for record in book.all()]
    return found


def read_view(path: str) -> View | None:
    """What the log comes to; ``None`` for one that can't be read."""
    view = View()
    try:
        for line in read_log(path):
            view = fold(view, line.fact)
    except CodeError:
        return None
    return view


def holder_of(path: str) -> int | None:
    """The process that writes the log, by the file beside it, if it lives on this machine."""
    with contextlib.suppress(OSError, msgspec.DecodeError, KeyError, TypeError):
        said = msgspec.json.decode(Path(path.removesuffix(".jsonl") + ".lock").read_bytes())
        if said["host"] == os.uname().nodename:
            os.kill(said["pid"], 0)
            return int(said["pid"])
    return None


def find_session(workspace: Path, given: str) -> str:
    """The id that ``given`` is, or that begins with it; ``INVALID_REQUEST`` unless there is exactly one."""
    if os.path.exists(log_path(str(workspace), given)):
        return given
    known = [id_of(path) for path in logs_in(workspace)]
    begin = [name for name in known if len(given) >= SHORTEST_PREFIX and name.startswith(given)]
    if len(begin) == 1:
        return begin[0]
    if begin:
        raise CodeError(f"{given!r} begins several sessions: {', '.join(begin)}", "INVALID_REQUEST")
    near = difflib.get_close_matches(given, known, 1)
    hint = f"did you mean {near[0]}?" if near else "`a3s-code sessions` lists what is there"
    raise CodeError(f"there is no session {given!r} in {workspace}; {hint}", "INVALID_REQUEST")


def id_of(path: str) -> str:
    try:
        return read_header(path).session_id
    except CodeError:
        return Path(path).stem


def find_log(workspace: Path, given: str) -> str:
    """The log file that ``given`` names, or that of the session it names."""
    if os.path.isfile(given):
        return given
    if given.endswith(".jsonl") or os.sep in given:
        raise CodeError(f"there is no log {given}", "INVALID_REQUEST")
    return log_path(str(workspace), find_session(workspace, given))
