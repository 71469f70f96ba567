"""A session as one generation (durability.md, *Snapshot*). In: its view and records. Out: a document, and records.

One rule: what is restored is only what no log holds (events, traces, artifacts) and records of runs that a log has
lost; the conversation comes from facts.
Known weakness: usage totals are those of the runs whose records are kept. Messages are what ``history()`` says, so
attachments and reasoning signatures stay behind on the machine that has the log.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from a3s_code.core import project
from a3s_code.core.codec import Header, encode
from a3s_code.core.content import Json, JsonObject, Usage
from a3s_code.core.documents import FactLogMark, SessionSnapshot
from a3s_code.core.events.envelope import AgentEvent
from a3s_code.core.facts import KIND_OF, Fact
from a3s_code.core.history import history, seed
from a3s_code.core.state import View
from a3s_code.engine.artifacts import Artifacts
from a3s_code.engine.keeping import Keeping
from a3s_code.engine.parts import Parts
from a3s_code.engine.runs import RunBook, RunRecord
from a3s_code.engine.shortcut import SavedRun
from a3s_code.errors import CodeError, StoreError
from a3s_code.ports.clock import HostEnv

SEEDED = "seeded"
"""The member of a log's header that says which snapshot it was begun from."""

Ending = Mapping[str, Sequence[AgentEvent]]


def taken(
    parts: Parts,
    keeping: Keeping,
    view: View,
    mark: FactLogMark,
    book: RunBook,
    artifacts: Artifacts,
    saved_ms: int,
    ending: Ending,
) -> SessionSnapshot:
    """The session as it stands. ``ending`` holds events of runs that are yet to be sent. Slow for a long session: call
    it in a worker thread."""
    records = book.all()
    return SessionSnapshot(
        session_id=parts.session_id,
        labels=parts.labels.present(),
        workspace=parts.workspace.root,
        model=keeping.model,
        options=keeping.options,
        messages=history(view),
        artifacts=artifacts.all(),
        traces=list(book.traces),
        runs=[_run(record, ending.get(record.id, ())) for record in records],
        usage=project.usage(sum((record.usage for record in records), Usage())),
        fact_log=msgspec.to_builtins(mark),
        saved_ms=saved_ms,
    )


def _run(record: RunRecord, ending: Sequence[AgentEvent]) -> JsonObject:
    events: list[Json] = [_shown(event) for event in (*record.recorder.events(), *ending)]
    saved = record.snapshot()
    if saved["status"] == "running":
        saved["status"] = "parked"
    saved["event_count"] = record.recorder.event_count + len(ending)
    return {**saved, "input_digest": record.input_digest, "stop_reason": record.stop_reason, "events": events}


def _shown(event: AgentEvent) -> JsonObject:
    """The event as JSON, sharing its payload: a snapshot is only read."""
    return {"version": 1, "type": event.type, "payload": event.payload, "metadata": event.metadata}


def restore_records(snapshot: SessionSnapshot, book: RunBook, artifacts: Artifacts, env: HostEnv) -> None:
    """Takes in what the log doesn't hold, in the place of what an older snapshot said. ``SERIALIZATION_ERROR`` for a
    snapshot that some other writer filled otherwise."""
    try:
        for run in snapshot.runs:
            saved = msgspec.convert({**run, "usage": run.get("usage") or {}}, SavedRun)
            book.drop(saved.id)
            book.restore((saved,), ())
            record = book.get(saved.id)
            events = run.get("events")
            if record is not None and isinstance(events, list):
                for event in events:
                    record.recorder.add(_event(event))
                record.recorder.event_count = int(str(run.get("event_count", record.recorder.event_count)))
            if env.fixed:
                env.seen(saved.id)
        book.traces.clear()
        book.traces.extend(snapshot.traces)
        for artifact in snapshot.artifacts:
            artifacts.put(str(artifact["uri"]), str(artifact["tool"]), str(artifact["content"]))
    except (msgspec.ValidationError, KeyError, ValueError) as error:
        what = f"the snapshot of session {snapshot.session_id!r} can't be restored: {error}"
        raise StoreError(what, "SERIALIZATION_ERROR") from error


class _Event(msgspec.Struct):
    type: str
    payload: JsonObject
    metadata: JsonObject


def _event(data: Json) -> AgentEvent:
    read = msgspec.convert(data, _Event)
    labels = {name: str(value) for name, value in read.metadata.items() if name not in ("sequence", "timestamp_ms")}
    sequence, at = (int(str(read.metadata.get(name, 0))) for name in ("sequence", "timestamp_ms"))
    return AgentEvent(read.type, read.payload, labels, sequence, at)


def seeded_header(header: Header, snapshot: SessionSnapshot) -> Header:
    """The header of a log that begins with the messages of ``snapshot``."""
    return msgspec.structs.replace(header, more={SEEDED: snapshot.fact_log})


def was_seeded(header: Header | None, snapshot: SessionSnapshot) -> bool:
    """Whether the log was begun from this state of the session, whatever came after it."""
    return header is not None and SEEDED in header.more and header.more[SEEDED] == snapshot.fact_log


def seed_lines(snapshot: SessionSnapshot, env: HostEnv) -> list[bytes]:
    """The messages of ``snapshot`` as the first lines of a log, of no run."""
    try:
        messages = seed(snapshot.messages)
    except CodeError as error:
        what = f"the snapshot of session {snapshot.session_id!r} can't be restored: {error}"
        raise StoreError(what, "SERIALIZATION_ERROR") from error
    lines: list[bytes] = []
    before, now = "", env.now_ms()
    for seq, data in enumerate(messages, 1):
        raw, before = encode(Fact(seq, env.new_id(), now, "", KIND_OF[type(data)], data), before)
        lines.append(raw.removesuffix(b"\n"))
    return lines
