"""Runs that a host knows by ids of its own (api.md, *Detached runs*). In: a run's id and the digest of its input. Out:
what became of it, or the one admission to start it.

One rule: an id is admitted once, by the store if there is one, before the run's first fact.
Known weakness: with a store that gives no leases, a run whose node died right after its admission is said to run until
its session is resumed.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import TypeAlias

import msgspec

from a3s_code.core.content import JsonObject
from a3s_code.core.digest import valid_text
from a3s_code.core.documents import RunAdmission
from a3s_code.engine.parts import Limits, Parts
from a3s_code.engine.persistence import Persistence
from a3s_code.engine.runs import RunBook, RunRecord, read_again
from a3s_code.engine.seat import Seat
from a3s_code.engine.shortcut import SavedRun
from a3s_code.engine.writer import Writer
from a3s_code.errors import CodeError, RunIdentityConflict, StoreError

Around: TypeAlias = AbstractAsyncContextManager[None]


class Known(Exception):
    """Somebody else was admitted in between."""


async def known(parts: Parts, writer: Writer, book: RunBook, seat: Seat | None, run_id: str) -> RunRecord | None:
    """The run's record, also when retention has dropped it; the store's when the run has ended elsewhere or this log
    doesn't know it. One that nobody can be at work on, as this session holds the lease, is what the log says of it,
    which may be nothing. ``RUN_IDENTITY_CONFLICT`` when it is another session's."""
    local = book.get(run_id)
    if local is None and book.was_dropped(run_id):
        writer.acquire()
        local = await parts.callbacks.in_thread(partial(read_again, parts.log, parts.session_id, run_id))
    if seat is None or (local is not None and local.ended_ms is not None):
        return local
    admission = await seat.keeper.store.load_run(run_id)
    if admission is None or (local is not None and admission.record is None):
        return local
    found = _record(admission, parts.session_id)
    if found.ended_ms is None and await seat.is_alone():
        return book.get(run_id)
    return found


def _record(admission: RunAdmission, session_id: str) -> RunRecord:
    if admission.session_id != valid_text(session_id):
        raise RunIdentityConflict(f"run id '{admission.run_id}' belongs to another session")
    data: JsonObject = admission.record or {
        "id": admission.run_id,
        "status": "running",
        "prompt": "",
        "cause": "spawned",
        **dict.fromkeys(("created_ms", "updated_ms", "steps"), 0),
        "ended_ms": None,
        "text": "",
    }
    try:
        saved = msgspec.convert(
            {**data, "usage": data.get("usage") or {}, "input_digest": admission.input_digest}, SavedRun
        )
    except msgspec.ValidationError as error:
        raise StoreError(
            f"the record of run '{admission.run_id}' is damaged: {error}", "SERIALIZATION_ERROR"
        ) from error
    book = RunBook(session_id, Limits())
    book.restore((saved,), ())
    record = book.get(saved.id)
    assert record is not None
    record.recorder.event_count = int(str(data.get("event_count", 0)))
    return record


@asynccontextmanager
async def admitted(
    writer: Writer, keeper: Persistence | None, session_id: str, run_id: str | None, digest: str | None, *, again: bool
) -> AsyncIterator[None]:
    """Around the first facts of a run, which is detached if it has a digest. ``Known`` when the store knows it; with
    ``again``, or the session's lease, one that has no record yet and is this session's goes on, as nobody else writes
    the log. A run that can't begin has failed."""
    if keeper is None or run_id is None or digest is None:
        yield
        return
    writer.acquire()
    epoch = keeper.holding.epoch
    earlier = await keeper.store.admit_run(run_id, session_id, digest, epoch)
    ours = earlier is None or (earlier.session_id, earlier.input_digest) == (valid_text(session_id), digest)
    alone = again or epoch is not None
    if earlier is not None and not (alone and ours and earlier.record is None):
        raise Known
    try:
        yield
    except CodeError as error:
        await keeper.store.settle_run(run_id, _failed(run_id, error), epoch)
        raise


def _failed(run_id: str, error: CodeError) -> JsonObject:
    never: JsonObject = dict.fromkeys(("created_ms", "updated_ms", "ended_ms", "steps"), 0)
    why: JsonObject = {"code": error.code, "message": str(error)}
    return {"id": run_id, "status": "failed", "prompt": "", "cause": "spawned", "text": "", "error": why, **never}
