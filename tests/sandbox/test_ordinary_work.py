"""What a coding agent's commands usually do works in the sandbox as it does outside (tools.md §3.7)."""

from __future__ import annotations

import asyncio
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from sandboxhelp import Shell, in_sight, missing, run

from a3s_code.system.process import LocalProcesses
from a3s_code.tools.bash import BashTool

pytest_plugins = ["sandboxfixtures"]

PATH_HERE = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
IDENTITY = "git -c user.name=a -c user.email=a@b"


async def good(shell: Shell, command: str) -> str:
    result = await shell(command)
    assert result.exit_code == 0, result.output
    assert result.metadata["sandbox"] == "native"
    return result.output


@pytest.mark.skipif(missing("git"), reason="needs git")
async def test_git_reads_and_with_leave_commits(shells: Callable[..., Shell], workspace: Path) -> None:
    """Status, diff and log work; a commit needs ``sandbox_writable=[".git"]``, and then holds the user's files only."""
    strict, lifted = shells(), shells(writable=(".git",))
    await good(lifted, f"git init -q . && echo 1 >a && git add -A && {IDENTITY} commit -qm one")
    (workspace / "a").write_text("2\n")
    assert (await good(strict, "git status --short")).strip() == "M a"
    assert "+2" in await good(strict, "git diff")
    assert (await strict(f"{IDENTITY} commit -qam two")).exit_code != 0
    await good(lifted, f"git add -A && {IDENTITY} commit -qm two")
    assert await good(strict, "git ls-files") == "a\n"
    assert await good(strict, "git status --short --untracked-files=all") == ""
    assert (await good(strict, "git log --format=%s")).split() == ["two", "one"]


@pytest.mark.skipif(missing("git"), reason="needs git")
async def test_a_workspace_below_a_repository_is_part_of_it(native_sandbox: None, outside: Path) -> None:
    """The place that is held for a missing ``.git`` does not hide the repository above."""
    inner = outside / "packages" / "one"
    inner.mkdir(parents=True)
    (inner / "a").write_text("1\n")
    above = Shell(outside, {"PATH": PATH_HERE}, writable=(".git",))
    await good(above, f"git init -q . && git add packages && {IDENTITY} commit -qm one")
    await above.sandbox.aclose()
    below = Shell(inner, {"PATH": PATH_HERE})
    (inner / "a").write_text("2\n")
    result = await below("git status --short --untracked-files=no")
    assert result.output.strip() == "M a"
    await below.sandbox.aclose()


@pytest.mark.skipif(not in_sight(sys.executable), reason="the interpreter lies below /tmp, which commands do not see")
async def test_python_tests_run(shell: Shell) -> None:
    """pytest of a small project, with temporary files, a process pool, an event loop and its caches."""
    (shell.root / "thing.py").write_text("def add(a, b):\n    return a + b\n")
    (shell.root / "test_thing.py").write_text(
        "import asyncio, subprocess, sys, tempfile\n"
        "from concurrent.futures import ProcessPoolExecutor\n"
        "from thing import add\n\n"
        "def test_add(tmp_path):\n"
        "    (tmp_path / 'x').write_text('1')\n"
        "    assert add(1, 2) == 3\n\n"
        "def test_loop():\n    assert asyncio.run(asyncio.sleep(0, 5)) == 5\n\n"
        "def test_child():\n"
        "    async def child():\n"
        "        process = await asyncio.create_subprocess_exec(sys.executable, '-c', 'print(7)', stdout=-1)\n"
        "        return (await process.communicate())[0]\n"
        "    assert asyncio.run(child()).strip() == b'7'\n\n"
        "def test_pool():\n"
        "    with ProcessPoolExecutor(2) as pool:\n        assert list(pool.map(abs, [-1, -2])) == [1, 2]\n\n"
        "def test_temporary():\n"
        "    with tempfile.NamedTemporaryFile() as file:\n        file.write(b'x')\n"
    )
    said = await good(shell, f"{sys.executable} -m pytest -q -p no:randomly 2>&1")
    assert "5 passed" in said


@pytest.mark.skipif(missing("gcc") or missing("make"), reason="needs a C compiler and make")
async def test_c_builds_with_make(shell: Shell) -> None:
    """A compiler with its temporary files, run by make, and the program it built."""
    (shell.root / "m.c").write_text('#include <stdio.h>\nint main(void) { puts("built"); return 0; }\n')
    (shell.root / "Makefile").write_text("all: m\n\t./m\nm: m.c\n\tcc -pipe -O1 -o m m.c\n")
    assert "built" in await good(shell, "make -j2")


@pytest.mark.skipif(missing("node"), reason="needs Node.js")
async def test_node_runs(shell: Shell) -> None:
    """Node with a child process and a temporary file."""
    script = (
        "const cp = require('child_process'), fs = require('fs'), os = require('os');"
        "fs.writeFileSync(os.tmpdir() + '/x', '1'); console.log(cp.execFileSync('echo', ['child']).toString().trim());"
        "cp.exec('echo later', (e, out) => console.log(out.trim()));"
    )
    assert (await good(shell, f'node -e "{script}"')).split() == ["child", "later"]


@pytest.mark.skipif(not in_sight(sys.executable), reason="the interpreter lies below /tmp, which commands do not see")
async def test_pip_lists(shell: Shell) -> None:
    """pip works without its caches and configuration."""
    assert "pytest" in await good(shell, f"{sys.executable} -m pip list --disable-pip-version-check")


LINES = {
    "pipes": ("printf 'b\\na\\n' | sort | tr '\\n' ' '", "a b "),
    "here document": ("cat <<X\nhi\nX", "hi\n"),
    "process substitution": ("cat <(echo one) <(echo two)", "one\ntwo\n"),
    "temporary file": ("f=$(mktemp) && echo x >$f && cat $f", "x\n"),
    "/tmp": ("echo y >/tmp/y && cat $TMPDIR/y", "y\n"),
    "home": ("cd && touch .thing && ls -A", ".thing\n"),
    "shared memory": ("echo z >/dev/shm/z && cat /dev/shm/z", "z\n"),
    "script": ("printf '#!/bin/sh\\necho ran\\n' >r.sh && chmod +x r.sh && ./r.sh", "ran\n"),
    "background job": ("(sleep 0.05; echo done >b) & wait; cat b", "done\n"),
    "late background output": ("(sleep 0.1; echo late) & echo now", "now\nlate\n"),
    "exit code": ("(exit 3); echo $?", "3\n"),
    "links": ("echo 1 >o && ln o p && ln -s o q && cat p q", "1\n1\n"),
    "renamed directories": ("mkdir -p d/e && mv d f && ls f", "e\n"),
    "empty standard input": ("cat; echo end", "end\n"),
    "idempotency key": ("echo $A3S_IDEMPOTENCY_KEY", "call-1\n"),
    "pseudo terminal": ("script -qec 'echo tty' /dev/null | tr -d '\\r'", "tty\n"),
}


@pytest.mark.parametrize(("command", "said"), LINES.values(), ids=LINES)
async def test_shell_lines_work(shell: Shell, command: str, said: str) -> None:
    """Ordinary shell lines print what they print outside."""
    if command.startswith("script") and missing("script"):
        pytest.skip("needs the program script")
    assert await good(shell, command) == said


async def test_temporary_files_last_for_the_session(shell: Shell) -> None:
    """What a command leaves in ``/tmp`` and its home is there for the next one, and gone after the session."""
    await good(shell, "echo 1 >/tmp/kept; echo 2 >~/kept")
    assert await good(shell, "cat /tmp/kept ~/kept") == "1\n2\n"
    place = Path((await good(shell, "echo $HOME")).strip()).parent
    assert place.is_dir()
    await shell.sandbox.aclose()
    assert not place.exists()


async def test_exit_codes_and_output_come_through(shell: Shell) -> None:
    """Exit code, death by a signal and both streams are as without a sandbox."""
    result = await shell("echo out; echo err >&2; exit 7")
    assert (result.exit_code, result.output) == (7, "out\n[stderr]\nerr\n[exit code: 7]")
    killed = await shell("kill -9 $$")
    assert (killed.exit_code, killed.output) == (137, "[exit code: 137]")
    assert (await shell("no-such-program")).exit_code == 127


async def test_the_working_directory_is_kept(shell: Shell) -> None:
    """``cwd`` is where the command starts."""
    (shell.root / "sub").mkdir()
    result = await shell("pwd", cwd="sub")
    assert result.output == f"{shell.root}/sub\n"


async def test_deadline_ends_everything_inside(shell: Shell) -> None:
    """At the deadline a handler runs, and then nothing is left, also not what left the session and its environment."""
    command = (
        "trap 'echo handled; exit 1' TERM; "
        "(setsid env -i /bin/sh -c 'while :; do date +%N >>beat; sleep 0.02; done' &); "
        "echo begun; while :; do sleep 0.01; done"
    )
    result = await shell(command, timeout_ms=400)
    assert (result.error_kind, result.exit_code) == ("timeout", 124)
    assert "begun" in result.output
    assert "handled" in result.output
    beat = (shell.root / "beat").read_text()
    assert beat
    after = await run(["sleep", "0.2"], shell.root, {"PATH": PATH_HERE})
    assert after.exit_code == 0
    assert (shell.root / "beat").read_text() == beat


async def test_what_ignores_the_end_is_killed(shell: Shell) -> None:
    """A command that ignores SIGTERM is killed after the grace, with everything in its namespace."""
    shell.processes = LocalProcesses(grace_s=0.2)
    shell.tool = BashTool(shell.processes, shell.environ)
    result = await shell("trap '' TERM; echo begun; while :; do sleep 0.01; done", timeout_ms=300)
    assert result.error_kind == "timeout"
    assert "begun" in result.output


async def test_cancelling_ends_it(shell: Shell) -> None:
    """A cancelled command ends, with what it printed so far."""

    async def cancel_when_begun() -> None:
        while not shell.emitted:
            await asyncio.sleep(0.005)
        shell.cancelled.set()

    result, _ = await asyncio.gather(shell("echo begun; sleep 60"), cancel_when_begun())
    assert (result.error_kind, result.exit_code) == ("cancelled", 130)
    assert "begun" in result.output


async def test_background_processes_are_ended_and_reported(shell: Shell) -> None:
    """A process left behind ends soon after the shell, and the result says so."""
    result = await shell("sleep 60 & echo now")
    assert result.output == "now\n"
    assert result.metadata["background_terminated"] is True
    assert (await shell("true")).metadata["background_terminated"] is False


async def test_what_it_costs(shell: Shell, capsys: pytest.CaptureFixture[str]) -> None:
    """The time that the sandbox adds to a command; printed, as it says more about the machine than about the code."""
    await shell("true")
    times: dict[str, list[float]] = {"sandbox": [], "host": []}
    for _ in range(5):
        for name in times:
            began = time.perf_counter()
            if name == "sandbox":
                result = await shell("true")
            else:
                result = await shell("true", approved=True, sandbox_permissions="require_escalated", justification="x")
            times[name].append(time.perf_counter() - began)
            assert result.exit_code == 0
    with capsys.disabled():
        shown = ", ".join(f"{name} {statistics.median(each) * 1000:.1f} ms" for name, each in times.items())
        print(f" [a command: {shown}]", end="")
