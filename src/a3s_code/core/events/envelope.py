"""One public event (api.md, *Events*). In: a type, a payload, the run's labels, a sequence and a time. Out: AgentEvent.

One rule: an event is made for every streamed delta, so whatever is not always read is built when it is read.
Known weakness: the payload is shared by everybody who reads the event; who wants to change it takes a copy.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from a3s_code.core.content import Json, JsonObject
from a3s_code.core.events.catalogue import DELTA_FIELDS, TERMINAL_TYPES

NO_LABELS: Final[Mapping[str, str]] = {}


class AgentEvent:
    """An event of a run. ``type`` is an open string: a type this version doesn't know keeps its whole payload.

    ``labels`` is one mapping a run (``run_id``, ``session_id`` and the identity labels that are set), shared by its
    events; ``metadata`` is that plus ``sequence`` and ``timestamp_ms`` (Unix), as a new dict at each look.
    """

    __slots__ = ("labels", "payload", "sequence", "timestamp_ms", "type")

    version: Final = 1

    def __init__(
        self,
        event_type: str,
        payload: JsonObject,
        labels: Mapping[str, str] = NO_LABELS,
        sequence: int = 0,
        timestamp_ms: int = 0,
    ) -> None:
        self.type = event_type
        self.payload = payload
        self.labels = labels
        self.sequence = sequence
        self.timestamp_ms = timestamp_ms

    @property
    def event_type(self) -> str:
        """The same as ``type``."""
        return self.type

    @property
    def metadata(self) -> JsonObject:
        """``run_id``, ``session_id``, the labels that are set, ``sequence`` and ``timestamp_ms``."""
        return {**self.labels, "sequence": self.sequence, "timestamp_ms": self.timestamp_ms}

    @property
    def payload_json(self) -> str:
        """``payload`` as JSON text."""
        return msgspec.json.encode(self.payload).decode()

    @property
    def metadata_json(self) -> str:
        """``metadata`` as JSON text."""
        return msgspec.json.encode(self.metadata).decode()

    @property
    def is_terminal(self) -> bool:
        """Whether this is the last event of its run (``agent_end`` or ``error``)."""
        return self.type in TERMINAL_TYPES

    @property
    def text(self) -> str | None:
        """The text of a delta or of ``agent_end``. ``None`` where that doesn't apply."""
        return self._string("text")

    @property
    def tool_name(self) -> str | None:
        """The tool, from ``tool_name`` or ``name``. ``None`` where that doesn't apply."""
        return self._string("tool_name", "name")

    @property
    def tool_id(self) -> str | None:
        """The call, from ``tool_id`` or ``id``. ``None`` where that doesn't apply."""
        return self._string("tool_id", "id")

    @property
    def args(self) -> JsonObject | None:
        """The arguments of a call. ``None`` where that doesn't apply."""
        value = self.payload.get("args")
        return value if isinstance(value, dict) else None

    @property
    def output(self) -> str | None:
        """What a call gave. ``None`` where that doesn't apply."""
        return self._string("output")

    @property
    def exit_code(self) -> int | None:
        """0 for a call that succeeded. ``None`` where that doesn't apply."""
        return _integer(self.payload.get("exit_code"))

    @property
    def error(self) -> str | None:
        """The ``error`` of the payload, or the ``message`` of an ``error`` event."""
        return self._string("error") or (self._string("message") if self.type == "error" else None)

    @property
    def turn(self) -> int | None:
        """The number of the model turn, from 1. ``None`` where that doesn't apply."""
        return _integer(self.payload.get("turn"))

    @property
    def total_tokens(self) -> int | None:
        """Of the payload, or of its ``usage``. ``None`` where that doesn't apply."""
        usage = self.payload.get("usage")
        inner = usage.get("total_tokens") if isinstance(usage, dict) else None
        return _integer(self.payload.get("total_tokens", inner))

    @property
    def verification_summary_text(self) -> str | None:
        """The text of the verification summary, wherever the payload has it."""
        summary = self.payload.get("verification_summary")
        inner = summary.get("text") if isinstance(summary, dict) else summary
        return self._string("verification_summary_text") or (inner if isinstance(inner, str) else None)

    def to_dict(self) -> JsonObject:
        """A deep copy as plain JSON values: ``version``, ``type``, ``payload``, ``metadata``."""
        return {"version": 1, "type": self.type, "payload": _copy(self.payload), "metadata": self.metadata}

    def _string(self, *names: str) -> str | None:
        for name in names:
            value = self.payload.get(name)
            if isinstance(value, str):
                return value
        return None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, AgentEvent):
            return NotImplemented
        return self.type == other.type and self.payload == other.payload and self.metadata == other.metadata

    def __hash__(self) -> int:
        return hash((self.type, self.sequence, self.timestamp_ms))

    def __repr__(self) -> str:
        return f"AgentEvent(#{self.sequence} {self.type} {self.payload!r})"


def mergeable(a: AgentEvent, b: AgentEvent) -> bool:
    """Whether ``b`` only continues the text of ``a``: deltas of one type and, for tools, of one call."""
    return a.type == b.type and a.type in DELTA_FIELDS and a.payload.get("id") == b.payload.get("id")


def merge(a: AgentEvent, b: AgentEvent) -> AgentEvent:
    """One event with the text of both neighbours and the sequence and time of the later; see ``mergeable``."""
    if not mergeable(a, b):
        raise ValueError(f"{b!r} does not continue {a!r}")
    return with_text(b, delta_text(a) + delta_text(b))


def delta_text(event: AgentEvent) -> str:
    """The text that a delta adds."""
    value = event.payload.get(DELTA_FIELDS[event.type])
    return value if isinstance(value, str) else ""


def with_text(event: AgentEvent, text: str) -> AgentEvent:
    """The delta ``event`` with another text."""
    payload = {**event.payload, DELTA_FIELDS[event.type]: text}
    return AgentEvent(event.type, payload, event.labels, event.sequence, event.timestamp_ms)


def _integer(value: Json) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _copy(value: Json) -> Json:
    if isinstance(value, dict):
        return {key: _copy(member) for key, member in value.items()}
    if isinstance(value, list):
        return [_copy(member) for member in value]
    return value
