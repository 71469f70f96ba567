"""One session's log on disk (facts.md). In: facts. Out: durable lines, and the facts again.

One rule: the file holds whole facts of one writer at a time, and nothing is made or opened before it is needed.
Known weakness: ``read`` and ``acquire`` block; call them in a worker thread when a log may be long.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterator, Sequence
from typing import Final, Literal

from a3s_code.core.codec import (
    LOGIC,
    DamagedLine,
    Header,
    decode_line,
    encode,
    encode_header,
    same_session,
    thread_name,
)
from a3s_code.core.facts import Fact
from a3s_code.errors import CodeError, StoreError
from a3s_code.ports.log import Position
from a3s_code.stores.appender import Appender, failed
from a3s_code.stores.disk import disk, make_private_directory, write_all, write_new
from a3s_code.stores.lock import leave, open_locked
from a3s_code.stores.replacing import replace_log
from a3s_code.stores.scan import MAX_LINE, START, Scan, fits, next_free
from a3s_code.stores.syncer import Syncer
from a3s_code.stores.viewfile import read_view, write_view

DIRECTORY: Final = "effect-log"


def log_path(workspace_root: str, session_id: str) -> str:
    """Where the log of a session is, or would be."""
    return os.path.join(workspace_root, ".a3s", DIRECTORY, thread_name(session_id) + ".jsonl")


class FileFactLog:
    """Implements ``ports.log.MovableLog``. ``created_ms`` goes into the header of a log that is begun. Used by one
    event loop."""

    def __init__(
        self,
        workspace_root: str,
        session_id: str,
        *,
        created_ms: int,
        syncer: Syncer,
        durability: Literal["fsync", "os"] = "fsync",
    ) -> None:
        self.path = log_path(workspace_root, session_id)
        self._session_id = session_id
        self._created_ms = created_ms
        self._syncer = syncer
        self._durable = durability == "fsync"
        self._disk = disk()
        self._logic = LOGIC
        self._position = START
        self._new_entries: list[str] = []
        self._end: Appender | None = None

    @property
    def position(self) -> Position:
        return self._position if self._end is None else self._end.position

    @property
    def logic(self) -> int:
        return self._logic

    def exists(self) -> bool:
        found = self._disk.look(self.path)
        return found is not None and found.st_size > 0

    # -- reading ------------------------------------------------------------------------------------------------

    def read(self, after: Position | None = None) -> Iterator[Fact]:
        after = after or START
        start = after if after.offset else START
        if self._end is None:
            self._position = START
        if not self.exists():
            if after.seq:
                raise self._gone(after)
            return
        fd = self._open()
        try:
            self._check_header(fd)
            if not fits(self._disk, fd, start):
                raise self._gone(after)
            scan = Scan(self._disk, fd, self.path, start)
            for line in scan:
                self._follow(scan)
                if line.fact.seq > after.seq:
                    yield line.fact
                elif line.fact.seq == after.seq and line.sum != after.sum:
                    raise self._gone(after)
            self._follow(scan)
            if scan.position.seq < after.seq:
                raise self._gone(after)
        except OSError as error:
            raise failed(self.path, "could not be read", error) from error
        finally:
            self._disk.close(fd)

    def holds(self, position: Position) -> bool:
        if position.seq == 0:
            return True
        if not self.exists():
            return False
        fd = self._open()
        try:
            if position.offset:
                return fits(self._disk, fd, position)
            lines = Scan(self._disk, fd, self.path)
            return any(line.fact.seq == position.seq and line.sum == position.sum for line in lines)
        except OSError as error:
            raise failed(self.path, "could not be read", error) from error
        finally:
            self._disk.close(fd)

    def header(self) -> Header | None:
        if not self.exists():
            return None
        fd = self._open()
        try:
            self._check_header(fd)
            scan = Scan(self._disk, fd, self.path)
            scan.read_header()
            return scan.header
        finally:
            self._disk.close(fd)

    def lines(self, after: Position, upto: int) -> list[bytes]:
        fd = self._open()
        try:
            found: list[bytes] = []
            for line in Scan(self._disk, fd, self.path, after if after.offset else START):
                if line.fact.seq > upto:
                    break
                if line.fact.seq > after.seq:
                    found.append(line.raw)
            return found
        except OSError as error:
            raise failed(self.path, "could not be read", error) from error
        finally:
            self._disk.close(fd)

    def replace(self, header: Header, lines: Sequence[bytes]) -> None:
        self.release()
        replace_log(self.path, header, lines)
        self._position = START

    def _open(self) -> int:
        try:
            return self._disk.open(self.path, os.O_RDONLY)
        except OSError as error:
            raise failed(self.path, "could not be opened", error) from error

    def _follow(self, scan: Scan) -> None:
        if self._end is None:
            self._position = scan.position

    def _check_header(self, fd: int) -> None:
        scan = Scan(self._disk, fd, self.path)
        scan.read_header()
        if scan.header is None:
            return
        if not same_session(scan.header, self._session_id):
            raise CodeError(f"{self.path} is the log of session {scan.header.session_id!r}", "SESSION_MISMATCH")
        self._logic = scan.header.logic

    def _gone(self, position: Position) -> StoreError:
        return StoreError(f"{self.path} does not hold fact {position.seq} as this session read it: open it again")

    # -- the lock -----------------------------------------------------------------------------------------------

    def acquire(self) -> list[Fact]:
        if self._end is not None:
            self._end.mend()
            return []
        fd = None
        try:
            flags = os.O_RDWR | os.O_APPEND
            if self._position.offset == 0:
                make_private_directory(self._disk, os.path.dirname(self.path), self._new_entries)
                flags |= os.O_CREAT
            elif not self.exists():
                raise self._gone(self._position)
            fd = open_locked(self._disk, self.path, flags, self._holder)
            facts = self._catch_up(fd)
        except BaseException as error:
            if fd is not None:
                leave(self._disk, fd, self._holder)
                self._disk.close(fd)
            if isinstance(error, OSError):
                raise failed(self.path, "could not be opened for writing", error) from error
            raise
        # The file's own entry is synced even if it was there before: who made it may have died before its sync.
        entries = [*self._new_entries, os.path.dirname(self.path)]
        self._new_entries = []
        self._end = Appender(self._disk, self._syncer, self.path, fd, self._position, entries, durable=self._durable)
        _acquired.add(self)
        return facts

    @property
    def _holder(self) -> str:
        return self.path.removesuffix(".jsonl") + ".lock"

    def _catch_up(self, fd: int) -> list[Fact]:
        """What was added since ``position``; afterwards the file ends there."""
        if self._position.offset == 0 and self._disk.stat(fd).st_size == 0:
            self._position = self._begin(fd)
            return []
        self._check_header(fd)
        if not fits(self._disk, fd, self._position):
            raise self._gone(self._position)
        scan = Scan(self._disk, fd, self.path, self._position)
        facts = [line.fact for line in scan]
        if scan.torn:
            self._set_aside(fd, scan.position.offset)
        self._position = scan.position if scan.position.offset else self._begin(fd)
        return facts

    def _begin(self, fd: int) -> Position:
        """Writes the header into an empty file."""
        header = encode_header(Header(thread_name(self._session_id), self._session_id, self._created_ms))
        try:
            write_all(self._disk, fd, header)
        except OSError:
            self._disk.truncate(fd, 0)
            raise
        return Position(0, "", len(header))

    def _set_aside(self, fd: int, end: int) -> None:
        """Moves what an unfinished write left after ``end`` to a file beside the log."""
        tail = self._disk.read(fd, self._disk.stat(fd).st_size - end, end)
        write_new(self._disk, next_free(self.path, "torn"), tail, sync=True)
        self._disk.truncate(fd, end)

    def read_shortcut(self) -> bytes | None:
        return read_view(self._view_path)

    def write_shortcut(self, data: bytes) -> None:
        write_view(self._view_path, data)

    @property
    def _view_path(self) -> str:
        return self.path.removesuffix(".jsonl") + ".view"

    def release(self) -> None:
        if self._end is None:
            return
        end, self._position, self._end = self._end, self._end.position, None
        _acquired.discard(self)
        end.close(self._holder)

    # -- writing ------------------------------------------------------------------------------------------------

    def append(self, facts: Sequence[Fact]) -> list[Fact]:
        if self._end is None:
            raise CodeError("the log was not acquired", "INTERNAL_ERROR")
        position = self._end.position
        stored: list[Fact] = []
        lines: list[bytes] = []
        for fact in facts:
            if fact.seq != position.seq + 1:
                raise CodeError(f"fact {fact.seq} can't follow fact {position.seq}", "INTERNAL_ERROR")
            raw, digest = encode(fact, position.sum)
            stored.append(_as_read(fact, raw))
            lines.append(raw)
            position = Position(fact.seq, digest, position.offset + len(raw))
        if lines:
            self._end.append(b"".join(lines), position)
        return stored

    async def sync(self) -> None:
        if self._end is not None:
            await self._end.sync()

    def _forget(self) -> None:
        if self._end is not None:
            self._position, end, self._end = self._end.position, self._end, None
            end.forget()


def _as_read(fact: Fact, raw: bytes) -> Fact:
    """The fact as a reader will see it. What can't be read again must never be written: it would make the session
    unusable for good."""
    if len(raw) > MAX_LINE:
        raise StoreError(f"fact {fact.seq} ({fact.kind}) is too long: {len(raw)} bytes", "SERIALIZATION_ERROR")
    try:
        return decode_line(raw).fact
    except DamagedLine as error:
        raise StoreError(f"fact {fact.seq} ({fact.kind}) can't be stored: {error}", "SERIALIZATION_ERROR") from error


_acquired: weakref.WeakSet[FileFactLog] = weakref.WeakSet()


def _after_fork() -> None:
    """A child must not write as if it had its parent's lock, nor keep that lock alive."""
    for log in list(_acquired):
        log._forget()
    _acquired.clear()


os.register_at_fork(after_in_child=_after_fork)
