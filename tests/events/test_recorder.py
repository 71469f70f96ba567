"""What is kept of a run's events (api.md, *Retention*)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from a3s_code.core.events import AgentEvent
from a3s_code.engine.recorder import EventRecorder


def text(sequence: int, piece: str, kind: str = "text_delta") -> AgentEvent:
    return AgentEvent(kind, {"text": piece}, {}, sequence)


def plain(sequence: int, size: int = 0) -> AgentEvent:
    return AgentEvent("turn_start", {"turn": sequence, "pad": "x" * size}, {}, sequence)


def joined(events: list[AgentEvent]) -> str:
    return "".join(f"<{event.turn}>" if event.text is None else event.text for event in events)


def turns(page: Any) -> list[int]:
    return [event["payload"]["turn"] for event in page["events"]]


def test_neighbouring_deltas_are_one_record() -> None:
    """A thousand deltas in a row take one place, so that text does not crowd out the rest."""
    recorder = EventRecorder(max_events=2)
    recorder.add(plain(1))
    for sequence in range(2, 1002):
        recorder.add(text(sequence, "ab"))
    assert recorder.event_count == 2
    first, second = recorder.events()
    assert (first.type, second.text, second.sequence) == ("turn_start", "ab" * 1000, 1001)


@given(
    st.lists(st.tuples(st.sampled_from("tro"), st.text(max_size=4)), max_size=60),
    st.integers(min_value=0, max_value=70),
)
def test_any_cursor_gives_exactly_what_came_after_it(script: list[tuple[str, str]], cursor: int) -> None:
    """Also a cursor in the middle of merged deltas gets each later character once and no earlier one (case C24)."""
    recorder, after = EventRecorder(), ""
    for sequence, (kind, piece) in enumerate(script, 1):
        if kind == "o":
            recorder.add(plain(sequence))
        else:
            recorder.add(text(sequence, piece, "text_delta" if kind == "t" else "reasoning_delta"))
        if sequence > cursor:
            after += f"<{sequence}>" if kind == "o" else piece
    kept = recorder.events(cursor)
    assert joined(kept) == after
    assert not recorder.gap(cursor)


def test_oldest_go_first_and_the_count_never_falls() -> None:
    """Past the limit the oldest records are dropped, the page says so, and the count keeps growing."""
    recorder = EventRecorder(max_events=3)
    for sequence in range(1, 11):
        recorder.add(plain(sequence))
    page = recorder.page()
    assert turns(page) == [8, 9, 10]
    assert (recorder.event_count, page["retention_gap"], page["next_sequence"]) == (10, True, 10)
    assert recorder.page(after_sequence=6)["retention_gap"] is True
    assert recorder.page(after_sequence=7)["retention_gap"] is False


def test_pages_follow_one_another_without_loss() -> None:
    """Reading page by page with ``next_sequence`` gives everything once; at the end the cursor stays."""
    recorder = EventRecorder()
    for sequence in range(1, 24):
        recorder.add(plain(sequence))
    seen: list[int] = []
    cursor: Any = None
    while (page := recorder.page(cursor, limit=5))["events"]:
        seen += turns(page)
        cursor = page["next_sequence"]
    assert seen == list(range(1, 24))
    assert page == {"events": [], "next_sequence": 23, "retention_gap": False}


def test_byte_cap_drops_the_oldest_and_refuses_one_too_big() -> None:
    """Kept bytes stay under the cap; an event above it is not kept but counted, and shows as a gap."""
    recorder = EventRecorder(max_bytes=10_000)
    for sequence in range(1, 101):
        recorder.add(plain(sequence, 1000))
    assert 8 <= len(recorder.events()) <= 10
    recorder.add(plain(101, 20_000))
    recorder.add(plain(102))
    assert [event.turn for event in recorder.events(100)] == [102]
    assert recorder.gap(100)
    assert recorder.event_count == 102


def test_endless_text_of_one_kind_stays_under_the_byte_cap() -> None:
    """A stream of nothing but deltas is bounded too: its beginning goes, its end stays (case H15)."""
    recorder = EventRecorder(max_bytes=200_000)
    for sequence in range(1, 20_001):
        recorder.add(text(sequence, f"{sequence:06d} and some text, é"))
    kept = joined(recorder.events())
    assert 50_000 < len(kept) < 200_000
    assert kept.endswith("020000 and some text, é")
    assert recorder.gap(None)


@pytest.mark.parametrize("limits", [{"max_events": 0}, {"max_bytes": 0}])
def test_a_limit_of_nothing_keeps_nothing(limits: dict[str, int]) -> None:
    """Zero is a limit like any other, for deltas as for the rest."""
    recorder = EventRecorder(**limits)
    recorder.add(plain(1))
    recorder.add(text(2, "a"))
    recorder.add(text(3, "b"))
    assert recorder.events() == []
    assert recorder.gap(0)


def test_unbounded_keeps_everything() -> None:
    """Without limits nothing is dropped."""
    recorder = EventRecorder(max_events=None, max_bytes=None)
    for sequence in range(1, 5001):
        recorder.add(plain(sequence))
    assert len(recorder.events()) == 5000
    assert not recorder.gap(None)
