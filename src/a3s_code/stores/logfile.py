"""Logs without a session (``a3s-code log``, fork). In: a file. Out: its lines, a report, a mended file or a copy.

One rule: nothing is ever lost: a file that is mended is kept beside it, in whole, and a copy keeps every line's bytes.
Known weakness: ``verify_log`` stops listing problems at a hundred.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from typing import Final

import msgspec

from a3s_code.core.codec import DamagedLine, Header, Line, decode_header, decode_line, encode_header, thread_name
from a3s_code.errors import StoreError
from a3s_code.ports.log import Position
from a3s_code.stores.appender import failed
from a3s_code.stores.disk import Disk, disk, sync_directory, write_all
from a3s_code.stores.lock import leave, open_locked
from a3s_code.stores.scan import START, Scan, next_free, raw_lines, refuse_break

_MOST_PROBLEMS: Final = 100
_HASHED_NAME: Final = re.compile(r"s-[0-9a-f]{64}")


class Problem(msgspec.Struct, frozen=True):
    """``line`` counts from 1, the header."""

    line: int
    what: str


class Report(msgspec.Struct):
    """What a log holds. ``facts`` and ``sum`` are those before the first problem, ``later`` the whole facts after it.
    ``torn`` is the size of an unfinished write at the end, which is no problem. After a repair, ``kept_as`` is the
    file with everything that was there."""

    path: str
    facts: int = 0
    sum: str = ""
    later: int = 0
    torn: int = 0
    problems: list[Problem] = []
    kept_as: str | None = None

    @property
    def ok(self) -> bool:
        return not self.problems


def read_log(path: str) -> Iterator[Line]:
    """The facts of a log, streamed, a torn tail left out. ``StoreError`` names the line that is damaged."""
    with _opened(path) as (where, fd):
        yield from Scan(where, fd, path)


def read_header(path: str) -> Header:
    """Line 1 of a log; ``StoreError`` when there is none."""
    with _opened(path) as (where, fd):
        scan = Scan(where, fd, path)
        scan.read_header()
    if scan.header is None:
        raise StoreError(f"{path} has no header")
    return scan.header


@contextlib.contextmanager
def _opened(path: str) -> Iterator[tuple[Disk, int]]:
    where = disk()
    try:
        fd = where.open(path, os.O_RDONLY)
    except OSError as error:
        raise failed(path, "could not be opened", error) from error
    try:
        yield where, fd
    except OSError as error:
        raise failed(path, "could not be read", error) from error
    finally:
        where.close(fd)


def verify_log(path: str) -> Report:
    """Looks at every line, past the first problem too. The file is left as it is."""
    with _opened(path) as (where, fd):
        return _inspect(where, fd, path)


def _inspect(where: Disk, fd: int, path: str) -> Report:
    report = Report(path, problems=[])
    at = START
    number = 0
    cut: Problem | None = None
    torn = 0
    try:
        for _, text, ended in raw_lines(where, fd, 0):
            number += 1
            if cut is not None:
                _note(report, cut)
            cut, torn = None, 0 if ended else len(text)
            if not ended:
                break
            try:
                at = _look(report, number, text, at)
            except DamagedLine as error:
                problem = Problem(number, str(error))
                if error.is_json:
                    _note(report, problem)
                else:
                    cut, torn = problem, len(text) + 1
    except DamagedLine as error:
        _note(report, Problem(number + 1, str(error)))
    report.torn = torn
    return report


def _look(report: Report, number: int, text: bytes, at: Position) -> Position:
    """Counts one line. The chain goes on from what the line says, so that one fault is reported once."""
    if number == 1:
        decode_header(text)
        return at
    line = decode_line(text)
    try:
        refuse_break(line, at)
    except DamagedLine as error:
        _note(report, Problem(number, str(error)))
    if report.ok:
        report.facts, report.sum = line.fact.seq, line.sum
    else:
        report.later += 1
    return Position(line.fact.seq, line.sum)


def _note(report: Report, problem: Problem) -> None:
    if len(report.problems) < _MOST_PROBLEMS:
        report.problems.append(problem)


def repair_log(path: str) -> Report:
    """Cuts a log at its first problem. The file as it was is kept as ``<thread>.damaged-<n>``. ``SessionBusy`` while
    a session writes it; a log without a problem is left as it is, a torn tail included (a session moves that)."""
    where = disk()
    holder = path.removesuffix(".jsonl") + ".lock"
    try:
        fd = open_locked(where, path, os.O_RDWR, holder)
    except OSError as error:
        raise failed(path, "could not be opened", error) from error
    try:
        report = _inspect(where, fd, path)
        if not report.ok:
            _replace(where, fd, report)
        return report
    except OSError as error:
        raise failed(path, "could not be repaired", error) from error
    finally:
        leave(where, fd, holder)
        where.close(fd)


def _replace(where: Disk, fd: int, report: Report) -> None:
    path = report.path
    new = path + ".repaired"
    with contextlib.suppress(FileNotFoundError):
        where.unlink(new)  # left by a repair that was killed
    out = where.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND)
    try:
        _copy_whole(where, fd, out, report)
        where.fdatasync(out)
    finally:
        where.close(out)
    kept_as = next_free(path, "damaged")
    where.link(path, kept_as)  # both names stand for the old file until the next line, so no moment is without a log
    where.rename(new, path)
    report.kept_as = kept_as
    sync_directory(where, os.path.dirname(path))


def _copy_whole(where: Disk, fd: int, out: int, report: Report) -> None:
    wanted = report.facts + 1
    for number, (_, text, _) in enumerate(raw_lines(where, fd, 0), 1):
        if number == 1 and report.problems[0].line == 1:
            text = _made_again(report.path)
        write_all(where, out, text + b"\n")
        if number == wanted:
            return


def _made_again(path: str) -> bytes:
    """A header in place of a damaged one: the name of the file says the session."""
    thread = os.path.basename(path).removesuffix(".jsonl")
    if _HASHED_NAME.fullmatch(thread):
        raise StoreError(f"{path}: the header is damaged, and the name of the file doesn't say the session's id")
    return encode_header(Header(thread, thread, 0)).removesuffix(b"\n")


def copy_log(source: str, target: str, at_seq: int | None, session_id: str, created_ms: int) -> Position:
    """Begins the log of another session with the facts of ``source`` up to ``at_seq`` (all when ``None``), for a
    fork. Sums cover facts only, so the lines are copied as they are. The copy appears in whole or not at all;
    ``StoreError`` when ``target`` exists or ``source`` has no such fact."""
    where = disk()
    part = f"{target}.copy"
    try:
        where.close(where.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL))
    except OSError as error:
        raise failed(target, "could not be made", error) from error
    try:
        position = _copy(where, source, part, at_seq, session_id, created_ms)
        where.rename(part, target)
        sync_directory(where, os.path.dirname(target))
    except BaseException as error:
        for path in (part, target):
            with contextlib.suppress(OSError):
                where.unlink(path)
        if isinstance(error, OSError):
            raise failed(target, "could not be written", error) from error
        raise
    return position


def _copy(where: Disk, source: str, part: str, at_seq: int | None, session_id: str, created_ms: int) -> Position:
    old = read_header(source)
    header = encode_header(Header(thread_name(session_id), session_id, created_ms, old.logic, old.more))
    position = Position(0, "", len(header))
    out = where.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND)
    try:
        write_all(where, out, header)
        lines = read_log(source)
        while position.seq != at_seq and (line := next(lines, None)) is not None:
            write_all(where, out, line.raw + b"\n")
            position = Position(line.fact.seq, line.sum, position.offset + len(line.raw) + 1)
        if at_seq is not None and position.seq != at_seq:
            raise StoreError(f"{source} has no fact {at_seq}: it ends with fact {position.seq}")
        where.fdatasync(out)
    finally:
        where.close(out)
    return position
