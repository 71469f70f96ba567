"""A session's engine. In: a prompt, or the id of a run to go on with. Out: an active run; later its closed state.

One rule: admission first (closed, busy, run id), then facts, then the loop; a refused call has written nothing.
Known weakness: everything here runs on the home loop; other threads come in through the blocking face.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from functools import partial
from typing import TypeAlias

from a3s_code.core import project
from a3s_code.core.content import AttachmentRef, Json, JsonObject
from a3s_code.core.decide.settle import settle
from a3s_code.core.facts import Fact, FactData, RunClosed, RunOpened, UserSaid
from a3s_code.core.facts.runs import Cause, Failure
from a3s_code.core.history import history, seed
from a3s_code.core.state import ClosedRun, View
from a3s_code.engine import approvals, recovery
from a3s_code.engine.active import ActiveRun
from a3s_code.engine.control import Control
from a3s_code.engine.driver import drive
from a3s_code.engine.gate import Gate
from a3s_code.engine.guard import Guard
from a3s_code.engine.invoke.invocation import Finished, Invocation
from a3s_code.engine.invoke.kernel import Kernel, result_of
from a3s_code.engine.parts import Parts
from a3s_code.engine.perform import result_of as fact_of
from a3s_code.engine.runs import RunBook, RunRecord, read_again
from a3s_code.engine.token import CancelToken
from a3s_code.engine.writer import Writer
from a3s_code.errors import CodeError, SessionClosed, StoreError
from a3s_code.ports.tasks import spawn
from a3s_code.ports.tool import Origin, ToolResult

Attach: TypeAlias = Callable[[], tuple[AttachmentRef, ...]]


def no_attachments() -> tuple[AttachmentRef, ...]:
    """What a prompt without attachments comes with."""
    return ()


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
        self.control = Control(parts.env.now_ms, parts.env.new_id)
        self.kernel = Kernel(parts, self.guard, self._trace_call)
        self.active: ActiveRun | None = None
        self.closed = False
        self.owner: Callable[[], object] = no_owner
        self._gate = Gate(parts.session_id)

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
            await self.ready()
            refs = () if attach is no_attachments else await self.parts.callbacks.in_thread(attach)
            return self._begin(prompt, cause, messages, refs, run_id, input_digest)

    def begin_now(
        self, prompt: str, *, cause: Cause, messages: Sequence[Mapping[str, Json]] | None, attach: Attach
    ) -> ActiveRun:
        """The same without an await, for a caller on the home loop that can't wait; reads an existing log there."""
        with self._admitted(cause):
            return self._begin(prompt, cause, messages, attach(), None, None)

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

    def _begin(
        self,
        prompt: str,
        cause: Cause,
        messages: Sequence[Mapping[str, Json]] | None,
        attachments: tuple[AttachmentRef, ...],
        run_id: str | None,
        input_digest: str | None,
    ) -> ActiveRun:
        self.check_open()
        seeds = seed(messages) if messages is not None else []
        self.writer.acquire()
        left_open = recovery.settle_open(self.writer.view)
        if left_open is not None:
            self.writer.append(left_open[0], *left_open[1])
        fresh = self.writer.view.seq == 0
        opened = RunOpened(
            run_id or self.parts.env.new_id(),
            cause,
            self.parts.context(),
            side=messages is not None,
            input_digest=input_digest,
        )
        return self._start(opened, [*(seeds if fresh else []), UserSaid(prompt, "prompt", attachments)])

    async def resume(self, run_id: str, *, accept_changes: bool = False) -> ActiveRun | ClosedRun:
        """Goes on from what the log says (facts.md, *Resume*); a quiescent log takes no step and gives the last
        result. A run opened in this process by ``resume`` is a new run."""
        with self._admitted("resume_run"):
            await self.ready()
            if self.writer.view.seq == 0:
                message = "resume_run requires a session_store on this session"
                raise CodeError(message, "SESSION_CONFIGURATION_ERROR")
            self.writer.acquire()
            view = self.writer.view
            earlier = recovery.last_run(view)
            if earlier is not None and not recovery.is_quiescent(view, self.parts.rules):
                context = self.parts.context()
                if not accept_changes:
                    recovery.check_context(earlier.context, context)
                opened = RunOpened(self.parts.env.new_id(), "resume", context, earlier.side, earlier.id)
                return self._start(opened, [])
        self._gate.leave()
        if view.closed is None:
            raise CodeError("this session's log holds no run that could be resumed", "SESSION_ERROR")
        return view.closed

    async def ready(self) -> None:
        """Folds the log once, off the loop when there is something to read."""
        if not self.writer.loaded and self.parts.log.exists():
            await self.parts.callbacks.in_thread(lambda: self.writer.view)

    def _start(self, opened: RunOpened, facts: list[FactData]) -> ActiveRun:
        record = self.book.open(opened, self.parts.env.now_ms(), self.writer.view)
        run = ActiveRun(opened.run, self.parts, self.writer, self.kernel, self.token.child(), record)
        run.traces = self.book.traces
        run.owner = self.owner()
        self.active = run
        try:
            run.append(opened, *facts)
        except BaseException:
            self.active = None
            self.book.drop(opened.run)
            raise
        record.status = "running"
        spawn(self._work(run), f"a3s-code run {run.id}")
        return run

    async def _work(self, run: ActiveRun) -> None:
        """Drives the run and puts everything away, however it ends."""
        run.worktime.start()
        try:
            await drive(run, self.control)
        except StoreError as error:
            run.error = error
        except asyncio.CancelledError:
            run.error = CodeError("The event loop was stopped while the run was at work", "CLOSED")
            self._close_now(run, Failure("CLOSED", str(run.error)))
            raise
        except Exception as error:  # noqa: BLE001  a fault of ours must end the run, not the session
            run.error = CodeError(f"{type(error).__name__}: {error}")
            run.error.__cause__ = error
            self._close_now(run, Failure("INTERNAL_ERROR", str(run.error)))
        finally:
            run.worktime.pause()
            self._put_away(run)

    def _close_now(self, run: ActiveRun, why: Failure) -> None:
        """Settles without waiting, where the log still takes it; else the next prompt settles the run."""
        try:
            if run.view.run is not None:
                step = settle(run.view, "failed", error=why)
                run.append(*(fact_of(item) for item in step.results), RunClosed("failed", run.view.run.steps, why))
        except StoreError as error:
            run.error = error

    def _put_away(self, run: ActiveRun) -> None:
        if run.closing and (run.outcome is None or run.outcome.status != "completed"):
            run.error = SessionClosed(f"Session '{self.parts.session_id}' is closed")
        if run.outcome is None and run.error is not None:
            run.emit(project.failed(str(run.error), run.error.code))
            if not run.parked:
                run.record.fail(run.error, self.parts.env.now_ms())
        if run.outcome is None and run.parked:
            run.record.status = "parked"
        self.control.end(run.id)
        run.fanout.end()
        run.owner = None
        self.active = None
        self._gate.leave()
        run.finished.set_result(None)

    def cancel(self, run_id: str | None = None) -> bool:
        """Interrupts the run at work (of that id); false when there is none."""
        run = self.active
        if run is None or (run_id is not None and run.id != run_id):
            return False
        run.token.cancel("the run was cancelled")
        return True

    async def close(self) -> None:
        """Ends all work (api.md, *Close*). A parked run stays parked in the log."""
        if self.closed:
            return
        self.closed = True
        run = self.active
        if run is not None:
            run.closing = True
        self.token.cancel("the session was closed")
        if run is not None:
            await asyncio.wait([run.finished])
        await self.kernel.settled()
        if self.parts.sandbox is not None:
            await self.parts.sandbox.aclose()
        await self.parts.callbacks.in_thread(self.writer.keep_shortcut)
        self.writer.release()

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
        self.writer.acquire()  # another process may have answered since this one looked
        fact, run = answer(self.writer.view), self.writer.view.run
        if fact is None or run is None:
            return False
        self.writer.append(run.id, fact)
        await self.writer.durable()
        return True

    # What a host asks

    def view(self) -> View:
        return self.writer.view

    @property
    def begun(self) -> Set[str]:
        """The calls that the run at work has begun, finished ones included."""
        run = self.active
        return run.begun if run is not None else frozenset()

    def records(self) -> list[RunRecord]:
        """Oldest first; those of earlier processes are read off the log."""
        self.view()
        return self.book.all()

    def record(self, run_id: str) -> RunRecord | None:
        self.view()
        return self.book.get(run_id)

    async def known(self, run_id: str) -> RunRecord | None:
        """Like ``record``, also for a detached run whose record retention has dropped."""
        await self.ready()
        if not self.book.was_dropped(run_id):
            return self.record(run_id)
        self.writer.acquire()
        reading = partial(read_again, self.parts.log, self.parts.session_id, run_id)
        record: RunRecord | None = await self.parts.callbacks.in_thread(reading)
        return record

    def history(self) -> list[JsonObject]:
        return history(self.writer.view)

    async def call_tool(self, name: str, args: JsonObject, origin: Origin) -> ToolResult:
        """A host's direct call (tools.md §2.2); never raises for what the tool does."""
        self.check_open()
        invocation = self.kernel.host_call(name, args, origin, self.token.child())
        return result_of(invocation, await self.kernel.invoke(invocation))

    def _publish(self, fact: Fact, view: View) -> None:
        if self.active is not None and fact.run == self.active.id:
            self.active.on_fact(fact, view)

    def _trace_call(self, inv: Invocation, finished: Finished) -> None:
        self.book.traces.append(
            {
                "type": "tool_call",
                "run_id": inv.run_id,
                "name": inv.name,
                "outcome": finished.output.error_kind or "ok",
                "started_ms": inv.started_at_ms,
                "took_ms": finished.took_ms,
                "id": inv.id,
                "origin": inv.origin,
                **self.parts.labels.present(),
            }
        )
