"""Forked children and Ctrl-C, with real processes and real signals (api.md, *Two faces*)."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap

import pytest

PRELUDE = """
import asyncio, os, signal, sys, threading
from a3s_code.api.blocking import Home, blocking
from a3s_code.api.stream import EventStream
from a3s_code.core.events import AgentEvent
from a3s_code.engine.fanout import Fanout
from a3s_code.engine.recorder import EventRecorder
from a3s_code.errors import CodeError

def say(*words):
    print(*words, flush=True)
"""


def start(script: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", PRELUDE + textwrap.dedent(script)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_forked_child_gets_an_error_and_no_deadlock() -> None:
    """A forked child that uses its parent's agent is told so; the parent goes on, and both can end."""
    process = start("""
        home = Home.private()
        async def work(): return "ran"
        assert home.run(work) == "ran"
        pid = os.fork()
        if pid == 0:
            try:
                home.run(work)
            except CodeError as error:
                say("child:", error.code, "forked" in str(error))
            home.close()
            sys.exit(0)
        _, status = os.waitpid(pid, 0)
        say("status", status)
        say("parent:", home.run(work))
        home.close()
    """)
    out, err = process.communicate(timeout=30)
    assert (out.splitlines(), err) == (["child: INVALID_REQUEST True", "status 0", "parent: ran"], "")


def test_stream_dropped_in_a_forked_child_does_not_stop_the_parents_run() -> None:
    """What a child's copy of a stream does when it goes away concerns the child only."""
    process = start("""
        home = Home.private()
        interrupted = threading.Event()
        async def make():
            fanout = Fanout(EventRecorder())
            settled = asyncio.get_running_loop().create_future()
            return fanout, EventStream(home, fanout.subscribe(), interrupted.set, settled), settled
        fanout, stream, settled = home.run(make)
        pid = os.fork()
        if pid == 0:
            del stream
            os._exit(0)
        os.waitpid(pid, 0)
        async def finish():
            fanout.publish(AgentEvent("agent_end", {"text": "whole"}))
            settled.set_result(None)
        home.run(finish)
        say([event.text for event in stream], interrupted.is_set())
        home.close()
    """)
    out, err = process.communicate(timeout=30)
    assert (out, err) == ("['whole'] False\n", "")


def test_ctrl_c_interrupts_the_run_waits_and_then_raises() -> None:
    """One SIGINT: the run is asked to stop, its clean-up is awaited, and then KeyboardInterrupt is raised."""
    process = start("""
        class Session:
            def __init__(self):
                self._home = Home.private()
                self.stop = asyncio.Event()
            async def send_async(self):
                say("ready")
                await self.stop.wait()
                for _ in range(3): await asyncio.sleep(0.01)
                say("settled")
            send = blocking(send_async, on_interrupt=lambda self: self.stop.set())
        session = Session()
        try:
            session.send()
        except KeyboardInterrupt:
            say("KeyboardInterrupt")
        async def work(): return "usable"
        say(session._home.run(work))
        session._home.close()
    """)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert (out.splitlines(), err) == (["settled", "KeyboardInterrupt", "usable"], "")


def test_second_ctrl_c_leaves_at_once() -> None:
    """When the run does not stop, a second SIGINT does not wait for it."""
    process = start("""
        home = Home.private()
        async def stubborn():
            say("ready")
            await asyncio.Event().wait()
        try:
            home.run(stubborn, on_interrupt=lambda: say("asked"))
        except KeyboardInterrupt:
            say("left")
        os._exit(0)
    """)
    assert process.stdout is not None
    for expected in ("ready\n", "asked\n"):
        assert process.stdout.readline() == expected
        process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=30)
    assert out == "left\n"


def test_ctrl_c_while_reading_a_stream_interrupts_its_run() -> None:
    """SIGINT in a loop over a stream interrupts the run, waits until it has settled, and raises."""
    process = start("""
        home = Home.private()
        async def make():
            fanout, stop = Fanout(EventRecorder()), asyncio.Event()
            reader = fanout.subscribe()
            async def run():
                fanout.publish(AgentEvent("text_delta", {"text": "x"}))
                while reader._buffer or not reader._wakers: await asyncio.sleep(0)
                say("reader waits")
                await stop.wait()
                await asyncio.sleep(0.01)
                say("settled")
                fanout.publish(AgentEvent("agent_end", {}))
            return EventStream(home, reader, stop.set, asyncio.get_running_loop().create_task(run()))
        stream = home.run(make)
        try:
            for event in stream: pass
        except KeyboardInterrupt:
            say("KeyboardInterrupt")
        home.close()
    """)
    assert process.stdout is not None
    assert process.stdout.readline() == "reader waits\n"
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert (out.splitlines(), err) == (["settled", "KeyboardInterrupt"], "")


@pytest.mark.parametrize("how", ["nothing", "stuck callback", "run at work"])
def test_program_ends_without_close(how: str) -> None:
    """A program that forgets ``close`` ends all the same, quietly, whatever is still at work."""
    process = start(f"""
        home = Home.private()
        begun = threading.Event()
        def stuck():
            begun.set()
            threading.Event().wait()
        async def forever():
            begun.set()
            await asyncio.Event().wait()
        work = {{"nothing": None, "stuck callback": lambda: home.call_host(stuck), "run at work": forever}}[{how!r}]
        def call():
            try:
                home.run(work)
            except CodeError:
                pass
        if work is not None:
            threading.Thread(target=call, daemon=True).start()
            begun.wait()
        say("end")
    """)
    out, err = process.communicate(timeout=30)
    assert (out, err, process.returncode) == ("end\n", "", 0)


def test_importing_the_blocking_face_starts_nothing() -> None:
    """No thread and no loop exist until an agent is made (case H14)."""
    process = start("say(threading.active_count(), asyncio._get_running_loop())")
    out, _ = process.communicate(timeout=30)
    assert out == "1 None\n"
