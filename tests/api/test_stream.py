"""The event stream in both faces (api.md, *EventStream*)."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from a3s_code.api.blocking import Home
from a3s_code.api.stream import EventStream
from a3s_code.core.events import AgentEvent
from a3s_code.engine.fanout import Fanout
from a3s_code.engine.recorder import EventRecorder
from a3s_code.errors import CodeError


@pytest.fixture
def home() -> Iterator[Home]:
    private = Home.private()
    yield private
    private.close()


class Run:
    """A run of ``count`` deltas that holds a gate until a little after its terminal event."""

    def __init__(self, home: Home, count: int, *, ends: bool = True) -> None:
        self.fanout = Fanout(EventRecorder())
        self.home = home
        self.count = count
        self.gate_free = False
        self.interrupted = asyncio.Event()
        self.ended = threading.Event()
        self.task = asyncio.get_running_loop().create_task(self._work(ends))
        self.stream = EventStream(home, self.fanout.subscribe(), self.interrupted.set, self.task)

    async def _work(self, ends: bool) -> None:
        for sequence in range(1, self.count + 1):
            self.fanout.publish(AgentEvent("text_delta", {"text": "ab"}, {}, sequence))
            if self.fanout.congested:
                await self.fanout.flow()
            if sequence % 50 == 0:
                await asyncio.sleep(0)
        if not ends:
            await self.interrupted.wait()
        self.fanout.publish(AgentEvent("agent_end", {"text": "done"}, {}, self.count + 1))
        for _ in range(5):
            await asyncio.sleep(0)
        self.gate_free = True
        self.ended.set()

    @staticmethod
    def start(home: Home, count: int, *, ends: bool = True) -> Run:
        async def make() -> Run:
            return Run(home, count, ends=ends)

        return home.run(make)


def test_blocking_reader_gets_all_text_and_one_terminal_event(home: Home) -> None:
    """A loop over a stream gets every character, then exactly one terminal event, then just stops."""
    run = Run.start(home, 20_000)
    events = list(run.stream)
    assert "".join(event.text or "" for event in events[:-1]) == "ab" * 20_000
    assert [event.type for event in events].count("agent_end") == 1
    assert events[-1].type == "agent_end"
    assert list(run.stream) == []


def test_gate_is_free_when_the_terminal_event_is_there(home: Home) -> None:
    """Whoever has the terminal event, even one who stops reading there, can start the next call."""
    run = Run.start(home, 10)
    for event in run.stream:
        if event.type == "agent_end":
            assert run.gate_free
            break


async def test_async_reader_at_home_and_abroad() -> None:
    """``async for`` works on the home loop and on a foreign one alike."""
    home = Home.current()
    run, other = Run(home, 3000), Run(home, 3000)

    async def read(stream: EventStream) -> list[AgentEvent]:
        return [event async for event in stream]

    abroad = asyncio.create_task(asyncio.to_thread(lambda: asyncio.run(read(other.stream))))
    for events in (await read(run.stream), await abroad):
        assert "".join(event.text or "" for event in events) == "ab" * 3000 + "done"
        assert events[-1].type == "agent_end"
    assert run.gate_free
    assert other.gate_free


async def test_blocking_iteration_on_the_home_loop_is_refused() -> None:
    """A plain ``for`` on the home loop could never end: it names ``async for``."""
    run = Run(Home.current(), 1)
    with pytest.raises(CodeError, match="async for"):
        next(run.stream)
    assert [event.type async for event in run.stream] == ["text_delta", "agent_end"]


def test_dropping_a_stream_interrupts_its_run(home: Home) -> None:
    """A stream that nobody holds any more stops the run, without anybody waiting for it."""
    run = Run.start(home, 5, ends=False)
    assert next(run.stream).text == "ab"
    del run.stream
    gc.collect()
    assert run.ended.wait(10)


def test_dropping_a_finished_stream_interrupts_nothing(home: Home) -> None:
    """After its terminal event a stream has no say in what runs next."""
    run = Run.start(home, 1)
    list(run.stream)
    del run.stream
    gc.collect()
    home.run(_nothing)
    assert not run.interrupted.is_set()


def test_close_waits_for_the_gate_and_ends_the_iterator(home: Home) -> None:
    """After ``close`` the session can be used and the iterator gives nothing more; closing again does nothing."""
    run = Run.start(home, 5, ends=False)
    with run.stream as stream:
        next(stream)
    assert run.gate_free
    assert list(run.stream) == []
    run.stream.close()


async def test_async_close_does_the_same() -> None:
    """``async with`` interrupts and waits on the home loop as well."""
    run = Run(Home.current(), 5, ends=False)
    async with run.stream as stream:
        assert (await anext(stream)).text == "ab"
    assert run.gate_free
    assert [event async for event in run.stream] == []


async def test_close_on_the_home_loop_does_not_wait() -> None:
    """The blocking ``close`` works on the home loop too: it interrupts and returns."""
    run = Run(Home.current(), 5, ends=False)
    run.stream.close()
    assert not run.gate_free
    await run.task
    assert run.interrupted.is_set()


def test_close_from_another_thread_wakes_a_waiting_reader(home: Home) -> None:
    """A reader that waits for the next event ends when somebody else closes the stream."""
    run = Run.start(home, 1, ends=False)
    got: list[Any] = []
    reader = threading.Thread(target=lambda: got.extend(run.stream))
    reader.start()
    run.stream.close()
    reader.join(10)
    assert not reader.is_alive()
    assert all(event.type == "text_delta" for event in got)


async def test_cancelled_reader_can_go_on_reading() -> None:
    """A reader whose wait was cancelled lost nothing."""
    run = Run(Home.current(), 0, ends=False)
    waiting = asyncio.create_task(anext(run.stream))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait([waiting])
    run.fanout.publish(AgentEvent("text_delta", {"text": "still here"}, {}, 1))
    assert (await anext(run.stream)).text == "still here"
    run.interrupted.set()
    assert [event.type async for event in run.stream] == ["agent_end"]


def test_a_reader_that_stops_holds_the_run_and_not_the_memory(home: Home) -> None:
    """Without anybody reading, the producer stops after a bounded number of events (case H15)."""

    class Chatty(Run):
        published = 0

        async def _work(self, ends: bool) -> None:
            for sequence in range(1, self.count + 1):
                self.fanout.publish(AgentEvent("turn_start", {"turn": sequence}, {}, sequence))
                self.published = sequence
                if self.fanout.congested:
                    await self.fanout.flow()
            self.fanout.publish(AgentEvent("agent_end", {}, {}, self.count + 1))

    async def make() -> Chatty:
        return Chatty(home, 10_000)

    run = home.run(make)
    for _ in range(10):
        home.run(_nothing)
    assert run.published < 2000
    assert [event.sequence for event in run.stream] == list(range(1, 10_002))


def test_closing_the_agent_still_gives_what_was_there(home: Home) -> None:
    """Events that had come, the terminal one included, can be read after the agent was closed; then it ends."""
    run = Run.start(home, 3)
    assert run.ended.wait(10)
    home.close()
    assert [event.type for event in run.stream] == ["text_delta"] * 3 + ["agent_end"]


async def _nothing() -> None:
    await asyncio.sleep(0)
