"""The open end of a log. In: whole lines. Out: the same lines in the file, and durable once ``sync`` returns.

One rule: the file ends at ``position``, and what a sync acknowledged is on the disk. After a failed write the file is
cut back. After a failed sync nothing that it covered is believed: the file is opened anew, cut to what was durable,
and the rest, kept in memory until then, is written again.
Known weakness: what an earlier writer left unsynced is not kept; the first sync covers it as far as it goes.
"""

from __future__ import annotations

import asyncio
import os
from functools import partial
from typing import Any

from a3s_code.errors import StoreError
from a3s_code.ports.log import Position
from a3s_code.stores.disk import Disk, write_all
from a3s_code.stores.lock import leave
from a3s_code.stores.scan import fits
from a3s_code.stores.syncer import Syncer


class Appender:
    """Owns the locked descriptor ``fd`` of ``path`` until ``close``. ``new_entries`` are directories to sync with
    the first facts; without ``durable`` nothing is ever synced."""

    def __init__(
        self,
        disk: Disk,
        syncer: Syncer,
        path: str,
        fd: int,
        position: Position,
        new_entries: list[str],
        *,
        durable: bool,
    ) -> None:
        self.position = position
        self._disk = disk
        self._syncer = syncer
        self._path = path
        self._fd = fd
        self._lock = fd  # stays open after a failed sync, when _fd becomes another one
        self._keeps = durable
        self._durable = position  # what a successful sync covered, and the lines after it
        self._pending: list[tuple[Position, bytes]] = []
        self._unsynced = durable
        self._new_entries = new_entries
        self._ragged = False  # the file may go on after position
        self._unsure = False  # a sync failed: nothing after _durable is believed
        self._syncs_failed = 0

    def append(self, data: bytes, position: Position) -> None:
        """Writes ``data``, which takes the log to ``position``."""
        self.mend()
        try:
            status = self._disk.stat(self._fd)
            if status.st_size != self.position.offset or status.st_nlink == 0:
                raise StoreError(f"{self._path} was changed or removed by something that does not hold its lock")
            self._ragged = True
            write_all(self._disk, self._fd, data)
        except OSError as error:
            self._cut()
            raise failed(self._path, "could not be written", error) from error
        self._ragged = False
        self.position = position
        if self._keeps:
            self._pending.append((position, data))
            self._unsynced = True

    def _cut(self) -> None:
        """Takes back what a failed write left; if that fails too, the next use tries again."""
        if not self._ragged:
            return
        try:
            self._disk.truncate(self._fd, self.position.offset)
        except OSError:
            return
        self._ragged = False

    def mend(self) -> None:
        """Has the file end at ``position`` again after a failure; else does nothing."""
        if not (self._unsure or self._ragged):
            return
        try:
            if self._unsure:
                self._write_again()
            else:
                self._disk.truncate(self._fd, self.position.offset)
        except OSError as error:
            raise failed(self._path, "could not be mended", error) from error
        self._ragged = self._unsure = False

    def _write_again(self) -> None:
        """After a failed sync the old pages may count as clean without being on the disk, so the lines after the
        durable part are written once more, through a new descriptor."""
        old = self._fd
        fd = self._disk.open(self._path, os.O_RDWR | os.O_APPEND)
        try:
            mine, there = self._disk.stat(old), self._disk.stat(fd)
            if (mine.st_ino, mine.st_dev) != (there.st_ino, there.st_dev) or not fits(self._disk, fd, self._durable):
                raise StoreError(f"{self._path} no longer holds fact {self._durable.seq}: open the session again")
            self._disk.truncate(fd, self._durable.offset)
            if self._pending:
                write_all(self._disk, fd, b"".join(data for _, data in self._pending))
        except BaseException:
            self._disk.close(fd)
            raise
        if old != self._lock:
            self._syncer.close(self._disk, old)
        self._fd = fd
        self._unsynced = True

    async def sync(self) -> None:
        """Returns once everything appended before is on the disk."""
        if not self._unsynced:
            return
        self.mend()
        failed_before = self._syncs_failed
        try:
            done = self._submit()
        except OSError as error:
            raise failed(self._path, "could not be synced", error) from error
        done.add_done_callback(partial(self._settle, failed_before, self.position))
        try:
            await asyncio.shield(done)  # a waiter that is cancelled must not hide a failure from the others
        except OSError as error:
            raise failed(self._path, "could not be synced", error) from error
        if failed_before != self._syncs_failed:
            raise StoreError(f"{self._path} could not be synced: an earlier sync failed")

    def _submit(self) -> asyncio.Future[Any]:
        if not self._new_entries:
            return self._syncer.submit(self._disk, self._fd)
        directories = [self._disk.open(path, os.O_RDONLY | os.O_DIRECTORY) for path in self._new_entries]
        futures = [self._syncer.submit(self._disk, fd) for fd in (self._fd, *directories)]
        for fd in directories:
            self._syncer.close(self._disk, fd)
        return asyncio.gather(*futures)

    def _settle(self, failed_before: int, mark: Position, done: asyncio.Future[Any]) -> None:
        """Runs when a sync is over, whether or not somebody still waits for it."""
        if done.cancelled():
            return
        if done.exception() is not None:
            self._syncs_failed += 1
            self._unsure = self._unsynced = True
        elif failed_before == self._syncs_failed:
            self._durable = mark
            self._pending = [item for item in self._pending if item[0].seq > mark.seq]
            self._unsynced = self.position.seq > mark.seq
            self._new_entries = []

    def close(self, holder: str) -> None:
        """Gives up the lock and the descriptors; a sync on its way is finished first."""
        leave(self._disk, self._lock, holder)
        for fd in {self._fd, self._lock}:
            self._syncer.close(self._disk, fd)

    def forget(self) -> None:
        """In a forked child: closes the descriptors, without giving up the parent's lock."""
        for fd in {self._fd, self._lock}:
            os.close(fd)


def failed(path: str, what: str, error: OSError) -> StoreError:
    return StoreError(f"{path} {what}: {error.strerror or error}")
