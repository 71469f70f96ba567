"""The run at work. In: the session's parts and a token. Out: what every doer needs: append, emit, cancel.

One rule: all events of a run leave through ``emit``, in one order, and the last one is ``agent_end`` or ``error``.
Known weakness: none known.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Protocol

from a3s_code.core.content import Call, Json, JsonObject
from a3s_code.core.events.envelope import AgentEvent
from a3s_code.core.facts import Fact, FactData, RunClosed, ToolResulted, ToolStarted
from a3s_code.core.project import Event, of_fact, output_delta
from a3s_code.core.rules import Rules
from a3s_code.core.state import ClosedRun, RunState, View
from a3s_code.engine.fanout import Fanout
from a3s_code.engine.invoke.invocation import Invocation
from a3s_code.engine.invoke.kernel import Kernel
from a3s_code.engine.invoke.streamed import OutputStream
from a3s_code.engine.noted import of_fact as of_fact_to_hooks
from a3s_code.engine.parts import Parts
from a3s_code.engine.runs import RunRecord
from a3s_code.engine.token import CancelToken
from a3s_code.engine.worktime import WorkTime
from a3s_code.engine.writer import Writer
from a3s_code.errors import CodeError


class Keeper(Protocol):
    """Who keeps a run in a session store. ``saves``: a snapshot is saved when it has settled."""

    @property
    def saves(self) -> bool: ...

    async def checkpoint(self, run: ActiveRun) -> None:
        """Keeps what the log has of the run. Raises nothing."""

    def is_sure(self) -> bool:
        """Whether nobody else can be at work on the session."""

    async def made_sure(self, run: ActiveRun) -> None:
        """Waits until that is so. ``Interrupted`` when the run ends meanwhile."""


class ActiveRun:
    """``closing`` is set while the session closes; ``left`` says why the run is to be left open at its next step, to be
    gone on with elsewhere; ``outcome`` and ``error`` are set once ``finished`` is done.
    ``latest`` is what the log last said of the run, also when it takes no closing fact. ``results_kept`` says that the
    ``keeper`` has every tool result."""

    def __init__(
        self, run_id: str, parts: Parts, writer: Writer, kernel: Kernel, token: CancelToken, record: RunRecord
    ) -> None:
        self.id = run_id
        self.parts = parts
        self.writer = writer
        self.rules: Rules = parts.rules
        self.kernel = kernel
        self.token = token
        self.record = record
        self.fanout = Fanout(record.recorder)
        self.guard = kernel.guard
        self.firing = kernel.firing
        self.turn = 0
        self.error: CodeError | None = None
        self.outcome: ClosedRun | None = None
        self.latest: RunState | None = None
        self.owner: object = None
        self.begun: set[str] = set()
        self.deadline_hit = False
        self.traces: deque[JsonObject] = deque(maxlen=0)
        self.worktime = WorkTime(parts.max_execution_time_ms, parts.clock, self._out_of_time)
        self.closing = False
        self.left: CodeError | None = None
        self.parked = False
        self.published: set[str] = set()
        self.answered = asyncio.Event()
        self.finished: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._labels = {"run_id": run_id, "session_id": parts.session_id, **parts.labels.present()}
        self._sanitizer = parts.governance.sanitizer
        self.sequence = 0
        self.keeper: Keeper | None = None
        self.held: list[tuple[Event, int]] = []
        self.results_kept = True
        self._loop = asyncio.get_running_loop()

    @property
    def view(self) -> View:
        return self.writer.view

    def _out_of_time(self) -> None:
        self.deadline_hit = True
        self.token.cancel("the run was out of time")

    def append(self, *data: FactData) -> None:
        self.writer.append(self.id, *data)

    async def durable(self) -> None:
        await self.writer.durable()

    def on_fact(self, fact: Fact, view: View) -> None:
        """Publishes the events of a fact of this run."""
        self.latest = view.run or self.latest
        of_fact_to_hooks(self.firing, fact, view, self.published)
        if isinstance(fact.data, ToolStarted):
            self.begun.add(fact.data.call)
        if self.keeper is None:
            for event in of_fact(fact, view):
                self.emit(event)
        else:
            self._tell_and_keep(fact, view)
        self.answered.set()

    def _tell_and_keep(self, fact: Fact, view: View) -> None:
        """The last event is held back while a snapshot is saved, so that a failure can be told before it."""
        assert self.keeper is not None
        self.results_kept = self.results_kept and not isinstance(fact.data, ToolResulted)
        for event in of_fact(fact, view):
            if self.keeper.saves and isinstance(fact.data, RunClosed):
                self.held.append((event, self.parts.env.now_ms()))
            else:
                self.emit(event)

    def ending(self) -> list[AgentEvent]:
        """The events that are held back, as they will be sent."""
        return [self._made(event, self.sequence + 1 + i, at) for i, (event, at) in enumerate(self.held)]

    def end(self) -> None:
        """Sends what was held back, and nothing after it."""
        held, self.held = self.held, []
        for event, at in held:
            self.emit(event, at)

    def emit(self, event: Event, at_ms: int | None = None) -> None:
        """Sends one event to the record and to every reader. Nothing follows the terminal one."""
        self.sequence += 1
        at_ms = self.parts.env.now_ms() if at_ms is None else at_ms
        self.fanout.publish(self._made(event, self.sequence, at_ms))

    def _made(self, event: Event, sequence: int, at_ms: int) -> AgentEvent:
        kind, payload = event
        if self._sanitizer is not None:
            payload = self._sanitizer.payload(payload)
        return AgentEvent(kind, payload, self._labels, sequence, at_ms)

    def whisper(self, event: Event) -> None:
        """Tells whoever reads now, and nobody later; takes the place of no other event."""
        if not self.fanout.congested:
            kind, payload = event
            self.fanout.tell(AgentEvent(kind, payload, self._labels, self.sequence, self.parts.env.now_ms()))

    def invocation(self, call: Call) -> Invocation:
        """A call of the model on its way to the kernel."""

        def emit_output(text: str) -> None:
            if text:
                self.emit(output_delta(call.id, call.name, text))

        output = OutputStream(emit_output, self._loop, self._sanitizer, together=self.parts.env.fixed)

        invocation = Invocation(call.id, call.name, call.args, "agent", self.id, self.token, output.add)
        invocation.flush = output.end
        invocation.announce = self.emit
        invocation.approved = call.verdict.decision == "ask"  # one that asks comes here only with an approval
        invocation.scope = call.verdict.scope
        return invocation

    def trace(self, kind: str, name: str, started_ms: int, outcome: str, **more: Json) -> None:
        """Adds one line to the session's trace."""
        now = self.parts.env.now_ms()
        line: JsonObject = {"type": kind, "run_id": self.id, "name": name, "outcome": outcome}
        times: JsonObject = {"started_ms": started_ms, "took_ms": now - started_ms}
        self.traces.append({**line, **times, **more, **self.parts.labels.present()})
