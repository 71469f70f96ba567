"""The event envelope and the catalogue (api.md, *Events*)."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from a3s_code.core.events import AGENT_EVENT_TYPES_V1, AgentEvent, EventType, agent_event_types_v1, merge, mergeable

LABELS = {"run_id": "r1", "session_id": "s1", "tenant_id": "t"}


def delta(text: str, sequence: int = 1, kind: str = "text_delta", **more: str) -> AgentEvent:
    field = "delta" if kind == "tool_input_delta" else "text"
    return AgentEvent(kind, {field: text, **more}, LABELS, sequence, 1000 + sequence)


def test_catalogue_is_ordered_and_each_name_has_a_constant() -> None:
    """The catalogue starts with agent_start, ends with peer_invocation, and EventType holds each name once."""
    assert AGENT_EVENT_TYPES_V1[0] == "agent_start"
    assert AGENT_EVENT_TYPES_V1[-1] == "peer_invocation"
    assert len(set(AGENT_EVENT_TYPES_V1)) == len(AGENT_EVENT_TYPES_V1) == 52
    assert all(getattr(EventType, name.upper()) == name for name in AGENT_EVENT_TYPES_V1)
    assert (EventType.START, EventType.END) == ("agent_start", "agent_end")


def test_catalogue_copy_is_the_callers_own() -> None:
    """Changing the returned list does not change the catalogue."""
    agent_event_types_v1().clear()
    assert agent_event_types_v1() == list(AGENT_EVENT_TYPES_V1)


def test_envelope_shows_metadata_and_json_texts() -> None:
    """Metadata is the run's labels, the sequence and the time; the JSON texts say the same."""
    event = AgentEvent("turn_end", {"turn": 3, "usage": {"total_tokens": 12}}, LABELS, 7, 99)
    assert event.metadata == {**LABELS, "sequence": 7, "timestamp_ms": 99}
    assert json.loads(event.metadata_json) == event.metadata
    assert json.loads(event.payload_json) == event.payload
    assert (event.version, event.event_type, event.turn, event.total_tokens) == (1, "turn_end", 3, 12)


@pytest.mark.parametrize(("name_key", "id_key"), [("name", "id"), ("tool_name", "tool_id")])
def test_tool_properties_read_either_spelling(name_key: str, id_key: str) -> None:
    """``tool_name`` and ``tool_id`` come from the long or the short key."""
    event = AgentEvent("tool_end", {name_key: "bash", id_key: "c1", "output": "ok", "exit_code": 0, "args": {"a": 1}})
    assert (event.tool_name, event.tool_id, event.output, event.exit_code) == ("bash", "c1", "ok", 0)
    assert event.args == {"a": 1}


def test_properties_that_do_not_apply_are_none() -> None:
    """An unknown type keeps its whole payload, and every convenience property is None."""
    event = AgentEvent("from_the_future", {"what": [1, {"x": None}]})
    assert event.payload == {"what": [1, {"x": None}]}
    names = "text tool_name tool_id args output exit_code error turn total_tokens verification_summary_text".split()
    assert [getattr(event, name) for name in names] == [None] * len(names)


def test_error_event_gives_its_message_as_error() -> None:
    """``error`` of an error event is its message."""
    assert AgentEvent("error", {"message": "no", "code": "LLM_ERROR"}).error == "no"
    assert AgentEvent("persistence_failed", {"what": "log", "error": "full"}).error == "full"


def test_to_dict_is_a_deep_copy() -> None:
    """Changing what ``to_dict`` gave changes no event."""
    event = AgentEvent("x", {"a": [{"b": 1}]}, LABELS, 1, 2)
    copy = event.to_dict()
    assert copy == {"version": 1, "type": "x", "payload": {"a": [{"b": 1}]}, "metadata": event.metadata}
    copy["payload"]["a"][0]["b"] = 2  # type: ignore[index,call-overload]  # it is the dict just compared
    assert event.payload == {"a": [{"b": 1}]}


def test_equality_covers_type_payload_and_metadata() -> None:
    """Events are equal when all that a reader sees is."""
    assert delta("a") == delta("a")
    assert delta("a") != delta("b")
    assert delta("a") != delta("a", sequence=2)
    assert delta("a") != delta("a", kind="reasoning_delta")
    assert "text_delta" in repr(delta("a"))


@given(
    st.text(), st.text(), st.sampled_from(["text_delta", "reasoning_delta", "tool_input_delta", "tool_output_delta"])
)
def test_merge_joins_texts_and_keeps_the_later_place(first: str, second: str, kind: str) -> None:
    """Merging neighbours joins their texts and takes the sequence of the later one; the inputs stay as they were."""
    more = {"id": "c1", "name": "bash"} if kind.startswith("tool") else {}
    a, b = delta(first, 1, kind, **more), delta(second, 2, kind, **more)
    assert mergeable(a, b)
    assert merge(a, b) == delta(first + second, 2, kind, **more)
    assert a == delta(first, 1, kind, **more)


def test_merge_refuses_other_calls_and_other_types() -> None:
    """Deltas of two calls or of two types, and events that are no deltas, are never merged."""
    a = delta("x", kind="tool_output_delta", id="c1")
    for other in (delta("y", kind="tool_output_delta", id="c2"), delta("y"), AgentEvent("tool_end", {"id": "c1"})):
        assert not mergeable(a, other)
        with pytest.raises(ValueError, match="does not continue"):
            merge(a, other)
    assert not mergeable(AgentEvent("tool_end", {}), AgentEvent("tool_end", {}))
