"""What a store has of a session (durability.md). In: a store, or a checkpoint. Out: the newest of each kind, checked.

One rule: nothing is gone on with that isn't a whole log of this version.
Known weakness: none known.
"""

from __future__ import annotations

from typing import TypeAlias

from a3s_code.core.branches import read_lines
from a3s_code.core.codec import LOGIC, verify
from a3s_code.core.documents import Checkpoint, CheckpointHeader, SessionSnapshot
from a3s_code.errors import StoreError
from a3s_code.ports.store import SessionStore

Known: TypeAlias = tuple[str | None, str | None]
"""What was in the store when this session looked: its snapshot's digest, and the sum of its last checkpoint."""


async def stored_session(
    store: SessionStore, session_id: str
) -> tuple[SessionSnapshot | None, CheckpointHeader | None]:
    """The session's snapshot and its last checkpoint."""
    checkpoints = await store.list_checkpoints(session_id)
    last = max(checkpoints, key=lambda header: (header.saved_ms, header.seq), default=None)
    return await store.load_snapshot(session_id), last


def seen(snapshot: SessionSnapshot | None, last: CheckpointHeader | None) -> Known:
    """What tells one state of a session's store from another."""
    return (snapshot.digest if snapshot else None, last.sum if last else None)


def check(checkpoint: Checkpoint) -> str:
    """The run of its last fact. ``SERIALIZATION_ERROR`` unless its facts are a log from fact 1 to the one that the
    header names, which this version can go on with."""
    named = checkpoint.header
    what = f"the checkpoint of run {named.run_id!r}"
    if named.logic > LOGIC:
        message = f"{what} has logic number {named.logic}, and this a3s_code knows {LOGIC}: use a newer a3s_code"
        raise StoreError(message, "SERIALIZATION_ERROR")
    lines = read_lines(checkpoint.facts)
    if not lines or not verify(lines[0], "") or (lines[-1].fact.seq, lines[-1].sum) != (named.seq, named.sum):
        raise StoreError(f"{what} is damaged: its facts are not those it names", "SERIALIZATION_ERROR")
    return lines[-1].fact.run
