"""Ctrl-C by real signals: the first interrupts the run, the second leaves; the log is well formed either way."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest
from commands import HOLD, called, provider, start

from a3s_code.core.facts import RunClosed
from a3s_code.stores.logfile import read_log, verify_log


def last_fact(workspace: Path) -> RunClosed:
    """The closing fact of the only log there, which is sound."""
    (log,) = (workspace / ".a3s" / "effect-log").glob("*.jsonl")
    assert verify_log(str(log)).ok
    data = list(read_log(str(log)))[-1].fact.data
    assert isinstance(data, RunClosed)
    return data


def until(process: subprocess.Popen[str], word: str) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        if word in line:
            return
    raise AssertionError(f"{word!r} never came")


def test_the_first_interrupt_ends_the_run_in_order(tmp_path: Path) -> None:
    """While the model is silent: the run is cancelled, told, closed in the log, and the exit code is 130."""
    with provider([HOLD]) as server:
        process = start(["run", "-w", str(tmp_path), "go"], tmp_path, **server.env)
        assert server.holding.wait(20)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
    assert process.returncode == 130
    assert out.splitlines()[-1].startswith("cancelled: ")
    assert "interrupting" in err
    assert "go on with" in err
    assert "Traceback" not in err
    assert last_fact(tmp_path).status == "cancelled"


def test_the_second_interrupt_leaves_at_once_and_nothing_stays_behind(tmp_path: Path) -> None:
    """A command that ignores the first is killed with the program."""
    command = "trap '' TERM; echo $$ > pid; while :; do sleep 0.05; done"
    with provider(called(("bash", {"command": command}))) as server:
        on_host = {"A3S_CODE_ALLOW_PROCESS_HOST_SANDBOX": "1"}  # so that $$ is a process id outside too
        process = start(["run", "-w", str(tmp_path), "--json", "go"], tmp_path, **server.env, **on_host)
        until(process, "tool_execution_start")
        while not (tmp_path / "pid").is_file() or not (tmp_path / "pid").read_text().strip():
            os.sched_yield()
        process.send_signal(signal.SIGINT)
        assert process.stderr is not None
        assert "interrupting" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=20)
    assert process.returncode == 130
    assert "Traceback" not in err
    assert last_fact(tmp_path).status in ("cancelled", "failed")
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


def test_a_request_to_terminate_interrupts_too(tmp_path: Path) -> None:
    """SIGTERM, as a container's stop sends it, ends the run in order with 143."""
    with provider([HOLD]) as server:
        process = start(["run", "-w", str(tmp_path), "--json", "go"], tmp_path, **server.env)
        assert server.holding.wait(20)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=20)
    assert process.returncode == 143
    assert last_fact(tmp_path).status == "cancelled"
