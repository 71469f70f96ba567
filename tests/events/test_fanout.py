"""Broadcast of a run's events to its readers (api.md, *EventStream*)."""

from __future__ import annotations

import asyncio
import threading
import tracemalloc

from hypothesis import given, settings
from hypothesis import strategies as st

from a3s_code.core.events import AgentEvent
from a3s_code.engine.fanout import FULL_EVENTS, HARD_BYTES, OMITTED, Fanout, Subscription
from a3s_code.engine.recorder import EventRecorder


def text(sequence: int, piece: str = "x", kind: str = "text_delta", call: str | None = None) -> AgentEvent:
    return AgentEvent(kind, {"text": piece, **({"id": call} if call else {})}, {}, sequence)


def plain(sequence: int) -> AgentEvent:
    return AgentEvent("turn_start", {"turn": sequence}, {}, sequence)


def end(sequence: int) -> AgentEvent:
    return AgentEvent("agent_end", {"text": "", "turn": sequence}, {}, sequence)


async def read_all(reader: Subscription) -> list[AgentEvent]:
    events: list[AgentEvent] = []
    while batch := await reader.next_batch():
        events += batch
    return events


def transcript(events: list[AgentEvent]) -> str:
    """Deltas as their text, the others as marks: equal transcripts mean the same content in the same order."""
    return "".join(f"<{e.type} {e.turn}>" if "turn" in e.payload else f"{e.text}" for e in events)


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.tuples(st.sampled_from("ttttrop"), st.text("abü", max_size=3)), max_size=700),
    st.lists(st.integers(min_value=1, max_value=400), min_size=1, max_size=3),
)
def test_every_reader_gets_everything_in_order(script: list[tuple[str, str]], paces: list[int]) -> None:
    """However slowly each reads, no event that is no delta is lost or reordered and all text arrives, once."""
    fanout = Fanout(EventRecorder())
    readers = [(fanout.subscribe(), pace, list[AgentEvent]()) for pace in paces]
    events: list[AgentEvent] = []
    for sequence, (kind, piece) in enumerate(script, 1):
        match kind:
            case "t":
                event = text(sequence, piece)
            case "r":
                event = text(sequence, piece, "reasoning_delta")
            case "o":
                event = text(sequence, piece, "tool_output_delta", "c1")
            case _:
                event = plain(sequence)
        events.append(event)
    events.append(end(len(script) + 1))
    for number, event in enumerate(events):
        assert fanout.publish(event)
        for reader, pace, got in readers:
            if number % pace == 0:
                got += reader.take()
    for reader, _, got in readers:
        got += reader.take()
        assert transcript(got) == transcript(events)
        assert [e.sequence for e in got] == sorted({e.sequence for e in got})
        assert [e.type for e in got].count("agent_end") == 1
        assert reader.ended


def test_nothing_comes_after_the_terminal_event() -> None:
    """What is published after the end reaches nobody and is not recorded (case B09)."""
    fanout = Fanout(EventRecorder())
    reader = fanout.subscribe()
    assert fanout.publish(end(1))
    assert not fanout.publish(text(2))
    assert [event.type for event in reader.take()] == ["agent_end"]
    assert reader.ended
    assert fanout.recorder.event_count == 1


async def test_late_reader_gets_the_replay_and_then_what_is_live() -> None:
    """A reader who comes back with cursor 17 gets 18 to 25, also when it stood inside merged deltas (case C24)."""
    fanout = Fanout(EventRecorder())
    for sequence in range(1, 21):
        fanout.publish(text(sequence, f"[{sequence}]"))
    late, whole = fanout.subscribe(after=17), fanout.subscribe(after=0)
    for sequence in range(21, 26):
        fanout.publish(text(sequence, f"[{sequence}]"))
    fanout.publish(end(26))
    expected = "".join(f"[{sequence}]" for sequence in range(1, 26))
    assert transcript(await read_all(whole)) == expected + "<agent_end 26>"
    assert transcript(await read_all(late)) == expected[expected.index("[18]") :] + "<agent_end 26>"
    assert not late.gap


async def test_reader_after_the_end_gets_its_terminal_event_once() -> None:
    """After the run is over a cursor below the end gets the rest, a cursor at the end nothing, no cursor the end."""
    fanout = Fanout(EventRecorder(max_events=0))
    fanout.publish(text(1))
    fanout.publish(end(2))
    assert [e.type for e in await read_all(fanout.subscribe())] == ["agent_end"]
    assert [e.type for e in await read_all(fanout.subscribe(after=1))] == ["agent_end"]
    assert await read_all(fanout.subscribe(after=2)) == []
    assert fanout.subscribe(after=0).gap


async def test_producer_waits_for_a_reader_that_stopped_and_loses_nothing() -> None:
    """With events that can't be merged the producer stops at the limit, and goes on once the reader has read."""
    fanout = Fanout(EventRecorder())
    reader = fanout.subscribe()
    published = 0

    async def produce() -> None:
        nonlocal published
        for sequence in range(1, 5001):
            fanout.publish(plain(sequence))
            published = sequence
            if fanout.congested:
                await fanout.flow()
        fanout.publish(end(5001))

    task = asyncio.get_running_loop().create_task(produce())
    for _ in range(20):
        await asyncio.sleep(0)
    assert published == FULL_EVENTS + 1
    got = await read_all(reader)
    assert [event.sequence for event in got] == list(range(1, 5002))
    await task


async def test_producer_waits_for_text_too() -> None:
    """Merged text is bounded as well: a stopped reader holds the producer after some mebibytes."""
    fanout = Fanout(EventRecorder())
    reader = fanout.subscribe()
    piece = "x" * 50_000
    for sequence in range(1, 100):
        fanout.publish(text(sequence, piece))
    assert fanout.congested
    waiting = asyncio.get_running_loop().create_task(fanout.flow())
    await asyncio.sleep(0)
    assert not waiting.done()
    assert len(transcript(reader.take())) == 99 * 50_000
    await waiting
    assert not fanout.congested


async def test_closing_a_stopped_reader_frees_the_producer() -> None:
    """A reader that goes away is waited for no longer, and the others go on."""
    fanout = Fanout(EventRecorder())
    gone, stays = fanout.subscribe(), fanout.subscribe()
    for sequence in range(1, FULL_EVENTS + 10):
        fanout.publish(plain(sequence))
        stays.take()
    waiting = asyncio.get_running_loop().create_task(fanout.flow())
    await asyncio.sleep(0)
    assert not waiting.done()
    gone.close()
    await waiting
    fanout.publish(end(9999))
    assert (await read_all(stays))[-1].type == "agent_end"
    assert await gone.next_batch() == []


def test_memory_stays_bounded_when_a_tool_prints_for_ever_and_nobody_reads() -> None:
    """Two tools printing in turns without anybody waiting for them can't fill the memory; a mark tells (case H15)."""
    fanout = Fanout(EventRecorder(max_bytes=100_000))
    reader = fanout.subscribe()
    line = "y" * 4000
    tracemalloc.start()
    try:
        for sequence in range(1, 30_001):
            fanout.publish(text(sequence, line + str(sequence), "tool_output_delta", "a" if sequence % 2 else "b"))
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 3 * HARD_BYTES
    fanout.publish(end(30_001))
    got = reader.take()
    assert [event.text for event in got].count(OMITTED) == 1
    assert got[-1].type == "agent_end"


def test_reader_in_another_thread_gets_everything() -> None:
    """A blocking reader in a thread of its own is woken for what comes and ends with the terminal event."""
    fanout = Fanout(EventRecorder())
    reader = fanout.subscribe()
    got: list[AgentEvent] = []

    def read() -> None:
        while batch := reader.next_batch_blocking():
            got.extend(batch)

    thread = threading.Thread(target=read)
    thread.start()
    for sequence in range(1, 2001):
        fanout.publish(plain(sequence))
    fanout.publish(end(2001))
    thread.join(10)
    assert [event.sequence for event in got] == list(range(1, 2002))


def test_a_reader_who_comes_while_an_event_is_pushed_is_woken_once() -> None:
    """A waiter that registers just as a push leaves the lock is called by the next push only, and only once."""
    fanout = Fanout(EventRecorder())
    reader = fanout.subscribe()
    woken: list[int] = []

    class Lock:
        """Lets a waiter in between the locked part of a push and its wake-up calls."""

        armed = True

        def __enter__(self) -> None: ...

        def __exit__(self, *_: object) -> None:
            if self.armed:
                self.armed = False
                reader.take()
                assert reader._watch(lambda: woken.append(1))

    reader._lock = Lock()  # type: ignore[assignment]  # stands between two threads
    fanout.publish(plain(1))
    assert woken == []
    fanout.publish(plain(2))
    fanout.publish(plain(3))
    assert woken == [1]


async def test_run_without_a_terminal_event_still_ends_its_readers() -> None:
    """``end`` lets readers read what waits and then stops them."""
    fanout = Fanout(EventRecorder())
    reader = fanout.subscribe()
    fanout.publish(text(1))
    fanout.end()
    assert [e.type for e in await read_all(reader)] == ["text_delta"]
    assert not fanout.publish(text(2))
