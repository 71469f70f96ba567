"""A session store of files (durability.md). In: documents. Out: the same documents, from a directory.

One rule: every write holds the lock files of the session and run it is about, in this process or any other, so that
what it checked still holds when it writes.
Known weakness: a shared file system must have ``flock`` across its clients (NFS 4, Lustre and Ceph do). On a file
system that ignores case see ``names``.
"""

from __future__ import annotations

import os
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, Final, TypeVar

from a3s_code.errors import CodeError, StoreError
from a3s_code.ports.store import StoreCapabilities, StoreEvent
from a3s_code.stores.disk import disk
from a3s_code.stores.file.cipher import Cipher, Plain, cipher_for
from a3s_code.stores.file.facts import FactFiles
from a3s_code.stores.file.names import Layout
from a3s_code.stores.file.transaction import FileTransaction
from a3s_code.stores.rules import RuledStore
from a3s_code.stores.threads import Threads
from a3s_code.stores.transaction import Kind, Rule, run_through

T = TypeVar("T")
_THREADS: Final = 16
"""Each may wait for a lock that another process has, and the others must go on."""

_AT_WORK: Final = 2
"""So many of those that have their locks work at a time: more win nothing, and keep the event loop from its turn at the
interpreter lock."""


class FileSessionStore(RuledStore):
    """One machine, or several on a shared file system. ``encryption_key`` is 32 random bytes, or 64 hexadecimal digits:
    everything but names, sizes and times is then AES-256-GCM (needs ``a3s-code-py[encryption]``). Nothing is opened or
    made before the first call. Has no ``watch``."""

    def __init__(self, directory: str | os.PathLike[str], encryption_key: bytes | str | None = None) -> None:
        self._directory = os.path.abspath(directory)
        self._cipher = cipher_for(encryption_key)
        self._files = _Files(self._directory, self._cipher)
        super().__init__(self._files)

    def watch(self, after: str | None = None) -> AsyncIterator[StoreEvent]:
        raise CodeError("a FileSessionStore can't be watched: see its capabilities()", "INVALID_REQUEST")

    def capabilities(self) -> StoreCapabilities:
        return StoreCapabilities(
            atomic_snapshots=True,
            cas=True,
            append_only_log=True,
            lease_fencing=True,
            encrypted_at_rest=self._cipher.encrypted,
            watch=False,
            control_inbox=True,
            shared_across_nodes=True,
        )

    async def schema_version(self) -> int | None:
        """Of the directories that are there, ``None`` before there are any; makes nothing."""
        return await self._files.off_loop(self._files.version)

    async def close(self) -> None:
        await self._files.threads.close()

    def __repr__(self) -> str:
        return f"FileSessionStore({self._directory!r}{', encryption_key=…' if self._cipher.encrypted else ''})"


class _Files:
    def __init__(self, directory: str, cipher: Plain | Cipher) -> None:
        self.threads = Threads(_THREADS, "a3s-code-files")
        self._turns = threading.Semaphore(_AT_WORK)
        self._directory = directory
        self._layout = Layout(directory)
        self._cipher = cipher
        self._facts = FactFiles(cipher)
        self._settled: set[str] = set()

    async def transact(self, locks: Sequence[str], rule: Rule[T], *, if_free: bool = False) -> T:
        return await self.threads.run(self._blocking, locks, rule, if_free)

    def place(self, kind: Kind, key: str) -> str:
        return self._layout.document(kind, key)

    async def off_loop(self, work: Callable[..., T], *args: Any) -> T:
        return await self.threads.run(self._in_turn, work, *args)

    def _in_turn(self, work: Callable[..., T], *args: Any) -> T:
        with self._turns:
            return work(*args)

    def version(self) -> int | None:
        return None if disk().look(self._layout.root) is None else 1

    def _blocking(self, locks: Sequence[str], rule: Rule[T], if_free: bool) -> T:
        transaction = FileTransaction(disk(), self._layout, self._cipher, self._facts, self._settled)
        try:
            with transaction.holding(locks, if_free=if_free), self._turns:
                return run_through(rule(transaction))
        except OSError as error:
            where = error.filename or self._directory
            raise StoreError(f"{where}: the session store can't use it: {error.strerror or error}") from error
