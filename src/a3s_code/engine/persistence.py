"""A session in its store (durability.md). In: runs as they go and settle. Out: snapshots, checkpoints, rebuilt logs.

One rule: a store that fails is told as ``persistence_failed`` and never ends a run; what would make two runs out of one
(an admission) or lose facts (a resume) raises.
Known weakness: a store that hangs is given up after a minute at each write, so long it holds up its run.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from msgspec.structs import replace

from a3s_code.core import project
from a3s_code.core.branches import read_lines
from a3s_code.core.codec import LOGIC, Header, thread_name, verify
from a3s_code.core.digest import valid_text
from a3s_code.core.documents import Checkpoint, CheckpointHeader, FactLogMark, SessionSnapshot
from a3s_code.engine import snapshot as snapshots
from a3s_code.engine.active import ActiveRun
from a3s_code.engine.artifacts import Artifacts
from a3s_code.engine.parts import Parts
from a3s_code.engine.runs import RunBook
from a3s_code.engine.token import Interrupted
from a3s_code.engine.writer import Writer
from a3s_code.errors import CodeError, StoreError
from a3s_code.ports.log import Position

_log = logging.getLogger("a3s_code")
_TRIES: Final = 8
"""How often a store may ask for earlier facts before a checkpoint is given up."""

PATIENCE_S = 60.0
"""How long one write may take."""


class Persistence:
    """One a session with a store; an ``active.Keeper``."""

    def __init__(self, parts: Parts, writer: Writer, book: RunBook, artifacts: Artifacts) -> None:
        assert parts.keeping is not None
        keeping = parts.keeping
        self.store = keeping.store
        self.saves = keeping.auto_save
        self._parts = parts
        self._keeping = keeping
        self._log = keeping.log
        self._writer = writer
        self._book = book
        self._artifacts = artifacts
        self._header: Header | None = None
        self._stored: Position | None = None
        self._checkpoints: set[str] = set()
        self._goes_on: tuple[str, ...] = ()

    # -- snapshots ----------------------------------------------------------------------------------------------

    async def save(self, run: ActiveRun | None = None) -> str:
        """Saves the session as it stands; gives the snapshot's digest. ``run`` has settled, its last event is held."""
        return await self.store.save_snapshot(await self.take(run))

    async def take(self, run: ActiveRun | None = None) -> SessionSnapshot:
        if self._log.exists():
            self._writer.acquire()
            await self._writer.durable()
        view, at = self._writer.view, self._log.position
        mark = FactLogMark(thread_name(self._parts.session_id), at.seq, at.sum)
        ending = {} if run is None else {run.id: run.ending()}
        taken: SessionSnapshot = await self._parts.callbacks.in_thread(
            snapshots.taken,
            self._parts,
            self._keeping,
            view,
            mark,
            self._book,
            self._artifacts,
            self._parts.env.now_ms(),
            ending,
        )
        return taken

    async def restore(self, snapshot: SessionSnapshot) -> None:
        """Before the session's first look at its log. A log that holds the snapshot's last fact, or was begun from this
        snapshot, goes on; another one, or none, is begun anew with the snapshot's messages."""
        snapshots.restore_records(snapshot, self._book, self._artifacts, self._parts.env)
        await self._parts.callbacks.in_thread(self._seed, snapshot)

    def _seed(self, snapshot: SessionSnapshot) -> None:
        mark = snapshot.mark
        here = Position() if mark is None else Position(mark.seq, mark.sum)
        if self._log.holds(here) or snapshots.was_seeded(self._log.header(), snapshot):
            return
        session_id = self._parts.session_id
        header = Header(thread_name(session_id), session_id, self._parts.env.now_ms())
        lines = snapshots.seed_lines(snapshot, self._parts.env)
        self._log.replace(snapshots.seeded_header(header, snapshot), lines)

    # -- checkpoints --------------------------------------------------------------------------------------------

    async def checkpoint(self, run: ActiveRun) -> None:
        if run.view.run is None:
            return
        run.results_kept = True
        try:
            await run.token.guard(self._tried(run, "checkpoint", self._append, run.id))
        except Interrupted:
            return

    async def _append(self, run_id: str) -> None:
        at = self._log.position
        header = await self._checkpoint_header(run_id, at)
        self._checkpoints.add(run_id)
        lines = [] if self._stored is None else await self._lines(self._stored, at)
        for _ in range(_TRIES):
            reached = await self.store.append_checkpoint(run_id, header, lines)
            if reached >= at.seq:
                self._stored = at
                break
            lines = await self._lines(Position(reached), at)
        else:
            raise StoreError(f"the session store asked {_TRIES} times for other facts than it was sent")
        for earlier in self._goes_on:
            await self.store.append_checkpoint(earlier, replace(header, run_id=earlier), [])

    async def _lines(self, after: Position, upto: Position) -> list[bytes]:
        lines: list[bytes] = await self._parts.callbacks.in_thread(self._log.lines, after, upto.seq)
        return lines

    async def _checkpoint_header(self, run_id: str, at: Position) -> CheckpointHeader:
        if self._header is None:
            self._header = await self._parts.callbacks.in_thread(self._log.header)
        began = self._header
        parts = self._parts
        return CheckpointHeader(
            run_id=run_id,
            session_id=parts.session_id,
            seq=at.seq,
            sum=at.sum,
            thread=thread_name(parts.session_id),
            created_ms=began.created_ms if began else 0,
            logic=began.logic if began else LOGIC,
            labels=parts.labels.present(),
            workspace=parts.workspace.root,
            model=self._keeping.model,
            options=self._keeping.options,
            saved_ms=parts.env.now_ms(),
        )

    def goes_on(self, *earlier: str | None) -> None:
        """The run about to begin goes on from these, and whoever knows only their ids has to find its checkpoint."""
        self._goes_on = tuple(dict.fromkeys(run_id for run_id in earlier if run_id is not None))
        self._checkpoints.update(self._goes_on)

    def ended(self, run_id: str) -> None:
        """Nobody may go on with this run any more: its checkpoint is deleted with those of the next run that ends."""
        self._checkpoints.add(run_id)

    async def forget(self, run_id: str) -> None:
        """Deletes the checkpoint of a run that has ended. Raises what the store raises."""
        await self.store.delete_checkpoint(run_id)

    async def rebuild(self, run_id: str) -> bool:
        """Has the log hold what the run's checkpoint holds (facts.md, *Resume*); ``False`` when there is none. A log
        that is as new or newer stays as it is."""
        checkpoint = await self.store.load_checkpoint(run_id)
        if checkpoint is None:
            return False
        named = checkpoint.header
        if (named.run_id, named.session_id) != (valid_text(run_id), valid_text(self._parts.session_id)):
            raise CodeError(f"refusing to resume checkpoint '{run_id}'", "SESSION_MISMATCH")
        if await self._parts.callbacks.in_thread(self._replaced, checkpoint):
            self._writer.forget()
            self._header, self._stored = None, None
            await self._parts.callbacks.in_thread(lambda: self._writer.view)
        return True

    def _replaced(self, checkpoint: Checkpoint) -> bool:
        """Whether the log is another one now."""
        named = checkpoint.header
        if self._log.exists() and self._log.holds(Position(named.seq, named.sum)):
            return False
        check(checkpoint)
        session_id = self._parts.session_id
        header = Header(thread_name(session_id), session_id, named.created_ms, named.logic)
        self._log.replace(header, checkpoint.facts)
        return True

    # -- the end of a run ---------------------------------------------------------------------------------------

    async def settled(self, run: ActiveRun) -> None:
        """Once a run has settled, or is left parked."""
        closed = run.view.closed
        if closed is None or closed.run.id != run.id:
            if run.parked:
                await self._tried(run, "checkpoint", self._append, run.id)
            return
        if run.record.input_digest is not None:
            record = run.record.snapshot()
            record["event_count"] = run.record.recorder.event_count + len(run.ending())
            await self._tried(run, "run record", self.store.settle_run, run.id, record)
        if self.saves:
            await self._tried(run, "snapshot", self.save, run)
        for run_id in sorted(self._checkpoints):
            await self._tried(run, "checkpoint", self.store.delete_checkpoint, run_id)
        self._checkpoints.clear()
        self._goes_on = ()

    async def _tried(self, run: ActiveRun, what: str, work: Callable[..., Awaitable[object]], *args: object) -> None:
        try:
            async with asyncio.timeout(PATIENCE_S):
                await work(*args)
        except Exception as error:  # noqa: BLE001  the store may be a host's own, and no failure of it ends a run
            shown = self._parts.governance.loggable(error)
            _log.warning("session %s: its %s was not kept", self._parts.session_id, what, exc_info=shown)
            run.results_kept = True
            why = f"no answer within {PATIENCE_S:g} s" if isinstance(error, TimeoutError) else str(error)
            run.emit(project.not_kept(what, f"{type(error).__name__}: {why}"))


def check(checkpoint: Checkpoint) -> None:
    """``SERIALIZATION_ERROR`` unless its facts are a log from fact 1 to the one that the header names, which this
    version can go on with."""
    named = checkpoint.header
    what = f"the checkpoint of run {named.run_id!r}"
    if named.logic > LOGIC:
        message = f"{what} has logic number {named.logic}, and this a3s_code knows {LOGIC}: use a newer a3s_code"
        raise StoreError(message, "SERIALIZATION_ERROR")
    lines = read_lines(checkpoint.facts)
    if not lines or not verify(lines[0], "") or (lines[-1].fact.seq, lines[-1].sum) != (named.seq, named.sum):
        raise StoreError(f"{what} is damaged: its facts are not those it names", "SERIALIZATION_ERROR")
