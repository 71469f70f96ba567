"""A session's fact log. In: facts in order. Out: the same facts, on this or another day.

One rule: a log is written by one writer, in whole lines, and never changed.
Known weakness: none known.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

import msgspec

from a3s_code.core.codec import Header
from a3s_code.core.facts import Fact


class Position(msgspec.Struct, frozen=True):
    """How far a log goes: the last fact's ``seq`` and ``sum`` (0 and empty for none). ``offset`` is where its line
    ends in the file; 0 when that isn't known."""

    seq: int = 0
    sum: str = ""
    offset: int = 0


class FactLog(Protocol):
    """Raises ``StoreError`` (``IO_ERROR``, ``SERIALIZATION_ERROR``), ``SessionBusy`` and ``CodeError``
    (``SESSION_MISMATCH``). All but ``append`` and ``sync`` block: call them in a worker thread when files are big."""

    path: str

    def exists(self) -> bool:
        """Whether anything was ever written; costs one look at the directory."""

    def read(self, after: Position | None = None) -> Iterator[Fact]:
        """The facts after ``after`` (all by default), streamed; a torn tail is left out. ``position`` follows unless
        the log is acquired. With an ``offset`` only what comes after it is read; ``StoreError`` unless it fits."""

    def holds(self, position: Position) -> bool:
        """Whether the log has the fact ``position.seq`` with this sum; one look with ``offset``, else a scan."""

    @property
    def position(self) -> Position: ...

    @property
    def logic(self) -> int:
        """The logic number of the log's header, known after ``read`` or ``acquire``; ours before."""

    def acquire(self) -> list[Fact]:
        """Takes the writer's lock (``SessionBusy`` naming the holder), mends a torn tail, and gives the facts that
        another writer added since ``position``. Makes the file and its header when there is none. Idempotent."""

    def append(self, facts: Sequence[Fact]) -> list[Fact]:
        """Writes whole lines with one ``write``; a failure leaves the log at its last whole fact and raises. Not
        synced; does not block for long. Gives the facts as a reader will see them: fold these."""

    async def sync(self) -> None:
        """Returns once everything appended so far is on the disk; shared with whoever waits at that moment."""

    def read_shortcut(self) -> bytes | None:
        """What ``write_shortcut`` kept beside the log; ``None`` when there is nothing readable."""

    def write_shortcut(self, data: bytes) -> None:
        """Keeps bytes that make opening quicker; a failure is no error."""

    def release(self) -> None:
        """Gives up the lock and the descriptor; the log can be acquired again."""


class MovableLog(FactLog, Protocol):
    """A log that can go on in another place (durability.md). All of this blocks."""

    def header(self) -> Header | None:
        """Line 1; ``None`` when there is none yet."""

    def lines(self, after: Position, upto: int) -> list[bytes]:
        """The raw lines, without their ends, of the facts after ``after`` up to number ``upto``."""

    def replace(self, header: Header, lines: Sequence[bytes]) -> None:
        """Begins anew with ``lines``; the old file is kept as ``<thread>.replaced-<n>``. Gives up the lock first:
        ``SessionBusy`` when another writer has it. Read the log again afterwards."""
