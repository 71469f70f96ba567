"""A session in its store (durability.md). In: runs as they go and settle. Out: snapshots, checkpoints, rebuilt logs.

One rule: a store that fails is told as ``persistence_failed`` and never ends a run; what would make two runs out of one
(a lease, an admission) or lose facts (a resume) raises, and a lease that is lost ends the run.
Known weakness: a store that hangs is given up after a minute at each write, so long it holds up its run.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from msgspec.structs import replace

from a3s_code.core import project
from a3s_code.core.codec import LOGIC, Header, thread_name
from a3s_code.core.digest import valid_text
from a3s_code.core.documents import Checkpoint, CheckpointHeader, FactLogMark, SessionSnapshot
from a3s_code.engine import snapshot as snapshots
from a3s_code.engine.active import ActiveRun
from a3s_code.engine.artifacts import Artifacts
from a3s_code.engine.holding import Holder, Holding
from a3s_code.engine.parts import Parts
from a3s_code.engine.runs import RunBook
from a3s_code.engine.stored import Known, check, seen, stored_session
from a3s_code.engine.token import Interrupted
from a3s_code.engine.writer import Writer
from a3s_code.errors import CodeError, LeaseLost, SessionClosed, StoreError
from a3s_code.ports.log import Position

_log = logging.getLogger("a3s_code")
_TRIES: Final = 8
"""How often a store may ask for earlier facts before a checkpoint is given up."""

PATIENCE_S = 60.0
"""How long one write may take."""


class Persistence:
    """One a session with a store; an ``active.Keeper``."""

    def __init__(self, parts: Parts, writer: Writer, book: RunBook, artifacts: Artifacts, holder: Holder) -> None:
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
        self._holder = holder
        self.holding = Holding(parts.session_id, self.store, keeping.leases, parts.clock)
        self._known: Known = (None, None)
        self._taking = asyncio.Lock()
        self._one_by_one = asyncio.Lock()
        self._header: Header | None = None
        self._stored: Position | None = None
        self._checkpoints: set[str] = set()
        self._goes_on: tuple[str, ...] = ()

    # -- snapshots ----------------------------------------------------------------------------------------------

    async def save(self, run: ActiveRun | None = None) -> str:
        """Saves the session as it stands; gives the snapshot's digest. ``run`` has settled, its last event is held."""
        taken, left_open = await self.take(run), self._writer.view.run
        if left_open is not None:
            await self._append(left_open.id)  # a snapshot has no facts to go on with
        return await self.store.save_snapshot(taken, self.holding.epoch)

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

    async def restore(self, snapshot: SessionSnapshot | None, last: CheckpointHeader | None) -> None:
        """Takes in what the store has of the session, by its last checkpoint or by its snapshot, whichever is newer. A
        log that holds it, or was begun from it, goes on; another one, or none, is begun anew."""
        self._known = seen(snapshot, last)
        if snapshot is not None:
            snapshots.restore_records(snapshot, self._book, self._artifacts, self._parts.env)
        old = (-1, 0) if snapshot is None else (snapshot.saved_ms, snapshot.mark.seq if snapshot.mark else 0)
        if last is not None and (last.saved_ms, last.seq) >= old and await self._rebuilt(last.run_id):
            return
        if snapshot is not None and await self._parts.callbacks.in_thread(self._seed, snapshot):
            self._reread()

    def _seed(self, snapshot: SessionSnapshot) -> bool:
        """Whether the log is another one now."""
        mark = snapshot.mark
        here = Position() if mark is None else Position(mark.seq, mark.sum)
        if self._log.holds(here) or snapshots.was_seeded(self._log.header(), snapshot):
            return False
        session_id = self._parts.session_id
        header = Header(thread_name(session_id), session_id, self._parts.env.now_ms())
        lines = snapshots.seed_lines(snapshot, self._parts.env)
        self._log.replace(snapshots.seeded_header(header, snapshot), lines)
        return True

    def _reread(self) -> None:
        self._writer.forget()
        self._header, self._stored = None, None

    # -- the lease ----------------------------------------------------------------------------------------------

    async def hold(self) -> bool:
        """Has the session's lease, and a log with all that others did to the session since this one looked. Whether the
        lease is new. ``SessionBusy`` names who has it."""
        async with self._taking:  # who comes second waits until the log is up to date
            try:
                if not await self.holding.taken(self._holder):
                    return False
            except Interrupted:
                raise SessionClosed(f"Session '{self._parts.session_id}' is closed") from None
            try:
                if self._holder.token.is_cancelled():  # it was closed meanwhile, and nobody would give the lease back
                    raise SessionClosed(f"Session '{self._parts.session_id}' is closed")
                await self._catch_up()
            except BaseException:
                await self.holding.release()
                raise
            return True

    async def _catch_up(self) -> None:
        epoch = self.holding.epoch
        if epoch is None or epoch == 1:  # nobody ever had it but us
            return
        snapshot, last = await stored_session(self.store, self._parts.session_id)
        if seen(snapshot, last) != self._known:
            await self.restore(snapshot, last)

    def lost(self, error: LeaseLost) -> None:
        """Somebody else has the lease."""
        self._holder.lost(error)

    async def answered(self, run_id: str, run: ActiveRun | None) -> None:
        """Keeps an answer, or a direction, before it is reported as accepted."""
        if run is not None and run.id == run_id:
            await self.checkpoint(run)
            return
        try:
            async with asyncio.timeout(PATIENCE_S):
                await self._append(run_id)
        except LeaseLost:
            raise
        except Exception as error:  # noqa: BLE001  the log has it: a host's own store that fails keeps no answer from counting
            shown = self._parts.governance.loggable(error)
            _log.warning("session %s: an answer was not kept in its store", self._parts.session_id, exc_info=shown)

    def is_sure(self) -> bool:
        return self.holding.is_sure()

    async def made_sure(self, run: ActiveRun) -> None:
        run.emit(
            project.not_kept("lease", "it could not be renewed in time; the run waits until that is done or it is lost")
        )
        await self.holding.made_sure(run.token, lambda: run.left is not None)

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
        async with self._one_by_one:
            if self._writer.view.run is not None:  # it may have ended meanwhile, and must leave none
                await self._append_alone(run_id)

    async def _append_alone(self, run_id: str) -> None:
        at, epoch = self._log.position, self.holding.epoch
        header = await self._checkpoint_header(run_id, at)
        self._checkpoints.add(run_id)
        lines = [] if self._stored is None else await self._lines(self._stored, at)
        for _ in range(_TRIES):
            reached = await self.store.append_checkpoint(run_id, header, lines, epoch)
            if reached >= at.seq:
                self._stored = at
                break
            lines = await self._lines(Position(reached), at)
        else:
            raise StoreError(f"the session store asked {_TRIES} times for other facts than it was sent")
        for earlier in self._goes_on:
            await self.store.append_checkpoint(earlier, replace(header, run_id=earlier), [], epoch)

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

    async def make_up(self, *ended: str | None) -> None:
        """Does what a process that ended these runs didn't come to: their record, the snapshot, and the end of their
        checkpoints. Raises what the store raises."""
        for run_id in filter(None, ended):
            record = self._book.get(run_id)
            if record is not None and record.input_digest is not None and self._has_ended(run_id):
                admitted = await self.store.load_run(run_id)
                if admitted is not None and admitted.record is None:
                    await self.store.settle_run(run_id, record.snapshot(), self.holding.epoch)
        if self.saves:
            await self.save()
        for header in await self.store.list_checkpoints(self._parts.session_id):
            if header.run_id in ended or self._has_ended(header.run_id):
                await self.store.delete_checkpoint(header.run_id, self.holding.epoch)

    def _has_ended(self, run_id: str) -> bool:
        record = self._book.get(run_id)
        return record is not None and record.ended_ms is not None

    async def rebuild(self, run_id: str) -> bool:
        """Has the log hold what the run's checkpoint holds (facts.md, *Resume*); ``False`` when there is none. A log
        that is as new or newer stays as it is, and so does everything when a snapshot says that the run has ended."""
        return await self._rebuilt(run_id) is not None

    async def _rebuilt(self, run_id: str) -> bool | None:
        """Whether the log holds it now; ``None`` when there is no checkpoint."""
        checkpoint = await self.store.load_checkpoint(run_id)
        if checkpoint is None:
            return None
        named = checkpoint.header
        if (named.run_id, named.session_id) != (valid_text(run_id), valid_text(self._parts.session_id)):
            raise CodeError(f"refusing to resume checkpoint '{run_id}'", "SESSION_MISMATCH")
        replaced = await self._parts.callbacks.in_thread(self._replaced, checkpoint)
        if replaced:
            self._reread()
            await self._parts.callbacks.in_thread(lambda: self._writer.view)
        return replaced is not None

    def _replaced(self, checkpoint: Checkpoint) -> bool | None:
        """Whether the log is another one now; ``None`` for a checkpoint that was left over: its last run has ended, and
        the session was saved since."""
        named = checkpoint.header
        if self._log.exists() and self._log.holds(Position(named.seq, named.sum)):
            return False
        if self._has_ended(check(checkpoint)):
            return None
        session_id = self._parts.session_id
        header = Header(thread_name(session_id), session_id, named.created_ms, named.logic)
        self._log.replace(header, checkpoint.facts)
        return True

    # -- the end of a run ---------------------------------------------------------------------------------------

    async def settled(self, run: ActiveRun) -> None:
        """Once a run has settled, or is left parked."""
        closed = run.view.closed
        if closed is None or closed.run.id != run.id:
            if run.parked or run.left is not None:
                await self._tried(run, "checkpoint", self._append, run.id)
            return
        if run.record.input_digest is not None:
            record = run.record.snapshot()
            record["event_count"] = run.record.recorder.event_count + len(run.ending())
            await self._tried(run, "run record", self.store.settle_run, run.id, record, self.holding.epoch)
        if self.saves:
            await self._tried(run, "snapshot", self.save, run)
        async with self._one_by_one:
            for run_id in sorted(self._checkpoints):
                if await self._tried(run, "checkpoint", self.store.delete_checkpoint, run_id, self.holding.epoch):
                    self._checkpoints.discard(run_id)
        self._goes_on = ()

    async def _tried(self, run: ActiveRun, what: str, work: Callable[..., Awaitable[object]], *args: object) -> bool:
        """Whether the store did it."""
        try:
            async with asyncio.timeout(PATIENCE_S):
                await work(*args)
            return True
        except LeaseLost as error:
            self.lost(error)
        except Exception as error:  # noqa: BLE001  the store may be a host's own, and no failure of it ends a run
            shown = self._parts.governance.loggable(error)
            _log.warning("session %s: its %s was not kept", self._parts.session_id, what, exc_info=shown)
            run.results_kept = True
            why = f"no answer within {PATIENCE_S:g} s" if isinstance(error, TimeoutError) else str(error)
            run.emit(project.not_kept(what, f"{type(error).__name__}: {why}"))
        return False
