"""Child processes: whatever a command does, ``run`` comes back in time and leaves nothing behind."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
import time
from pathlib import Path

import pytest
from childcommands import ENV, bash, is_alive, pid_in

from a3s_code.ports.process import ProcessOutcome
from a3s_code.system.process import LocalProcesses


async def test_output_and_exit_code_come_back(tmp_path: Path) -> None:
    """Both streams, their true sizes and the exit code are reported, and the directory is the one asked for."""
    outcome = await bash("pwd; echo problem >&2; exit 3", tmp_path)
    assert (outcome.exit_code, outcome.signal, outcome.error) == (3, None, None)
    assert outcome.stdout.text == f"{tmp_path}\n"
    assert (outcome.stderr.text, outcome.stderr.total) == ("problem\n", 8)
    assert (outcome.timed_out, outcome.cancelled, outcome.background_terminated) == (False, False, False)


async def test_standard_input_is_empty_or_what_was_given(tmp_path: Path) -> None:
    """A program that reads its input sees the end at once, or exactly the bytes that were passed."""
    assert (await bash("cat; echo end", tmp_path)).stdout.text == "end\n"
    many = b"x" * 3_000_000
    assert (await bash("wc -c", tmp_path, stdin=many)).stdout.text.strip() == "3000000"
    assert (await bash("head -c 1", tmp_path, stdin=many)).stdout.text == "x"


async def test_death_by_signal(tmp_path: Path) -> None:
    """A command killed by signal n ends with 128+n and names the signal."""
    outcome = await bash("kill -SEGV $$", tmp_path)
    assert (outcome.exit_code, outcome.signal) == (128 + signal.SIGSEGV, signal.SIGSEGV)


@pytest.mark.parametrize("argv", [["/no/such/program"], ["a\0b"], ["x" * 300]])
async def test_a_program_that_cannot_start(argv: list[str], tmp_path: Path) -> None:
    """Exit code 127 and the reason, never an exception."""
    outcome = await LocalProcesses().run(argv, cwd=str(tmp_path), env=ENV, timeout_ms=1000, cancelled=asyncio.Event())
    assert outcome.exit_code == 127
    assert outcome.error


async def test_a_missing_directory(tmp_path: Path) -> None:
    """A working directory that is gone is a failure to start."""
    outcome = await bash("true", tmp_path / "gone")
    assert outcome.exit_code == 127
    assert "gone" in str(outcome.error)


async def test_own_session_and_group(tmp_path: Path) -> None:
    """The command leads a session and a group of its own, so that signals reach it and never its host."""
    outcome = await bash('read -r _ _ _ _ group session _ < /proc/$$/stat; echo "$$ $group $session"', tmp_path)
    assert len(set(outcome.stdout.text.split())) == 1
    assert os.getsid(0) != int(outcome.stdout.text.split()[0])


async def test_timeout_ends_the_whole_pipeline(tmp_path: Path) -> None:
    """F02: a limit reached ends every member of the group, also behind a wrapper and a pipe."""
    pid = tmp_path / "pid"
    command = f"sh -c 'sleep 600 & echo $! > {pid}; while :; do echo tick; sleep 0.01; done' | cat"
    outcome = await bash(command, tmp_path, timeout_ms=800)
    assert outcome.timed_out
    assert outcome.stdout.text.startswith("tick\n")
    assert not is_alive(int(pid.read_text()))


DAEMON = """
import os
os.fork() and os._exit(0)
os.setsid()
os.fork() and os._exit(0)
os.closerange(0, 99)
os.execvp("sh", ["sh", "child.sh"])
"""


@pytest.mark.parametrize(
    "escape",
    [
        "setsid sh child.sh &",
        "setsid sh child.sh >/dev/null 2>&1 </dev/null &",
        "(setsid sh -c 'sh child.sh &' &)",
        "env -i PATH=$PATH setsid sh child.sh &",
        f"{sys.executable} daemon.py",
    ],
)
async def test_processes_that_left_the_session_are_ended_with_it(escape: str, tmp_path: Path) -> None:
    """F02: a child that called ``setsid``, also behind two forks, does nothing after the command was stopped."""
    (tmp_path / "child.sh").write_text("echo $$ > pid; sleep 600; touch canary")
    (tmp_path / "daemon.py").write_text(DAEMON)
    stop = asyncio.Event()
    task = asyncio.ensure_future(bash(f"{escape}\nsleep 600", tmp_path, cancelled=stop))
    escaped = await pid_in(tmp_path / "pid")
    assert is_alive(escaped)
    assert os.getsid(escaped) == os.getpgid(escaped)
    stop.set()
    assert (await task).cancelled
    assert not is_alive(escaped)
    assert not (tmp_path / "canary").exists()


async def test_an_escapee_is_ended_after_a_normal_exit_too(tmp_path: Path) -> None:
    """A daemon that left the session and its pipes does not outlive the command, and the outcome says so."""
    pid = tmp_path / "pid"
    command = f"setsid sh -c 'echo $$ > {pid}; exec sleep 600' >/dev/null 2>&1 & until [ -s {pid} ]; do :; done"
    outcome = await bash(command, tmp_path)
    assert outcome.exit_code == 0
    assert outcome.background_terminated
    assert not is_alive(int(pid.read_text()))


async def test_an_escapee_of_a_runtime_inside_the_command_is_ended(tmp_path: Path) -> None:
    """A command that itself runs commands passes the outer mark on, so their escapees are found as well."""
    script = (
        "import asyncio, os\n"
        "from a3s_code.system.process import LocalProcesses\n"
        "async def main():\n"
        "    await LocalProcesses().run(['sh', '-c', 'echo $$ > pid; exec sleep 600'], cwd='.', env=dict(os.environ),\n"
        "                               timeout_ms=600_000, cancelled=asyncio.Event())\n"
        "asyncio.run(main())\n"
    )
    (tmp_path / "inner.py").write_text(script)
    stop = asyncio.Event()
    task = asyncio.ensure_future(
        bash(f"{sys.executable} inner.py & trap '' TERM; wait", tmp_path, cancelled=stop, grace_s=0.1)
    )
    inner = await pid_in(tmp_path / "pid")
    stop.set()
    assert (await task).cancelled
    assert not is_alive(inner)


async def test_a_child_that_holds_the_pipe_does_not_hold_the_call(tmp_path: Path) -> None:
    """F01: once the shell has ended, the call returns within the grace and the child is ended."""
    pid = tmp_path / "pid"
    started = time.monotonic()
    outcome = await bash(f"sleep 600 & echo $! > {pid}; echo ok", tmp_path)
    assert (outcome.exit_code, outcome.stdout.text, outcome.background_terminated) == (0, "ok\n", True)
    assert not is_alive(int(pid.read_text()))
    assert time.monotonic() - started < 5


async def test_a_child_that_prints_for_ever(tmp_path: Path) -> None:
    """F01: a background child that never stops printing is cut off with bounded output."""
    outcome = await bash("yes & echo ok", tmp_path, capture_bytes=1000)
    assert outcome.exit_code == 0
    assert outcome.background_terminated
    assert len(outcome.stdout.text) < 2200


async def test_a_short_lived_background_child_is_waited_for(tmp_path: Path) -> None:
    """Output that comes within the drain time is kept, and nothing is reported as cut off."""
    outcome = await bash("(sleep 0.05; echo late) & echo first", tmp_path)
    assert outcome.stdout.text == "first\nlate\n"
    assert not outcome.background_terminated


async def test_closing_the_pipes_early_does_not_escape_the_limit(tmp_path: Path) -> None:
    """The limit covers the wait, not only the reading."""
    outcome = await bash("exec >/dev/null 2>&1; sleep 600", tmp_path, timeout_ms=150)
    assert outcome.timed_out


async def test_term_comes_first_then_kill(tmp_path: Path) -> None:
    """A command may clean up on SIGTERM; one that ignores it is killed after the grace."""
    polite = await bash("trap 'echo cleaned; exit 0' TERM; while :; do sleep 0.01; done", tmp_path, timeout_ms=200)
    assert polite.timed_out
    assert polite.stdout.text == "cleaned\n"
    stubborn = await bash("trap '' TERM; while :; do sleep 0.01; done", tmp_path, timeout_ms=200, grace_s=0.1)
    assert stubborn.timed_out
    assert stubborn.signal == signal.SIGKILL


async def test_cancellation_by_event(tmp_path: Path) -> None:
    """Setting the event ends the command and keeps what it had printed."""
    stop = asyncio.Event()

    def on_text(text: str) -> None:
        stop.set()

    outcome = await bash("echo begun; sleep 600", tmp_path, cancelled=stop, on_text=on_text)
    assert outcome.cancelled
    assert not outcome.timed_out
    assert outcome.stdout.text == "begun\n"


async def test_nothing_starts_after_cancellation(tmp_path: Path) -> None:
    """An event that is already set means that no process is made."""
    stop = asyncio.Event()
    stop.set()
    assert (await bash("touch started", tmp_path, cancelled=stop)).cancelled
    assert not (tmp_path / "started").exists()


async def test_a_cancelled_task_ends_the_group_before_it_propagates(tmp_path: Path) -> None:
    """When the awaiting task is cancelled, twice, the whole group is gone by the time the task is done."""
    pid, child = tmp_path / "pid", tmp_path / "child"
    command = f"trap '' TERM; sleep 600 & echo $! > {child}; echo $$ > {pid}; while :; do sleep 0.01; done"
    task = asyncio.ensure_future(bash(command, tmp_path))
    leader = await pid_in(pid)
    task.cancel()
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not Path(f"/proc/{leader}").exists(), "ended and waited for"
    assert not is_alive(int(child.read_text()))


async def test_many_at_once_leave_the_loop_free(tmp_path: Path) -> None:
    """Fifty commands on one loop all end right, and no descriptor is left open."""
    await bash("true", tmp_path)
    before = len(os.listdir("/proc/self/fd"))
    outcomes = await asyncio.gather(*(bash(f"echo {n}; exit {n}", tmp_path) for n in range(50)))
    assert [(o.exit_code, o.stdout.text) for o in outcomes] == [(n, f"{n}\n") for n in range(50)]
    assert len(os.listdir("/proc/self/fd")) == before


def test_any_thread_may_run_the_loop(tmp_path: Path) -> None:
    """A loop outside the main thread runs commands just as well."""
    outcomes: list[ProcessOutcome] = []
    thread = threading.Thread(target=lambda: outcomes.append(asyncio.run(bash("exit 5", tmp_path))))
    thread.start()
    thread.join()
    assert outcomes[0].exit_code == 5


async def test_without_process_descriptors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a system without ``pidfd_open`` the exit code and the limit work through a thread."""

    def missing(pid: int) -> int:
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(os, "pidfd_open", missing)
    assert (await bash("exit 7", tmp_path)).exit_code == 7
    assert (await bash("sleep 600", tmp_path, timeout_ms=150)).signal == signal.SIGTERM


async def test_a_lost_exit_code_is_no_success(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Where the host ignores SIGCHLD, so that the system keeps no exit code, the command counts as failed."""
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        outcome = await bash("true", tmp_path)
    finally:
        signal.signal(signal.SIGCHLD, before)
    assert outcome.exit_code == 255
    assert "SIGCHLD" in caplog.text
