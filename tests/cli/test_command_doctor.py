"""``a3s-code doctor`` and the demo."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Literal

import pytest
from commands import environment, run

from a3s_code.cli import demo
from a3s_code.cli.main import main
from a3s_code.ports.sandbox import SandboxState


def test_doctor_finds_what_is_here_and_says_what_to_do(tmp_path: Path) -> None:
    """Versions, programs, the workspace; a missing key and missing programs come with the command that helps."""
    empty = tmp_path / "bin"
    empty.mkdir()
    code, out, err = run(["doctor", "-w", str(tmp_path)], tmp_path, PATH=str(empty))
    assert (code, err) == (0, "")
    lines = [line.split(maxsplit=2) for line in out.splitlines()]
    found = {words[1]: (words[0], words[2]) for words in lines if len(words) == 3 and words[0] in "+~x"}
    assert found["Python"][0] == "+"
    assert found["Python"][1].startswith(f"{sys.version_info[0]}.{sys.version_info[1]}")
    assert found["msgspec"][0] == "+"
    assert found["git"] == ("~", "not found")
    assert found["writable"] == ("+", "yes")
    assert "-> export OPENAI_API_KEY=..." in out
    assert "apt install git" in out
    assert "xdist" not in out


def test_doctor_never_prints_a_key(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A key is told as present, in words and as JSON; a missing variable is named."""
    acl = tmp_path / "agent.acl"
    acl.write_text(
        'default_model = "openai/m"\n'
        'providers "openai" { apiKey = "sk-secret-1234567890", models "m" {} }\n'
        'providers "other" { apiKey = env("NOT_SET_ANYWHERE"), baseUrl = "http://x", models "n" {} }\n'
    )
    assert main(["doctor", "-w", str(tmp_path)]) == 0
    assert main(["doctor", "-w", str(tmp_path), "--json"]) == 0
    printed = capsys.readouterr()
    assert "secret" not in printed.out + printed.err
    checks = json.loads(printed.out[printed.out.index("\n{") :])["checks"]
    providers = {check["name"]: check for check in checks if check["name"].startswith("provider")}
    assert providers["provider openai"]["found"].startswith("key present")
    assert "NOT_SET_ANYWHERE" in providers["provider other"]["fix"]


@pytest.mark.parametrize(
    ("kind", "chosen", "row", "fix"),
    [
        ("native", "", "+ sandbox", ""),
        ("none", "", "~ sandbox", "asks on a terminal, and is refused without one"),
        ("native", "1", "~ sandbox", "unset A3S_CODE_ALLOW_PROCESS_HOST_SANDBOX"),
    ],
)
def test_doctor_says_what_commands_run_in(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    kind: Literal["native", "none"],
    chosen: str,
    row: str,
    fix: str,
) -> None:
    """What is active for a model's commands, why, and what to do about it."""

    class Found:
        async def state(self) -> SandboxState:
            return SandboxState(kind, "as it was tried")

    monkeypatch.setattr("a3s_code.cli.doctor.native", lambda processes, environ: Found())
    monkeypatch.setenv("A3S_CODE_ALLOW_PROCESS_HOST_SANDBOX", chosen)
    assert main(["doctor", "-w", str(tmp_path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    (at,) = (i for i, line in enumerate(lines) if line.startswith(f"  {row}"))
    assert ("active: " if not fix else "none: ") in lines[at]
    assert fix in lines[at + 1]


def test_doctor_fails_over_what_keeps_the_program_from_working(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A configuration that can't be used is marked, with its place, and the exit code is 1."""
    (tmp_path / "agent.acl").write_text("default_model = 7\n")
    assert main(["doctor", "-w", str(tmp_path)]) == 1
    out = capsys.readouterr().out
    assert "x configuration" in out
    assert "agent.acl:1:" in out


def test_the_demo_shows_a_real_session_and_what_comes_next(tmp_path: Path) -> None:
    """In a new directory: tool calls, an answer about the repository, the log, its check, the next command."""
    line = [sys.executable, "-m", "a3s_code.cli.demo"]
    shown = subprocess.run(line, cwd=tmp_path, env=environment(tmp_path), capture_output=True, text=True, check=False)
    assert (shown.returncode, shown.stderr) == (0, "")
    for word in (
        "> read README.md",
        "expenses",
        "tally/report.py",
        "run.opened",
        "good: ",
        "OPENAI_API_KEY=",
        "chat -w",
    ):
        assert word in shown.stdout
    again = subprocess.run(line, cwd=tmp_path, env=environment(tmp_path), capture_output=True, text=True, check=False)
    assert again.returncode == 0
    assert again.stdout.startswith("using the sample repository in ")


def test_the_demo_fails_when_the_answer_misses_the_repository(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its exit code means something."""
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "other"\n')
    assert demo.main(tmp_path) == 1
    assert "don't mention tally" in capsys.readouterr().err
    assert set(os.listdir(tmp_path)) == {".a3s", "pyproject.toml"}
