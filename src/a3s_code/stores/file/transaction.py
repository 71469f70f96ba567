"""One transaction on files. In: locks and documents. Out: files that are replaced in whole.

One rule: a file is written under another name, synced, renamed, and its directory synced, while the locks of what it
belongs to are held.
Known weakness: several files are not replaced as one: a power cut in ``delete_session`` leaves the rest to be deleted
again.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator, Sequence
from typing import Final

from msgspec.structs import replace

from a3s_code.core.branches import StoredFact
from a3s_code.core.documents import Lease, SessionEntry, decode, entry_of
from a3s_code.errors import StoreError
from a3s_code.stores.disk import Disk, sync_directory, write_all
from a3s_code.stores.file.cipher import Cipher, Plain
from a3s_code.stores.file.facts import FactFiles
from a3s_code.stores.file.names import Layout, key_of
from a3s_code.stores.transaction import About, Kind, Name, OneByOne

_PATIENCE: Final = 30.0
"""Seconds to wait for a lock: a process that was stopped while it wrote has it until it goes on or ends."""

_RENEWED: Final = ".renewed"
"""Ends the name of a lease's renewal, which may be lost and must not take the lease with it."""

_MARKED: Final[tuple[Kind, ...]] = ("checkpoint", "run")
"""What a session has several of: a mark says which."""


class FileTransaction(OneByOne):
    """Blocks: everything here runs in a worker thread."""

    def __init__(self, disk: Disk, layout: Layout, cipher: Plain | Cipher, facts: FactFiles, settled: set[str]) -> None:
        self.locked: frozenset[str] = frozenset()
        self._disk = disk
        self._layout = layout
        self._cipher = cipher
        self._facts = facts
        self._settled = settled
        self._lock_fd = -1

    @contextlib.contextmanager
    def holding(self, locks: Sequence[str], *, if_free: bool) -> Iterator[None]:
        files: dict[str, int] = {}
        try:
            for path in sorted({self._layout.stripe(lock) for lock in locks}):
                fd = self._lock(path, wait=not if_free)
                if fd is not None:
                    files[path] = self._lock_fd = fd
            self.locked = frozenset(lock for lock in locks if self._layout.stripe(lock) in files)
            yield
        finally:
            for fd in files.values():
                self._disk.unlock(fd)
                self._disk.close(fd)

    async def now_ms(self) -> int:
        """By the file system's clock, which all who share it share."""
        os.utime(self._lock_fd)
        return self._disk.stat(self._lock_fd).st_mtime_ns // 1_000_000

    async def get(self, kind: Kind, key: str) -> bytes | None:
        path = self._layout.document(kind, key)
        return (self._renewed(path) if kind == "lease" else None) or self._read(path)

    async def put(self, kind: Kind, key: str, data: bytes, about: About) -> None:
        if kind in _MARKED:
            self._touch(self._layout.mark(kind, key, about.session_id))
        path = self._layout.document(kind, key) + (_RENEWED if about.renewal else "")
        part = path + ".part"
        fd = self._open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        try:
            write_all(self._disk, fd, self._cipher.seal(data, self._place(path)))
            if not about.renewal:
                self._disk.fdatasync(fd)
        finally:
            self._disk.close(fd)
        if kind == "lease" and not about.renewal:
            # killed right after this, it has undone the renewal of one that is dead, or whose time was over
            self._unlink(path + _RENEWED)
        self._disk.rename(part, path)
        if not about.renewal:
            sync_directory(self._disk, os.path.dirname(path))

    async def delete(self, kind: Kind, key: str, session_id: str = "") -> bool:
        path = self._layout.document(kind, key)
        gone = self._unlink(path)
        if gone:
            sync_directory(self._disk, os.path.dirname(path))
        if session_id:
            self._unlink(self._layout.mark(kind, key, session_id))
            with contextlib.suppress(OSError):  # other marks are there, or none ever was
                self._disk.rmdir(self._layout.marks(session_id))
        return gone

    async def of_session(self, kind: Kind, session_id: str | None) -> list[bytes]:
        directory = self._layout.directory(kind)
        if session_id is None:
            names = [name for name in self._names(directory) if name.endswith(".json")]
        else:
            names = self._marked(kind, session_id)
        found = [self._read(os.path.join(directory, name)) for name in sorted(names)]
        return [data for data in found if data is not None]

    async def names(self, kind: Kind) -> list[Name]:
        directory = self._layout.directory(kind)
        names = sorted(name for name in self._names(directory) if name.endswith(".json"))
        return [Name(each, os.path.join(directory, each), key_of(each.removesuffix(".json"))) for each in names]

    async def named(self, kind: Kind, name: str) -> bytes | None:
        return self._read(os.path.join(self._layout.directory(kind), name))

    async def page(self, tenant_id: str | None, after: str | None, limit: int) -> list[SessionEntry]:
        page: list[SessionEntry] = []
        for key, name in sorted(self._sessions()):
            if after is not None and key <= after:
                continue
            entry = self._entry(name)
            if entry is None or entry.session_id != key:
                entry = SessionEntry(key, None, 0, "", 0)
            if tenant_id in (None, entry.tenant_id):
                page.append(replace(entry, stored_bytes=self._size(key)))
                if len(page) == limit:
                    break
        return page

    async def sums_at(self, session_id: str, seq: int) -> list[str]:
        return self._facts.sums(self._disk, self._layout.facts(session_id)).get(seq, [])

    async def last_below(self, session_id: str, seq: int) -> int:
        known = self._facts.sums(self._disk, self._layout.facts(session_id))
        return max((each for each in known if each < seq), default=0)

    async def facts(self, session_id: str, upto: int) -> list[StoredFact]:
        return [row for row in self._facts.read(self._disk, self._layout.facts(session_id)) if row.seq <= upto]

    async def add_facts(self, session_id: str, rows: Sequence[StoredFact]) -> None:
        path = self._layout.facts(session_id)
        self._settle(os.path.dirname(path))
        self._facts.append(self._disk, path, rows)

    async def delete_facts(self, session_id: str) -> bool:
        path = self._layout.facts(session_id)
        self._facts.forget(path)
        gone = self._unlink(path)
        if gone:
            sync_directory(self._disk, os.path.dirname(path))
        return gone

    async def emit(self, kind: str, session_id: str, ref: str) -> None:
        """Nobody can watch files."""

    def _sessions(self) -> Iterator[tuple[str, str]]:
        """Ids and file names. One whose id only a damaged file tells is left out."""
        for file in self._names(self._layout.directory("session")):
            name, _, suffix = file.rpartition(".")
            if suffix == "json":
                key = key_of(name)
                if key is None:
                    entry = self._entry(file)
                    key = entry.session_id if entry else None
                if key is not None:
                    yield key, file

    def _entry(self, name: str) -> SessionEntry | None:
        """``None`` when the file is gone or damaged: whoever loads the session is told so."""
        path = os.path.join(self._layout.directory("session"), name)
        try:
            data = self._read(path)
        except StoreError:
            return None
        return None if data is None else entry_of(data)

    def _size(self, session_id: str) -> int:
        """Of all the session's files but its lease."""
        layout = self._layout
        paths = [layout.document("session", session_id), layout.document("inbox", session_id), layout.facts(session_id)]
        for kind in _MARKED:
            marks = self._marked(kind, session_id)
            paths += [os.path.join(layout.directory(kind), name) for name in marks]
        found = [self._disk.look(path) for path in paths]
        return sum(each.st_size for each in found if each is not None)

    def _marked(self, kind: Kind, session_id: str) -> list[str]:
        """The files of the session's documents of this kind."""
        marks = self._names(self._layout.marks(session_id))
        return [mark.removeprefix(f"{kind}-") + ".json" for mark in marks if mark.startswith(f"{kind}-")]

    def _renewed(self, path: str) -> bytes | None:
        """A lease's last renewal, unless it was given to somebody since. It isn't synced, so a power cut may tear it:
        then it was none."""
        try:
            data = self._read(path + _RENEWED)
            if data is not None:
                decode(Lease, data, path)
        except StoreError:
            return None
        return data

    def _read(self, path: str) -> bytes | None:
        try:
            fd = self._disk.open(path, os.O_RDONLY)
        except (FileNotFoundError, NotADirectoryError):
            return None
        try:
            size, parts, at = self._disk.stat(fd).st_size, [], 0
            while at < size and (part := self._disk.read(fd, size - at, at)):
                parts.append(part)
                at += len(part)
        finally:
            self._disk.close(fd)
        return self._cipher.open(b"".join(parts), self._place(path), path)

    def _lock(self, path: str, *, wait: bool) -> int | None:
        fd = self._open(path, os.O_RDWR | os.O_CREAT)
        pause, waited = 0.001, 0.0
        while not self._disk.lock(fd):
            if not wait or waited > _PATIENCE:
                self._disk.close(fd)
                if wait:
                    raise StoreError(f"{path} has been locked by another process for {_PATIENCE:.0f} seconds")
                return None
            threading.Event().wait(pause)
            waited, pause = waited + pause, min(pause * 2, 0.02)
        return fd

    def _open(self, path: str, flags: int) -> int:
        """Opens or makes a file, in a directory that a power cut leaves."""
        directory = os.path.dirname(path)
        self._settle(directory)
        try:
            return self._disk.open(path, flags)
        except FileNotFoundError:  # somebody removed what this store has made
            self._settled.clear()
            self._settle(directory)
            return self._disk.open(path, flags)

    def _settle(self, directory: str) -> None:
        """Makes a directory unless it is there, and syncs its entry also then: who made it may not have got so far."""
        if directory in self._settled:
            return
        there = self._disk.look(directory) is not None
        if there and not self._layout.owns(directory):
            return
        parent = os.path.dirname(directory)
        self._settle(parent)
        if not there:
            with contextlib.suppress(FileExistsError):  # somebody else made it just now
                self._disk.mkdir(directory, 0o700)
        with contextlib.suppress(PermissionError):  # the store's own directory may stand in one that isn't readable
            sync_directory(self._disk, parent)
        if parent != self._layout.of_session:  # of those there is one a session
            self._settled.add(directory)

    def _touch(self, path: str) -> None:
        if self._disk.look(path) is None:
            self._disk.close(self._open(path, os.O_WRONLY | os.O_CREAT))
            sync_directory(self._disk, os.path.dirname(path))

    def _unlink(self, path: str) -> bool:
        try:
            self._disk.unlink(path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def _names(self, directory: str) -> list[str]:
        try:
            return os.listdir(directory)
        except FileNotFoundError:
            return []

    def _place(self, path: str) -> str:
        """What a sealed file is bound to: its own directory and name."""
        return os.path.relpath(path, self._layout.root)
