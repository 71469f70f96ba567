"""bash: what a command printed and how it ended, word for word (tools.md §3.7)."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from search_and_bash_calls import Caller, write_files

from a3s_code.system.process import LocalProcesses
from a3s_code.tools.bash import BashTool


def caller(root: Path, **environ: str) -> Caller:
    return Caller(BashTool(LocalProcesses(), {"PATH": os.environ["PATH"], **environ}), root)


@pytest.mark.parametrize(
    ("command", "output", "exit_code"),
    [
        ("true", "", 0),
        ("echo hi", "hi\n", 0),
        ("printf hi", "hi", 0),
        ("echo out; echo err >&2", "out\n[stderr]\nerr\n", 0),
        ("printf out; printf err >&2; exit 3", "out\n[stderr]\nerr\n[exit code: 3]", 3),
        ("false", "[exit code: 1]", 1),
        ("kill -9 $$", "[exit code: 137]", 137),
        (r"printf '\xff\xfe'", "\ufffd\ufffd", 0),
    ],
)
async def test_output_text(command: str, output: str, exit_code: int, tmp_path: Path) -> None:
    """stdout as it is, stderr and a non-zero exit under their own lines, silence as nothing (F05)."""
    result = await caller(tmp_path)(command=command)
    assert (result.output, result.exit_code, result.error_kind) == (output, exit_code, None)


async def test_metadata(tmp_path: Path) -> None:
    """Every documented key is there, and true."""
    (tmp_path / "sub").mkdir()
    result = await caller(tmp_path)(command="pwd; echo err >&2; kill -TERM $$", cwd="sub")
    metadata = dict(result.metadata)
    assert isinstance(metadata.pop("duration_ms"), int)
    assert metadata == {
        "exit_code": 143,
        "signal": 15,
        "timed_out": False,
        "cancelled": False,
        "cwd": "sub",
        "stdout": f"{tmp_path}/sub\n",
        "stderr": "err\n",
        "stdout_bytes": len(f"{tmp_path}/sub\n"),
        "stderr_bytes": 4,
        "stdout_omitted": 0,
        "stderr_omitted": 0,
        "lossy": False,
        "background_terminated": False,
        "sandbox": "process_host",
    }


async def test_deltas_are_emitted(tmp_path: Path) -> None:
    """What is printed reaches the event stream as text."""
    call = caller(tmp_path)
    await call(command="echo one; echo two >&2")
    assert sorted(call.emitted) == ["one\n", "two\n"]


async def test_the_end_of_long_output_is_kept(tmp_path: Path) -> None:
    """F04: head and tail survive, the marker counts what is missing, and the error at the end is readable."""
    result = await caller(tmp_path)(command="yes 北京 | head -n 400000; echo the error")
    omitted = result.metadata["stdout_omitted"]
    total = result.metadata["stdout_bytes"]
    assert total == 7 * 400_000 + 10
    assert isinstance(omitted, int)
    head, _, tail = result.output.partition(f"[… {omitted} bytes omitted …]\n")
    assert tail.endswith("北京\nthe error\n")
    assert "\ufffd" not in result.output
    assert omitted + len(head.removesuffix("\n").encode()) + len(tail.encode()) in (total, total - 1)


async def test_the_preview_in_the_metadata_is_small(tmp_path: Path) -> None:
    """A stream in the metadata has at most 32 KiB, with head, exact count and tail."""
    result = await caller(tmp_path)(command="seq 200000")
    preview = result.metadata["stdout"]
    assert isinstance(preview, str)
    assert len(preview.encode()) <= 32 * 1024
    head, _, rest = preview.partition("\n[… ")
    count, _, tail = rest.partition(" bytes omitted …]\n")
    assert head.startswith("1\n2\n")
    assert tail.endswith("199999\n200000\n")
    assert int(count) + len(head) + len(tail) == result.metadata["stdout_bytes"]


async def test_timeout_returns_what_was_captured(tmp_path: Path) -> None:
    """A command out of time is a tool failure with its output so far."""
    result = await caller(tmp_path)(command="echo begun; sleep 600", timeout_ms=200)
    assert (result.output, result.exit_code, result.error_kind) == ("Timed out after 200 ms\nbegun\n", 124, "timeout")
    assert (result.metadata["timed_out"], result.metadata["exit_code"]) == (True, 124)
    assert result.metadata["error"] == {"type": "timeout", "message": "Timed out after 200 ms"}


async def test_the_calls_deadline_clips_the_timeout(tmp_path: Path) -> None:
    """The time left to the call counts when it is less than the timeout, and none left starts nothing."""
    call = caller(tmp_path)
    result = await call(command="sleep 600", deadline_in=0.3)
    assert result.error_kind == "timeout"
    assert result.output.startswith("Timed out after 2")
    told = await call(command="sleep 600", deadline_in=0.1, limit_ms=5000)
    assert told.output == "Timed out after 5000 ms"
    late = await call.failure(command="touch started", deadline_in=-1.0)
    assert (late.kind, late.exit_code) == ("timeout", 124)
    assert not (tmp_path / "started").exists()


async def test_cancellation_returns_what_was_captured(tmp_path: Path) -> None:
    """A cancelled command says so and keeps its output."""
    call = caller(tmp_path)
    task = asyncio.ensure_future(call(command="echo begun; sleep 600"))
    while not call.emitted:
        await asyncio.sleep(0.005)
    call.cancelled.set()
    result = await task
    assert (result.output, result.exit_code, result.error_kind) == ("Cancelled\nbegun\n", 130, "cancelled")


async def test_a_background_child_is_reported(tmp_path: Path) -> None:
    """F01: the call returns with the shell, and says that something was cut off."""
    result = await caller(tmp_path)(command="sleep 600 & echo ok")
    assert (result.output, result.exit_code) == ("ok\n", 0)
    assert result.metadata["background_terminated"] is True


async def test_no_canary_after_a_timeout(tmp_path: Path) -> None:
    """F02: a child that would write a file later never does."""
    command = "setsid sh -c 'until [ -e go ]; do sleep 0.01; done; touch canary' & touch child; sleep 600"
    result = await caller(tmp_path)(command=command, timeout_ms=400)
    assert result.error_kind == "timeout"
    assert (tmp_path / "child").exists()
    (tmp_path / "go").touch()
    await caller(tmp_path)(command="sleep 0.1")
    assert not (tmp_path / "canary").exists()


async def test_the_working_directory_does_not_persist(tmp_path: Path) -> None:
    """Each call starts in the workspace root, or where it is told to."""
    write_files(tmp_path, {"a/b/file": ""})
    call = caller(tmp_path)
    await call(command="cd a")
    assert (await call(command="ls")).output == "a\n"
    assert (await call(command="ls", cwd="a/b")).output == "file\n"
    assert (await call(command="ls", cwd=str(tmp_path / "a"))).output == "b\n"


async def test_working_directories_outside_or_none(tmp_path: Path) -> None:
    """E10: a directory outside the workspace is refused, also through a link; so is what is no directory."""
    root = tmp_path / "root"
    write_files(root, {"file": ""})
    (root / "out").symlink_to(tmp_path)
    call = caller(root)
    for cwd in ("..", "/", "a/../../x", "out"):
        assert (await call.failure(command="touch ran", cwd=cwd)).kind == "path_denied"
    assert (await call.failure(command="touch ran", cwd="~")).kind == "not_found"
    assert (await call.failure(command="touch ran", cwd="file")).kind == "invalid_argument"
    assert not (root / "ran").exists()


@pytest.mark.parametrize("command", ["  \n\t", "echo a\0b", "x" * 102_401])
async def test_commands_that_make_no_sense(command: str, tmp_path: Path) -> None:
    """Blank, with NUL or above 100 KiB: refused before anything starts."""
    failure = await caller(tmp_path).failure(command=command)
    assert failure.kind == "invalid_argument"
    assert failure.message.startswith("Invalid arguments for tool 'bash':\n- command: ")


@pytest.mark.parametrize("env", [{"": "x"}, {"A=B": "x"}, {"A\0": "x"}, {"A": "x\0"}])
async def test_variables_that_make_no_sense(env: dict[str, str], tmp_path: Path) -> None:
    """A variable that no environment can hold is refused."""
    assert (await caller(tmp_path).failure(command="true", env=env)).kind == "invalid_argument"


async def test_the_longest_command_runs(tmp_path: Path) -> None:
    """100 KiB is allowed."""
    command = "true #" + "x" * (102_400 - 6)
    assert (await caller(tmp_path)(command=command)).exit_code == 0


async def test_without_bash_sh_is_used(tmp_path: Path) -> None:
    """A system without bash runs the command with sh; one without both says 127 and why."""
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "sh").symlink_to("/bin/sh")
    result = await Caller(BashTool(LocalProcesses(), {"PATH": str(tools)}), tmp_path)(command='echo "$0 $PATH"')
    assert result.output == f"{tools}/sh {tools}\n"
    (tools / "bash").write_text("#!/no/such/interpreter\n")
    (tools / "bash").chmod(0o755)
    broken = await Caller(BashTool(LocalProcesses(), {"PATH": str(tools)}), tmp_path)(command="echo hi")
    assert broken.exit_code == 127
    assert broken.output.startswith("[stderr]\ncould not start the shell: ")
    assert broken.output.endswith("\n[exit code: 127]")


async def test_a_shell_in_the_workspace_is_never_taken(tmp_path: Path) -> None:
    """A relative directory on the PATH does not let a workspace bring its own bash."""
    write_files(tmp_path, {"bash": "#!/bin/sh\necho evil\n"})
    (tmp_path / "bash").chmod(0o755)
    call = Caller(BashTool(LocalProcesses(), {"PATH": f".:{os.environ['PATH']}"}), tmp_path)
    assert (await call(command="echo good")).output == "good\n"
