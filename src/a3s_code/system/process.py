"""Child processes on any event loop. In: an argument vector, environment, limits. Out: what it printed, how it ended.

One rule: ``run`` comes back, or raises, only after what it started was ended and waited for: the group, and whatever
left the group and can still be recognised (``descendants``).
Known weakness: starting a program holds the loop until its ``exec`` (about a millisecond; never a copy of this
process's memory). Where the host takes exit codes away (``SIGCHLD`` ignored) a command counts as failed (255).
"""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import logging
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import IO, Any

from a3s_code.ports.process import Captured, ProcessOutcome
from a3s_code.ports.tasks import spawn
from a3s_code.system.capture import Capture
from a3s_code.system.descendants import MARK, Found, is_running, running, send

_READ = 65_536
_DRAIN = 0.5  # how long the pipes may stay open after the shell's end
_BACKGROUND_GRACE = 0.25
_SETTLE = 0.02  # a pipeline's last member may still be on its way out when the shell has ended
_BRIEF = 1.0  # process ids can't come round in this time
_POLL = 0.01
_LAST_WAIT = 1.0  # for killed processes to disappear; one in the kernel's hands may not
_log = logging.getLogger("a3s_code")


class LocalProcesses:
    """``ports.process.Processes`` on this machine. ``grace_s`` is the time between SIGTERM and SIGKILL."""

    def __init__(self, *, grace_s: float = 2.0) -> None:
        self._grace = grace_s

    async def run(
        self,
        argv: Sequence[str],
        *,
        cwd: str,
        env: Mapping[str, str],
        timeout_ms: int,
        cancelled: asyncio.Event,
        on_text: Callable[[str], None] | None = None,
        capture_bytes: int = 524_288,
        stdin: bytes = b"",
        supervised: bool = False,
        passed: Sequence[int] = (),
    ) -> ProcessOutcome:
        if cancelled.is_set():
            return ProcessOutcome(130, Captured(), Captured(), cancelled=True)
        started = time.monotonic()
        mark = os.urandom(8).hex()
        marks = f"{env[MARK]}:{mark}" if MARK in env else mark
        try:
            popen = subprocess.Popen(  # noqa: ASYNC220  vfork, so it takes no longer than the program's exec
                list(argv),
                cwd=cwd,
                env={**env, MARK: marks},
                stdin=subprocess.PIPE if stdin else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                start_new_session=True,
                pass_fds=passed,
            )
        except (OSError, ValueError) as error:
            return ProcessOutcome(127, Captured(), Captured(), error=str(error), duration_ms=_since(started))
        child = _Child(popen, mark, started, capture_bytes, on_text, supervised)
        try:
            child.feed(stdin)
            return await child.live(started + timeout_ms / 1000, cancelled, self._grace)
        except asyncio.CancelledError:
            await _to_the_end(child.end(_BACKGROUND_GRACE))
            raise
        finally:
            child.close()


class _Child:
    """One started process with its pipes; lives on the loop that made it."""

    def __init__(
        self,
        popen: subprocess.Popen[bytes],
        mark: str,
        started: float,
        keep: int,
        on_text: Callable[[str], None] | None,
        supervised: bool,
    ) -> None:
        self._popen = popen
        self._supervised = supervised
        self._mark = mark
        self._started = started
        self._loop = asyncio.get_running_loop()
        assert popen.stdout is not None
        assert popen.stderr is not None
        self._out = _Stream(self._loop, popen.stdout, keep, on_text)
        self._err = _Stream(self._loop, popen.stderr, keep, on_text)
        self._exited = _exit_of(self._loop, popen)
        self._input: _Input | None = None

    def feed(self, data: bytes) -> None:
        if self._popen.stdin is not None:
            self._input = _Input(self._loop, self._popen.stdin, data)

    async def live(self, deadline: float, cancelled: asyncio.Event, grace: float) -> ProcessOutcome:
        """Until the process ends, ``deadline`` (monotonic) comes or ``cancelled`` is set; then nothing is left."""
        stop = spawn(_set(cancelled), "process-cancel")
        either: set[asyncio.Future[Any]] = {self._exited, stop}
        try:
            await asyncio.wait(either, timeout=deadline - time.monotonic(), return_when=asyncio.FIRST_COMPLETED)
        finally:
            stop.cancel()
        background = False
        if finished := self._exited.done():
            background = await self._clear_background(deadline)
        else:
            await self.end(grace)
            await self._drain(_BACKGROUND_GRACE)
        self.close()
        code = self._exited.result() if self._exited.done() else -signal.SIGKILL
        return ProcessOutcome(
            exit_code=128 - code if code < 0 else code,
            stdout=self._out.capture.result(),
            stderr=self._err.capture.result(),
            signal=-code if code < 0 else None,
            timed_out=not finished and not cancelled.is_set(),
            cancelled=not finished and cancelled.is_set(),
            background_terminated=background,
            duration_ms=_since(self._started),
        )

    async def _clear_background(self, deadline: float) -> bool:
        """After the shell's end: whether something it left had to be cut off."""
        brief = time.monotonic() - self._started < _BRIEF
        if await self._drain(max(0.0, min(_DRAIN, deadline - time.monotonic()))):
            settled = time.monotonic() + _SETTLE
            while await self._running(brief):
                if time.monotonic() >= settled:
                    break
                await asyncio.sleep(_SETTLE / 10)
            else:
                return False
        await self.end(_BACKGROUND_GRACE)
        return True

    async def _drain(self, seconds: float) -> bool:
        """Waits for the end of both pipes; whether it came."""
        pipes = {pipe for pipe in (self._out.ended, self._err.ended) if not pipe.done()}
        return not pipes or not (await asyncio.wait(pipes, timeout=seconds))[1]

    async def _running(self, brief: bool = False) -> list[Found]:
        return await running(self._popen.pid, self._mark, brief)

    async def end(self, grace: float) -> None:
        """SIGTERM to everything that descends from the process, SIGKILL after ``grace`` seconds, and the last wait."""
        left = await self._running()
        for sig, patience in ((signal.SIGTERM, grace), (signal.SIGKILL, _LAST_WAIT)):
            self._send(left, sig)
            limit = time.monotonic() + patience
            while left and time.monotonic() < limit:
                await asyncio.sleep(_POLL)
                if not (left := [process for process in left if is_running(process)]):
                    left = await self._running()
                    self._send(left, sig)  # born in between
        if left:
            _log.warning("processes %s could not be ended", [process.pid for process in left])
        await asyncio.wait({self._exited}, timeout=_LAST_WAIT)

    def _send(self, left: list[Found], sig: signal.Signals) -> None:
        """A supervisor that ended at SIGTERM would take with it what was only asked to end."""
        if self._supervised and sig == signal.SIGTERM:
            left = [process._replace(in_group=False) for process in left if process.pid != self._popen.pid]
        send(self._popen.pid, left, sig)

    def close(self) -> None:
        """Gives up the pipes; kills the group when the process is still there (the loop is going away)."""
        self._out.close()
        self._err.close()
        if self._input is not None:
            self._input.close()
        if not self._exited.done():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._popen.pid, signal.SIGKILL)


class _Stream:
    """The reading end of a pipe: everything that arrives is captured and passed on as text."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, pipe: IO[bytes], keep: int, on_text: Callable[[str], None] | None
    ) -> None:
        self.capture = Capture(keep)
        self.ended: asyncio.Future[None] = loop.create_future()
        self._loop = loop
        self._pipe = pipe
        self._fd = pipe.fileno()
        self._on_text = on_text
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        os.set_blocking(self._fd, False)
        loop.add_reader(self._fd, self._readable)

    def _readable(self) -> None:
        try:
            data = os.read(self._fd, _READ)
        except BlockingIOError:
            return
        if not data:
            self.close()
            return
        self.capture.add(data)
        self._pass_on(data)

    def _pass_on(self, data: bytes, final: bool = False) -> None:
        if self._on_text is not None and (text := self._decoder.decode(data, final)):
            self._on_text(text)

    def close(self) -> None:
        if self.ended.done():
            return
        self._loop.remove_reader(self._fd)
        self._pipe.close()
        self.ended.set_result(None)
        self._pass_on(b"", final=True)


class _Input:
    """The writing end of a pipe; a reader that goes away early is no error."""

    def __init__(self, loop: asyncio.AbstractEventLoop, pipe: IO[bytes], data: bytes) -> None:
        self._loop = loop
        self._pipe = pipe
        self._left = memoryview(data)
        os.set_blocking(pipe.fileno(), False)
        loop.add_writer(pipe.fileno(), self._writable)

    def _writable(self) -> None:
        try:
            self._left = self._left[os.write(self._pipe.fileno(), self._left[: 4 * _READ]) :]
        except BlockingIOError:
            return
        except BrokenPipeError:
            self._left = self._left[:0]
        if not self._left:
            self.close()

    def close(self) -> None:
        if not self._pipe.closed:
            self._loop.remove_writer(self._pipe.fileno())
            self._pipe.close()


def _exit_of(loop: asyncio.AbstractEventLoop, popen: subprocess.Popen[bytes]) -> asyncio.Future[int]:
    """The return code (negative: the signal), once the process was waited for. Needs no main thread and no SIGCHLD."""
    exited: asyncio.Future[int] = loop.create_future()
    try:
        pidfd = os.pidfd_open(popen.pid)
    except (AttributeError, OSError):  # not Linux, or a kernel without it
        threading.Thread(target=_reap_in_thread, args=(loop, popen, exited), daemon=True, name="a3s-wait").start()
        return exited

    def ended() -> None:
        loop.remove_reader(pidfd)
        os.close(pidfd)
        exited.set_result(_reap(popen))

    loop.add_reader(pidfd, ended)
    return exited


def _reap(popen: subprocess.Popen[bytes]) -> int:
    try:
        popen.returncode = os.waitstatus_to_exitcode(os.waitpid(popen.pid, 0)[1])
    except ChildProcessError:
        popen.returncode = 255
        _log.warning("the exit code of process %d was taken by the host's SIGCHLD handling", popen.pid)
    return popen.returncode


def _reap_in_thread(
    loop: asyncio.AbstractEventLoop, popen: subprocess.Popen[bytes], exited: asyncio.Future[int]
) -> None:
    code = _reap(popen)
    with contextlib.suppress(RuntimeError):  # the loop was closed: nobody waits any more
        loop.call_soon_threadsafe(exited.set_result, code)


async def _set(event: asyncio.Event) -> None:
    await event.wait()


async def _to_the_end(work: Coroutine[Any, Any, None]) -> None:
    """Runs ``work`` to its end, however often the caller is cancelled meanwhile."""
    task = spawn(work, "process-end")
    while not task.done():
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait({task})


def _since(started: float) -> int:
    return round((time.monotonic() - started) * 1000)
