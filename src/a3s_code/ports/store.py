"""Session stores (durability.md). In: documents and who writes them. Out: the same documents, on any node.

One rule: what a store can't do raises; it never pretends. A reader sees a whole document, the old one or the new, and
whoever writes with an ``epoch`` that is not the session's last one writes nothing and gets ``LeaseLost``.
Known weakness: without an ``epoch`` a write isn't fenced: only a caller who is alone may leave it out.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Protocol, TypeAlias

import msgspec

from a3s_code.core.content import JsonObject
from a3s_code.core.documents import (
    Checkpoint,
    CheckpointHeader,
    ControlReceipt,
    ControlRequest,
    Lease,
    RunAdmission,
    SessionEntry,
    SessionSnapshot,
    WorkflowCheckpoint,
)
from a3s_code.core.leasing import workflow_lease

Epoch: TypeAlias = int | None


class StoreCapabilities(msgspec.Struct, frozen=True):
    """What a store promises. ``append_only_log``: a checkpoint costs what is new; ``lease_fencing``: an epoch is
    checked in the transaction of the write; ``shared_across_nodes``: nodes may use it at the same time."""

    atomic_snapshots: bool
    cas: bool
    append_only_log: bool
    lease_fencing: bool
    encrypted_at_rest: bool
    watch: bool
    control_inbox: bool
    shared_across_nodes: bool


class StoreEvent(msgspec.Struct, frozen=True):
    """Something was committed. ``kind`` is ``session.saved``, ``session.deleted``, ``checkpoint.appended``,
    ``checkpoint.deleted``, ``run.admitted``, ``run.settled``, ``workflow.saved``, ``workflow.deleted``,
    ``lease.acquired``, ``lease.released``, ``control.posted``, ``control.answered``, or ``gap``: events between the
    cursor that was asked for and the next one are no longer kept. ``ref`` is the run, workflow or request."""

    cursor: str
    kind: str
    session_id: str = ""
    ref: str = ""


class SessionStore(Protocol):
    """Every method may raise ``StoreError``: ``IO_ERROR`` when the backend fails, ``SERIALIZATION_ERROR`` for a
    document that is damaged or newer than this version, which is named and left alone. An id that isn't there and one
    that belongs to somebody else's store look the same. May be used from several event loops at once."""

    async def save_snapshot(self, snapshot: SessionSnapshot, epoch: Epoch = None) -> str:
        """Replaces the session's generation; gives its digest."""

    async def save_snapshot_cas(
        self, snapshot: SessionSnapshot, expected_digest: str | None, epoch: Epoch = None
    ) -> str | None:
        """The same, only while the stored digest is ``expected_digest`` (``None``: nothing is stored); otherwise
        nothing is written and ``None`` comes back."""

    async def load_snapshot(self, session_id: str) -> SessionSnapshot | None: ...

    async def delete_session(self, session_id: str, epoch: Epoch = None) -> bool:
        """Snapshot, checkpoints, facts, run records and inbox; whether there was anything. The epoch stays."""

    async def list_sessions(
        self, tenant_id: str | None = None, after: str | None = None, limit: int = 100
    ) -> list[SessionEntry]:
        """Sessions that have a snapshot, by id in the order of code points, from behind ``after``, which may be gone.
        No document is read for ``stored_bytes`` alone."""

    async def append_checkpoint(
        self, run_id: str, header: CheckpointHeader, facts: Sequence[bytes], epoch: Epoch = None
    ) -> int:
        """Adds the raw log lines ``facts``, which end with the header's fact, to those the session's checkpoints
        stored, and replaces the header, in one step. Lines stored already may come again. Gives ``header.seq`` when the
        whole log up to it is stored; otherwise **nothing was written**, and the caller sends the lines after the fact
        whose ``seq`` comes back (0: all of them). ``RunIdentityConflict`` when another session holds the run's id."""

    async def load_checkpoint(self, run_id: str) -> Checkpoint | None: ...

    async def delete_checkpoint(self, run_id: str, epoch: Epoch = None) -> bool:
        """The header only: the facts go with the session."""

    async def list_checkpoints(self, session_id: str | None = None) -> list[CheckpointHeader]:
        """By run id."""

    async def admit_run(
        self, run_id: str, session_id: str, input_digest: str, epoch: Epoch = None
    ) -> RunAdmission | None:
        """``None`` for the one caller who may run it, for every other what was recorded (perhaps another session or
        input: that is the caller's ``RUN_IDENTITY_CONFLICT``)."""

    async def settle_run(self, run_id: str, record: JsonObject, epoch: Epoch = None) -> bool:
        """Keeps the run's record, replacing an earlier one; ``False`` when no such run was admitted."""

    async def load_run(self, run_id: str) -> RunAdmission | None: ...

    async def save_workflow(self, cp: WorkflowCheckpoint, epoch: Epoch = None) -> None:
        """Fenced by the lease ``workflow_lease(workflow_id)``."""

    async def load_workflow(self, workflow_id: str) -> WorkflowCheckpoint | None: ...

    async def delete_workflow(self, workflow_id: str, epoch: Epoch = None) -> bool: ...

    async def acquire_lease(self, session_id: str, holder: str, ttl_ms: int) -> Lease:
        """A lease with a higher epoch than any before; the same one, extended, for a holder who has it. ``SessionBusy``
        names another holder, unless that one's time is over or it died on this machine."""

    async def renew(self, leases: Sequence[Lease], ttl_ms: int) -> list[Lease | None]:
        """All of a process in one batch; ``None`` for one that was passed on or released. One whose time is over and
        that nobody took is renewed."""

    async def release(self, lease: Lease) -> bool:
        """Whether it was still held. Writes with its epoch are good until somebody else acquires the session."""

    async def post_control(self, session_id: str, request: ControlRequest) -> ControlReceipt | None:
        """Puts a request into the session's inbox, held or not; the recorded receipt if the same one was answered
        before. ``DUPLICATE_REQUEST``, ``QUEUE_FULL``."""

    async def take_control(self, session_id: str, epoch: int) -> list[ControlRequest]:
        """For the holder: what waits and it didn't take yet, in the order of posting. What a holder took and didn't
        answer is given to the next one."""

    async def answer_control(self, session_id: str, receipt: ControlReceipt, epoch: Epoch = None) -> bool:
        """Keeps the receipt for the poster; ``False`` when there is no such request."""

    async def load_receipt(self, session_id: str, request_id: str) -> ControlReceipt | None:
        """``None`` while it waits."""

    def watch(self, after: str | None = None) -> AsyncIterator[StoreEvent]:
        """Commit events from behind the cursor ``after`` (``None``: from now), without end. "Now" is when the iterator
        is asked for its first event. ``INVALID_REQUEST`` for a cursor that is none, and at once when the store has no
        ``watch``."""

    def capabilities(self) -> StoreCapabilities: ...

    async def close(self) -> None:
        """Gives up connections, files and threads. The store opens them again if it is used again."""


__all__ = [
    "Checkpoint",
    "CheckpointHeader",
    "ControlReceipt",
    "ControlRequest",
    "Epoch",
    "Lease",
    "RunAdmission",
    "SessionEntry",
    "SessionSnapshot",
    "SessionStore",
    "StoreCapabilities",
    "StoreEvent",
    "WorkflowCheckpoint",
    "workflow_lease",
]
