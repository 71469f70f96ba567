"""What the rules of session stores are made with. In: ids and documents. Out: transactions over a ``Backend``.

One rule: a document is found by its id, and an epoch is compared with the lease that the same transaction reads.
Known weakness: none known.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable
from functools import partial
from typing import Any, Final, TypeVar

from a3s_code.core import leasing
from a3s_code.core.documents import (
    AnyDocument,
    CheckpointHeader,
    D,
    Inbox,
    Lease,
    RunAdmission,
    SessionSnapshot,
    WorkflowCheckpoint,
    checked_id,
    decode,
)
from a3s_code.errors import StoreError
from a3s_code.ports.store import Epoch
from a3s_code.stores.transaction import Backend, Kind, Rule, Transaction

T = TypeVar("T")
Owned = TypeVar("Owned", CheckpointHeader, RunAdmission)
KINDS: Final[dict[type[Any], Kind]] = {
    SessionSnapshot: "session",
    CheckpointHeader: "checkpoint",
    RunAdmission: "run",
    WorkflowCheckpoint: "workflow",
    Lease: "lease",
    Inbox: "inbox",
}


def key_of(document: AnyDocument) -> str:
    match document:
        case CheckpointHeader() | RunAdmission():
            return document.run_id
        case WorkflowCheckpoint():
            return document.workflow_id
        case _:
            return document.session_id


def session_lock(session_id: str) -> str:
    return f"session:{session_id}"


def run_lock(run_id: str) -> str:
    return f"run:{run_id}"


class RuleBase:
    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    async def _read(self, rule: Rule[T]) -> T:
        return await self._backend.transact((), rule)

    async def _write(self, rule: Rule[T], *locks: str) -> T:
        return await self._backend.transact(locks, rule)

    def _where(self, kind: Kind, key: str) -> str:
        """How a document is named in an error."""
        return f"{self._backend.place(kind, key)} ({kind} {key!r})"

    async def _load(self, tx: Transaction, what: type[D], key: str) -> D | None:
        kind = KINDS[what]
        data = await tx.get(kind, key)
        return None if data is None else self._decode(what, data, key)

    async def _load_all(self, tx: Transaction, what: type[D], keys: Iterable[str]) -> dict[str, D]:
        """Those that are there."""
        found = await tx.get_all([(KINDS[what], key) for key in keys])
        return {key: self._decode(what, data, key) for (_, key), data in found.items()}

    def _decode(self, what: type[D], data: bytes, key: str) -> D:
        """``StoreError`` also for the document of another id, which a file system that ignores case may give."""
        where = self._where(KINDS[what], key)
        document = decode(what, data, where)
        found = key_of(document)
        if checked_id(found, "document") != key:
            raise StoreError(f"{where} is damaged: it is that of {found!r}", "SERIALIZATION_ERROR")
        return document

    async def _fence(self, tx: Transaction, session_id: str, epoch: Epoch) -> None:
        if epoch is not None:
            leasing.fence(await self._load(tx, Lease, session_id), session_id, epoch)

    async def _of_run(
        self,
        what: type[Owned],
        run_id: str,
        rule: Callable[[Transaction, str], Coroutine[Any, Any, bool]],
    ) -> bool:
        """Runs ``rule`` under the locks of a run and of the session that the run's document names; ``False`` when there
        is none. The session is read first, as it has to be locked before."""

        async def read(tx: Transaction) -> str | None:
            found = await self._load(tx, what, run_id)
            return None if found is None else found.session_id

        async def under_locks(tx: Transaction, expected: str) -> tuple[bool, str | None]:
            now = await read(tx)
            return (await rule(tx, expected), None) if now == expected else (False, now)

        session_id = await self._read(read)
        while session_id is not None:
            guarded = partial(under_locks, expected=session_id)
            done, session_id = await self._write(guarded, session_lock(session_id), run_lock(run_id))
            if done:
                return True
        return False
