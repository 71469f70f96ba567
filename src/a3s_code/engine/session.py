"""A session's engine. In: a prompt, or the id of a run to go on with. Out: an active run; later its closed state.

One rule: admission first (closed, busy, run id), then facts, then the loop; a refused call has written nothing.
Known weakness: everything here runs on the home loop; other threads come in through the blocking face.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from functools import partial

from a3s_code.core.content import Json, JsonObject
from a3s_code.core.facts import ConfirmationAnswered, Fact, FactData, RunClosed, RunOpened
from a3s_code.core.facts.runs import Cause
from a3s_code.core.history import history
from a3s_code.core.state import ClosedRun, View
from a3s_code.engine import approvals, detached, leaving, points, resuming
from a3s_code.engine.active import ActiveRun
from a3s_code.engine.control import Control, Kind, Options, Receipt, turn_of
from a3s_code.engine.driver import drive_to_its_end
from a3s_code.engine.firing import Firing
from a3s_code.engine.gate import Gate
from a3s_code.engine.guard import Guard
from a3s_code.engine.invoke.kernel import Kernel
from a3s_code.engine.noted import answered
from a3s_code.engine.opening import Attach, Prompt, asked, has_to_wait, no_attachments, session_start
from a3s_code.engine.parts import Parts
from a3s_code.engine.persistence import Persistence
from a3s_code.engine.resuming import Wanted
from a3s_code.engine.runs import RunBook, RunRecord
from a3s_code.engine.seat import Seat
from a3s_code.engine.token import CancelToken
from a3s_code.engine.writer import Writer
from a3s_code.errors import SessionClosed
from a3s_code.ports.tasks import spawn


def no_owner() -> None:
    """An engine that belongs to nothing but whoever holds it."""


class EngineSession:
    """The engine of one session; ``active`` is the run at work, which keeps what ``owner`` gives alive."""

    def __init__(self, parts: Parts) -> None:
        self.parts = parts
        self.book = RunBook(parts.session_id, parts.limits)
        self.writer = Writer(parts.log, parts.env, book=self.book, publish=self._publish, durable=parts.durable)
        self.token = CancelToken()
        self.guard = Guard(parts.session_id, parts.callbacks)
        self.firing = Firing(parts, self.token, self.book.traces.append)
        self.control = Control(parts.env.now_ms, parts.env.new_id, self.firing)
        self.kernel = Kernel(parts, self.guard, self.firing, self.book.traces.append)
        self.keeper: Persistence | None = None
        self.seat: Seat | None = None
        if parts.keeping is not None:
            self.seat = Seat(self)
            self.keeper = self.seat.keeper
        self.active: ActiveRun | None = None
        self.closed = False
        self.owner: Callable[[], object] = no_owner
        self._gate = Gate(parts.session_id)
        self._closing: asyncio.Task[None] | None = None
        self._passivating: asyncio.Task[str | None] | None = None

    # Conversation

    async def begin(
        self,
        prompt: str,
        *,
        cause: Cause,
        messages: Sequence[Mapping[str, Json]] | None = None,
        attach: Attach = no_attachments,
        run_id: str | None = None,
        input_digest: str | None = None,
    ) -> ActiveRun:
        """Admits a prompt and starts its run. ``messages`` is an explicit history (api.md); ``attach`` keeps what the
        prompt comes with. ``SESSION_BUSY`` or ``SessionClosed`` before anything is written."""
        with self._admitted(cause):
            await self.hold()
            refs = () if attach is no_attachments else await self.parts.callbacks.in_thread(attach)
            given = Prompt(prompt, cause, messages, refs, run_id, input_digest)
            begun = await asked(self.firing, self.parts, self.writer.view, given, self.token)
            async with self._known_to_store(run_id, input_digest, again=False):
                return self._begin(begun)

    def begin_now(
        self, prompt: str, *, cause: Cause, messages: Sequence[Mapping[str, Json]] | None, attach: Attach
    ) -> ActiveRun:
        """The same without an await, for a caller on the home loop that can't wait; reads an existing log there. Hooks
        are asked once it has returned: what they deny ends the run's events."""
        with self._admitted(cause):
            given = Prompt(prompt, cause, messages, attach())
            if not has_to_wait(self.firing) and (self.keeper is None or self.keeper.holding.is_held()):
                self.firing.started = True
                return self._begin(given)
            opened = given.opened(self.parts)
            run = self._activate(opened)
            return self._at_work(run, partial(self._begin_late, run, opened, given))

    @contextmanager
    def _admitted(self, operation: str) -> Iterator[None]:
        """Holds the gate; it is left again if the operation doesn't come to start a run."""
        self.check_open()
        self._gate.enter(operation)
        try:
            yield
        except BaseException:
            self._gate.leave()
            raise

    @contextmanager
    def held(self, operation: str) -> Iterator[None]:
        """Holds the gate for something that is no run."""
        with self._admitted(operation):
            yield
        self._gate.leave()

    def _begin(self, prompt: Prompt) -> ActiveRun:
        self.check_open()
        said = prompt.said(self.writer)
        return self._start(prompt.opened(self.parts), said)

    async def _begin_late(self, run: ActiveRun, opened: RunOpened, given: Prompt) -> None:
        try:
            await self.hold()
            prompt = await asked(self.firing, self.parts, self.writer.view, given, run.token, run.id)
            self.check_open()
            run.append(opened, *prompt.said(self.writer))
        except BaseException:
            self.book.drop(run.id)
            raise

    async def resume(self, wanted: Wanted) -> ActiveRun | ClosedRun:
        """Goes on from what the log and the run's checkpoint say (facts.md, *Resume*); a quiescent log takes no step
        and gives the last result. What goes on is a new run."""
        with self._admitted("resume_run"):
            await self.hold(resuming=True)
            await session_start(self.firing, self.parts)
            opened = await resuming.opened(self.parts, self.writer, self.keeper, wanted)
            self.check_open()
            if opened is not None:
                async with self._known_to_store(opened.run, opened.input_digest, again=True):
                    return self._start(opened, [], self._deliver)
        self._gate.leave()
        await self._deliver()
        return resuming.last_result(self.writer.view, self.book)

    def _known_to_store(self, run_id: str | None, digest: str | None, *, again: bool) -> detached.Around:
        return detached.admitted(self.writer, self.keeper, self.parts.session_id, run_id, digest, again=again)

    async def hold(self, *, resuming: bool = False) -> None:
        """Has the log read and, with a store that fences, the session's lease; a new holder first takes in what was
        posted for the session. With ``resuming`` what is for a run at work waits for ``_deliver``."""
        if self.seat is not None:
            await self.seat.taken(resuming=resuming)
        await self.ready()
        if self.token.is_cancelled():  # it was closed meanwhile: whoever wrote now would take the lock again
            self.check_open()

    async def _deliver(self) -> None:
        if self.seat is not None:
            await self.seat.inbox.deliver()

    async def ready(self) -> None:
        """Folds the log once, off the loop when there is something to read."""
        if not self.writer.loaded and self.parts.log.exists():
            await self.parts.callbacks.in_thread(lambda: self.writer.view)

    def _start(
        self, opened: RunOpened, facts: list[FactData], first: Callable[[], Awaitable[None]] | None = None
    ) -> ActiveRun:
        run = self._activate(opened)
        try:
            run.append(opened, *facts)
        except BaseException:
            self.active = None
            self.book.drop(opened.run)
            raise
        return self._at_work(run, first)

    def _activate(self, opened: RunOpened) -> ActiveRun:
        record = self.book.open(opened, self.parts.env.now_ms(), self.writer.view)
        run = ActiveRun(opened.run, self.parts, self.writer, self.kernel, self.token.child(), record)
        run.traces = self.book.traces
        run.owner = self.owner()
        run.keeper = self.keeper
        self.active = run
        if opened.resumes is None:
            self.firing.forget_calls()
        self.firing.turn_of = lambda run_id: turn_of(run)[0] if run_id == run.id else None
        return run

    def _at_work(self, run: ActiveRun, first: Callable[[], Awaitable[None]] | None = None) -> ActiveRun:
        run.record.status = "running"
        self.firing.runs += 1
        spawn(self._work(run, first), f"a3s-code run {run.id}")
        return run

    async def _work(self, run: ActiveRun, first: Callable[[], Awaitable[None]] | None) -> None:
        """Drives the run and puts everything away, however it ends."""
        try:
            with self.firing.inside():
                await drive_to_its_end(run, self.control, first)
                await self._tell_end(run)
            if self.keeper is not None:
                await self.keeper.settled(run)
        finally:
            leaving.put_away(self, run)
            self._gate.leave()
            run.finished.set_result(None)

    async def _tell_end(self, run: ActiveRun) -> None:
        """What hooks are told once a run has settled."""
        self.control.end(run.id)
        await points.run_ended(run)
        await self.firing.flush(run.token)
        await self.firing.hooks.drained(leaving.DRAIN_S)

    def cancel(self, run_id: str | None = None) -> bool:
        """Interrupts the run at work (of that id); false when there is none."""
        run = self.active
        if run is None or (run_id is not None and run.id != run_id):
            return False
        run.token.cancel("the run was cancelled")
        return True

    async def close(self, reason: str = "closed") -> None:
        """Ends all work (api.md, *Close*). A parked run stays parked in the log. From inside a callback of this session
        it returns without waiting for its caller."""
        if self._closing is None:
            self.closed = True
            if self.active is not None:
                self.active.closing = True
            self.token.cancel("the session was closed")
            self._closing = spawn(leaving.end(self, self.active, reason), "closing a session")
        if not self.firing.is_inside():
            await asyncio.shield(self._closing)

    async def passivate(self, deadline_ms: int | None) -> str | None:
        """Leaves the session so that any node can go on with it (durability.md, *Passivation*). Gives the id of the run
        that is left open. From inside a callback it returns ``None`` without waiting."""
        if self._passivating is None:
            self.check_open()
            self._passivating = spawn(leaving.passivated(self, deadline_ms), "passivating a session")
        return None if self.firing.is_inside() else await asyncio.shield(self._passivating)

    def dropped(self) -> None:
        """Nobody has the session any more, and no run is at work: lock and lease are given back."""
        self.writer.release()
        if self.keeper is not None:
            spawn(self.keeper.holding.release(), "giving back a lease")

    def check_open(self) -> None:
        if self.closed:
            raise SessionClosed(f"Session '{self.parts.session_id}' is closed")

    # Parked calls

    async def confirm(self, call_id: str, approved: bool, reason: str | None) -> bool:
        """True once the answer is durable (there is nothing to keep for a call that can't park); false when that call
        does not wait."""
        if self.kernel.confirmations.answer(call_id, approved, reason):
            return True
        return await self._answered(
            lambda view: approvals.confirmation(view, self.parts.rules, self.begun, call_id, approved, reason)
        )

    async def answer(self, call_id: str, text: str) -> bool:
        return await self._answered(lambda view: approvals.answer(view, call_id, text))

    async def _answered(self, answer: Callable[[View], FactData | None]) -> bool:
        await self.ready()
        if answer(self.writer.view) is None:
            return False
        self.check_open()
        await self.hold()
        self.writer.acquire()  # another process may have answered since this one looked
        fact, run = answer(self.writer.view), self.writer.view.run
        if fact is None or run is None:
            return False
        self.writer.append(run.id, fact)
        await self.writer.durable()
        if self.keeper is not None:
            await self.keeper.answered(run.id, self.active)
        if self.active is None and isinstance(fact, ConfirmationAnswered):
            answered(self.firing, run.id, fact, self.writer.view)
            await self.firing.flush()
        return True

    # What a host asks

    def view(self) -> View:
        return self.writer.view

    @property
    def begun(self) -> Set[str]:
        """The calls that the run at work has begun, finished ones included, and those that hooks decide about before
        anybody is asked."""
        run = self.active
        if run is None:
            return frozenset()
        if not self.firing.wants("pre_tool_use") and not self.firing.wants("permission_request"):
            return run.begun
        return run.begun | {state.call.id for state in run.view.open_calls if state.call.id not in run.published}

    def records(self) -> list[RunRecord]:
        """Oldest first; those of earlier processes are read off the log."""
        self.view()
        return self.book.all()

    def record(self, run_id: str) -> RunRecord | None:
        self.view()
        return self.book.get(run_id)

    async def known(self, run_id: str) -> RunRecord | None:
        """Like ``record``, for a detached run: also one that retention has dropped, or that the store knows."""
        await self.ready()
        return await detached.known(self.parts, self.writer, self.book, self.seat, run_id)

    @property
    def busy(self) -> bool:
        """Whether an operation holds the gate."""
        return self._gate.busy

    def history(self) -> list[JsonObject]:
        return history(self.writer.view)

    async def control_run(self, kind: Kind, text: str, options: Options) -> Receipt:
        """A steer, or an interrupt (``text`` is nothing then)."""
        with self.firing.inside():
            options = await self.control.ask(self.active, kind, text, options)
            if kind == "steer":
                receipt = self.control.steer(self.active, text, options)
            else:
                receipt = self.control.interrupt(self.active, options)
            await self.firing.flush()
        return receipt

    def _publish(self, fact: Fact, view: View) -> None:
        if self.active is not None and fact.run == self.active.id:
            self.active.on_fact(fact, view)
        elif self.keeper is not None and isinstance(fact.data, RunClosed):
            self.keeper.ended(fact.run)
