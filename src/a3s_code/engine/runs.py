"""Run records (api.md, *Run record*). In: facts as they are loaded or written. Out: what a host asks about runs.

One rule: a record is read off facts, so that a restarted process tells the same story; only events are kept apart.
Known weakness: the events of runs from before a restart are not in the log and are gone.
"""

from __future__ import annotations

from collections import deque

from a3s_code.core import project
from a3s_code.core.content import Json, JsonObject, Usage
from a3s_code.core.facts import Fact, RunClosed, RunOpened, UserSaid
from a3s_code.core.facts.runs import Failure
from a3s_code.core.fold import fold
from a3s_code.core.state import View
from a3s_code.engine.parts import Limits
from a3s_code.engine.recorder import EventRecorder
from a3s_code.engine.shortcut import SavedRun
from a3s_code.errors import CodeError
from a3s_code.ports.log import FactLog


class RunRecord:
    """``status`` is ``parked`` for an open run nobody works on; the engine sets ``running`` while it does."""

    def __init__(self, run_id: str, session_id: str, opened: RunOpened, ts: int, recorder: EventRecorder) -> None:
        self.id = run_id
        self.session_id = session_id
        self.status = "parked"
        self.prompt = ""
        self.cause = opened.cause
        self.input_digest = opened.input_digest
        self.created_ms = ts
        self.updated_ms = ts
        self.ended_ms: int | None = None
        self.steps = 0
        self.usage = Usage()
        self.text = ""
        self.error: Failure | None = None
        self.stop_reason: str | None = None
        self.recorder = recorder

    def fail(self, error: CodeError, ts: int) -> None:
        """Ends the record of a run whose log takes no closing fact."""
        self.status, self.error, self.ended_ms = "failed", Failure(error.code, str(error)), ts

    def snapshot(self) -> JsonObject:
        error: Json = {"code": self.error.code, "message": self.error.message} if self.error else None
        return {
            "id": self.id,
            "session_id": self.session_id,
            "status": self.status,
            "prompt": self.prompt,
            "cause": self.cause,
            "created_ms": self.created_ms,
            "updated_ms": self.updated_ms,
            "ended_ms": self.ended_ms,
            "event_count": self.recorder.event_count,
            "steps": self.steps,
            "usage": project.usage(self.usage),
            "text": self.text,
            "error": error,
        }


class RunBook:
    """The records of one session, oldest first, at most ``limits.runs`` of them."""

    def __init__(self, session_id: str, limits: Limits) -> None:
        self._session_id = session_id
        self._limits = limits
        self._records: dict[str, RunRecord] = {}
        self._dropped: set[str] = set()
        self.traces: deque[JsonObject] = deque(maxlen=limits.traces)

    def observe(self, fact: Fact, view: View) -> None:
        """Takes in one fact; seeing a fact again changes nothing."""
        if isinstance(fact.data, RunOpened):
            self.open(fact.data, fact.ts, view).created_ms = fact.ts  # a live record was made just before its fact
            return
        record = self._records.get(fact.run)
        if record is None or record.ended_ms is not None:
            return
        record.updated_ms = max(record.updated_ms, fact.ts)
        if isinstance(fact.data, UserSaid) and fact.data.source == "prompt":
            record.prompt = fact.data.text
        run = view.run
        if isinstance(fact.data, RunClosed):
            record.status, record.error, record.ended_ms = fact.data.status, fact.data.error, fact.ts
            record.stop_reason = fact.data.stop_reason
            run = view.closed.run if view.closed else None
        if run is not None:
            record.steps, record.usage, record.text = run.steps, run.usage, run.text

    def open(self, opened: RunOpened, ts: int, view: View) -> RunRecord:
        """The record of a run that begins, made before its first fact is written; the one there is, if there is."""
        record = self._records.get(opened.run)
        if record is not None:
            return record
        recorder = EventRecorder(self._limits.events, self._limits.event_bytes)
        record = RunRecord(opened.run, self._session_id, opened, ts, recorder)
        record.prompt = view.prompt if opened.resumes else ""
        self._records[opened.run] = record
        limit = self._limits.runs
        while limit is not None and len(self._records) > max(1, limit):
            oldest = self._records.pop(next(iter(self._records)))
            if oldest.input_digest is not None:
                self._dropped.add(oldest.id)
        return record

    def saved(self) -> tuple[SavedRun, ...]:
        """The records as they go into a shortcut."""
        return tuple(
            SavedRun(
                record.id,
                "parked" if record.status == "running" else record.status,
                record.prompt,
                record.cause,
                record.created_ms,
                record.updated_ms,
                record.ended_ms,
                record.steps,
                record.usage,
                record.text,
                record.input_digest,
                record.error,
                record.stop_reason,
            )
            for record in self._records.values()
        )

    def dropped(self) -> tuple[str, ...]:
        return tuple(sorted(self._dropped))

    def restore(self, runs: tuple[SavedRun, ...], dropped: tuple[str, ...]) -> None:
        """Takes in the records of a shortcut, before any fact."""
        self._dropped.update(dropped)
        for saved in runs:
            if saved.id in self._records:
                continue
            recorder = EventRecorder(self._limits.events, self._limits.event_bytes)
            opened = RunOpened(saved.id, saved.cause, input_digest=saved.input_digest)
            record = RunRecord(saved.id, self._session_id, opened, saved.created_ms, recorder)
            record.status, record.prompt, record.text = saved.status, saved.prompt, saved.text
            record.updated_ms, record.ended_ms = saved.updated_ms, saved.ended_ms
            record.steps, record.usage = saved.steps, saved.usage
            record.error, record.stop_reason = saved.error, saved.stop_reason
            self._records[saved.id] = record

    def drop(self, run_id: str) -> None:
        """Forgets a run whose first fact could not be written."""
        self._records.pop(run_id, None)

    def get(self, run_id: str) -> RunRecord | None:
        return self._records.get(run_id)

    def was_dropped(self, run_id: str) -> bool:
        """Whether this is a detached run whose record is no longer kept: its id was used all the same."""
        return run_id in self._dropped

    def all(self) -> list[RunRecord]:
        return list(self._records.values())


def read_again(log: FactLog, session_id: str, run_id: str) -> RunRecord | None:
    """The record of a run that retention has dropped. Blocks for the length of the log, which must be acquired."""
    book = RunBook(session_id, Limits(runs=None))
    view = View()
    for fact in log.read():
        view = fold(view, fact)
        book.observe(fact, view)
    return book.get(run_id)
