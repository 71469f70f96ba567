"""What every session store does (durability.md), over any ``Backend``. In: the calls of ports.store. Out: transactions.

One rule: the epoch is checked in the transaction that writes, and all checks come before the first write.
Known weakness: a fact that a run's checkpoints stored is read again only as a whole log, never in part.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from a3s_code.core import branches, leasing
from a3s_code.core.content import JsonObject
from a3s_code.core.documents import (
    Checkpoint,
    CheckpointHeader,
    Lease,
    RunAdmission,
    SessionEntry,
    SessionSnapshot,
    WorkflowCheckpoint,
    checked_id,
    column_text,
    decode,
    digest_of,
    encode,
)
from a3s_code.errors import CodeError, RunIdentityConflict, StoreError
from a3s_code.ports.store import Epoch
from a3s_code.stores.holding import HoldingRules
from a3s_code.stores.rulebase import run_lock, session_lock
from a3s_code.stores.transaction import About, Kind, Transaction

_FEW: Final = 64
"""So many facts are read on the loop."""


class RuledStore(HoldingRules):
    """Everything of ``SessionStore`` but ``watch``, ``capabilities`` and ``close``."""

    async def save_snapshot(self, snapshot: SessionSnapshot, epoch: Epoch = None) -> str:
        session_id = checked_id(snapshot.session_id, "session")
        data = await self._backend.off_loop(encode, snapshot)

        async def rule(tx: Transaction) -> str:
            await self._fence(tx, session_id, epoch)
            return await self._save(tx, snapshot, session_id, data)

        return await self._write(rule, session_lock(session_id))

    async def save_snapshot_cas(
        self, snapshot: SessionSnapshot, expected_digest: str | None, epoch: Epoch = None
    ) -> str | None:
        session_id = checked_id(snapshot.session_id, "session")
        data = await self._backend.off_loop(encode, snapshot)

        async def rule(tx: Transaction) -> str | None:
            await self._fence(tx, session_id, epoch)
            stored = await tx.get("session", session_id)
            if (None if stored is None else digest_of(stored)) != expected_digest:
                return None
            return await self._save(tx, snapshot, session_id, data)

        return await self._write(rule, session_lock(session_id))

    async def load_snapshot(self, session_id: str) -> SessionSnapshot | None:
        session_id = checked_id(session_id, "session")
        data = await self._read(lambda tx: tx.get("session", session_id))
        return None if data is None else await self._backend.off_loop(self._decode, SessionSnapshot, data, session_id)

    async def delete_session(self, session_id: str, epoch: Epoch = None) -> bool:
        session_id = checked_id(session_id, "session")

        async def rule(tx: Transaction) -> bool:
            await self._fence(tx, session_id, epoch)
            gone = []
            for header in await tx.of_session("checkpoint", session_id):
                run_id = decode(CheckpointHeader, header, f"a checkpoint of session {session_id!r}").run_id
                gone.append(await tx.delete("checkpoint", run_id, session_id))
            for admission in await tx.of_session("run", session_id):
                run_id = decode(RunAdmission, admission, f"a run of session {session_id!r}").run_id
                gone.append(await tx.delete("run", run_id, session_id))
            gone.append(await tx.delete_facts(session_id))
            gone.append(await tx.delete("inbox", session_id))
            gone.append(await tx.delete("session", session_id))
            if any(gone):
                await tx.emit("session.deleted", session_id, "")
            return any(gone)

        return await self._write(rule, session_lock(session_id))

    async def list_sessions(
        self, tenant_id: str | None = None, after: str | None = None, limit: int = 100
    ) -> list[SessionEntry]:
        if limit < 1:
            raise CodeError("limit must be 1 or more", "INVALID_REQUEST")
        tenant, behind = column_text(tenant_id), column_text(after)
        return await self._read(lambda tx: tx.page(tenant, behind, limit))

    async def append_checkpoint(
        self, run_id: str, header: CheckpointHeader, facts: Sequence[bytes], epoch: Epoch = None
    ) -> int:
        run_id, session_id = checked_id(run_id, "run"), checked_id(header.session_id, "session")
        if header.run_id != run_id:
            raise CodeError(f"the header names run {header.run_id!r}, not {run_id!r}", "RUN_MISMATCH")
        lines = (
            branches.read_lines(facts)
            if len(facts) <= _FEW
            else await self._backend.off_loop(branches.read_lines, facts)
        )
        if lines and (lines[-1].fact.seq, lines[-1].sum) != (header.seq, header.sum):
            raise StoreError("the checkpoint's facts don't end with the header's fact", "SERIALIZATION_ERROR")
        data = encode(header)

        async def rule(tx: Transaction) -> int:
            await self._claim(tx, run_id, session_id, epoch)
            if not lines:
                if header.sum not in await tx.sums_at(session_id, header.seq):
                    return await tx.last_below(session_id, header.seq)
            else:
                first = lines[0].fact.seq
                sums = [""] if first == 1 else await tx.sums_at(session_id, first - 1)
                rows = branches.place(lines, sums)
                if rows is None:
                    return 0 if sums else await tx.last_below(session_id, first)
                await tx.add_facts(session_id, rows)
            await tx.put("checkpoint", run_id, data, About(session_id))
            await tx.emit("checkpoint.appended", session_id, run_id)
            return header.seq

        return await self._write(rule, session_lock(session_id), run_lock(run_id))

    async def load_checkpoint(self, run_id: str) -> Checkpoint | None:
        run_id = checked_id(run_id, "run")

        async def rule(tx: Transaction) -> tuple[CheckpointHeader, list[branches.StoredFact]] | None:
            header = await self._load(tx, CheckpointHeader, run_id)
            if header is None:
                return None
            return header, await tx.facts(checked_id(header.session_id, "session"), header.seq)

        found = await self._read(rule)
        if found is None:
            return None
        header, rows = found
        lines = await self._backend.off_loop(branches.walk, rows, header.seq, header.sum)
        if lines is not None:
            return Checkpoint(header, lines)
        if await self._read(rule) != found:  # deleted, or deleted and made anew, between header and facts
            return await self.load_checkpoint(run_id)
        where = self._where("checkpoint", run_id)
        raise StoreError(f"{where} is damaged: facts before number {header.seq} are missing", "SERIALIZATION_ERROR")

    async def delete_checkpoint(self, run_id: str, epoch: Epoch = None) -> bool:
        run_id = checked_id(run_id, "run")

        async def rule(tx: Transaction, session_id: str) -> bool:
            await self._fence(tx, session_id, epoch)
            gone = await tx.delete("checkpoint", run_id, session_id)
            await tx.emit("checkpoint.deleted", session_id, run_id)
            return gone

        return await self._of_run(CheckpointHeader, run_id, rule)

    async def list_checkpoints(self, session_id: str | None = None) -> list[CheckpointHeader]:
        of = None if session_id is None else checked_id(session_id, "session")
        found = await self._read(lambda tx: tx.of_session("checkpoint", of))
        headers = [decode(CheckpointHeader, data, "a checkpoint") for data in found]
        return sorted(headers, key=lambda header: header.run_id)

    async def admit_run(
        self, run_id: str, session_id: str, input_digest: str, epoch: Epoch = None
    ) -> RunAdmission | None:
        run_id, session_id = checked_id(run_id, "run"), checked_id(session_id, "session")

        async def rule(tx: Transaction) -> RunAdmission | None:
            known = await self._load(tx, RunAdmission, run_id)
            if known is not None:
                return known
            await self._fence(tx, session_id, epoch)
            admission = RunAdmission(run_id=run_id, session_id=session_id, input_digest=input_digest)
            await tx.put("run", run_id, encode(admission), About(session_id))
            await tx.emit("run.admitted", session_id, run_id)
            return None

        return await self._write(rule, session_lock(session_id), run_lock(run_id))

    async def settle_run(self, run_id: str, record: JsonObject, epoch: Epoch = None) -> bool:
        run_id = checked_id(run_id, "run")

        async def rule(tx: Transaction, session_id: str) -> bool:
            await self._fence(tx, session_id, epoch)
            known = await self._load(tx, RunAdmission, run_id)
            assert known is not None, "the caller found it under this lock"
            data = encode(msgspec.structs.replace(known, record=record))
            await tx.put("run", run_id, data, About(session_id))
            await tx.emit("run.settled", session_id, run_id)
            return True

        return await self._of_run(RunAdmission, run_id, rule)

    async def load_run(self, run_id: str) -> RunAdmission | None:
        run_id = checked_id(run_id, "run")
        return await self._read(lambda tx: self._load(tx, RunAdmission, run_id))

    async def save_workflow(self, cp: WorkflowCheckpoint, epoch: Epoch = None) -> None:
        workflow_id = checked_id(cp.workflow_id, "workflow")
        data = await self._backend.off_loop(encode, cp)
        lease = leasing.workflow_lease(workflow_id)

        async def rule(tx: Transaction) -> None:
            await self._fence(tx, lease, epoch)
            await tx.put("workflow", workflow_id, data, About())
            await tx.emit("workflow.saved", "", workflow_id)

        await self._write(rule, session_lock(lease))

    async def load_workflow(self, workflow_id: str) -> WorkflowCheckpoint | None:
        workflow_id = checked_id(workflow_id, "workflow")
        return await self._read(lambda tx: self._load(tx, WorkflowCheckpoint, workflow_id))

    async def delete_workflow(self, workflow_id: str, epoch: Epoch = None) -> bool:
        workflow_id = checked_id(workflow_id, "workflow")
        lease = leasing.workflow_lease(workflow_id)

        async def rule(tx: Transaction) -> bool:
            await self._fence(tx, lease, epoch)
            gone = await tx.delete("workflow", workflow_id)
            if gone:
                await tx.emit("workflow.deleted", "", workflow_id)
            return gone

        return await self._write(rule, session_lock(lease))

    async def _save(self, tx: Transaction, snapshot: SessionSnapshot, session_id: str, data: bytes) -> str:
        await tx.put(
            "session",
            session_id,
            data,
            About(session_id, column_text(snapshot.labels.get("tenant_id")), snapshot.saved_ms),
        )
        await tx.emit("session.saved", session_id, "")
        return digest_of(data)

    async def _claim(self, tx: Transaction, run_id: str, session_id: str, epoch: Epoch) -> None:
        """``_fence``, and ``RunIdentityConflict`` when the run's checkpoint or admission is another session's; with one
        read."""
        names: list[tuple[Kind, str]] = [("checkpoint", run_id), ("run", run_id)]
        found = await tx.get_all(names if epoch is None else [*names, ("lease", session_id)])
        if epoch is not None:
            stored = found.pop(("lease", session_id), None)
            lease = None if stored is None else self._decode(Lease, stored, session_id)
            leasing.fence(lease, session_id, epoch)
        held = {
            self._decode(CheckpointHeader, data, run_id).session_id
            if kind == "checkpoint"
            else self._decode(RunAdmission, data, run_id).session_id
            for (kind, _), data in found.items()
        }
        if held - {session_id}:
            raise RunIdentityConflict(f"run id {run_id!r} belongs to another session")
