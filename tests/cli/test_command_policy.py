"""``a3s-code policy explain``: what would be decided, about which part, by which rule."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from a3s_code.cli.main import main
from a3s_code.ports.sandbox import SandboxState

POLICY = """\
deny = ["bash(rm -rf*)", "write(**/.env*)"]
ask = ["bash(git push*)"]
allow = ["bash(npm test*)"]
"""


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "policy.acl"
    path.write_text(POLICY)
    return str(path)


@pytest.mark.parametrize(
    ("line", "code", "words"),
    [
        ("npm test", 0, ["allow: allow bash(npm test*)"]),
        ("npm test && git push", 3, ["ask: ask bash(git push*), because of `git push`", "npm test  allow"]),
        ("npm test; rm -fr x", 4, ["deny: deny bash(rm -rf*), because of `rm -fr x`"]),
        ("npm test > .env", 4, ["because of `> .env`"]),
        ("X=rm; $X -rf /", 3, ["ask: deny bash(rm -rf*) (could match)"]),
        ("ls", 3, ["ask: none; the default"]),
    ],
)
def test_each_part_of_a_line_is_explained(
    file: str, capsys: pytest.CaptureFixture[str], line: str, code: int, words: list[str]
) -> None:
    """The exit code is the decision, the table says the rule of each part."""
    assert main(["policy", "explain", line, "--policy-file", file]) == code
    out = capsys.readouterr().out
    for word in words:
        assert word in out


def test_json_holds_the_decision_and_its_parts(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    """One object, as `PermissionPolicy.explain` gives it, with the parts."""
    assert main(["policy", "explain", "ls; git push", "--policy-file", file, "--json"]) == 3
    found = json.loads(capsys.readouterr().out)
    assert [part["rule"] for part in found["parts"]] == [None, "bash(git push*)"]
    assert {key: found[key] for key in ("decision", "list", "rule")} == {
        "decision": "ask",
        "list": "default",
        "rule": None,
    }


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["web/../.env", "--tool", "write"], 0),
        (["a.py", "--tool", "write", "--policy", "read_only"], 4),
        (["stash push", "--tool", "git"], 3),
        (['{"mode": "grep", "query": "x"}', "--tool", "search", "--policy", "read_only"], 0),
        (["rm -rf /", "--policy", "full"], 0),
        (["x", "--tool", "unheard_of"], 2),
        (["{", "--tool", "search"], 2),
    ],
)
def test_other_tools_and_presets_are_explained_too(tmp_path: Path, arguments: list[str], code: int) -> None:
    """A text is the path, URL or command that the tool's rules are about; JSON is all arguments."""
    assert main(["policy", "explain", "-w", str(tmp_path), *arguments]) == code


def test_a_guarded_path_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What the policy allows may be asked about all the same."""
    assert main(["policy", "explain", "-w", str(tmp_path), ".env", "--tool", "write"]) == 0
    assert "the path is guarded" in capsys.readouterr().out
    assert main(["policy", "explain", "-w", str(tmp_path), "a.py", "--tool", "write"]) == 0
    assert "guarded" not in capsys.readouterr().out


def test_a_command_needs_a_place_to_run_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Under `workspace` it asks where no sandbox works, unless the host chose to do without."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("a3s_code.cli.policy.native", lambda processes, environ: _NoSandbox())
    assert main(["policy", "explain", "ls"]) == 3
    assert "no sandbox works here" in capsys.readouterr().out
    monkeypatch.setenv("A3S_CODE_ALLOW_PROCESS_HOST_SANDBOX", "1")
    assert main(["policy", "explain", "ls"]) == 0


class _NoSandbox:
    async def state(self) -> SandboxState:
        return SandboxState("none", "it is a test")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('deny = ["bash("]\n', [":1:9: ", "malformed deny rule 'bash('"]),
        ('ask = ["write"]\nalow = ["read"]\n', [":2:1: ", "alow: unknown key"]),
    ],
)
def test_a_policy_file_that_is_not_understood_is_bad_usage(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, words: list[str]
) -> None:
    """Nothing runs; file, line and column are named."""
    (tmp_path / "bad.acl").write_text(text)
    for command in (["policy", "explain", "ls"], ["run", "hello", "-w", str(tmp_path)]):
        assert main([*command, "--policy-file", str(tmp_path / "bad.acl")]) == 2
        err = capsys.readouterr().err
        for word in words:
            assert word in err
    assert not (tmp_path / ".a3s").exists()
