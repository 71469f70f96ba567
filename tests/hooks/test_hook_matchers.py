"""Which events a matcher lets through (extensions.md §1.1)."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
from hookhelp import Heard, Note, open_session

from a3s_code import Agent
from a3s_code.hooks.matcher import compiled, relative
from a3s_code.ports.hooks import About
from a3s_code.testing import call

ROOT = "/home/me/ws"


def matches(matcher: dict[str, Any], payload: dict[str, Any], session_id: str = "s", skill: str | None = None) -> bool:
    about = About(session_id, ROOT, 0, {}, lambda line: None, skill=skill)
    return all(test(about, payload) for test in compiled(matcher))


@pytest.mark.parametrize(
    ("pattern", "tool", "expected"),
    [
        ("bash", "bash", True),
        ("bash", "Bash", False),
        ("bash", "bash2", False),
        ("mcp__*", "mcp__git__log", True),
        ("mcp__*", "xmcp__git", False),
        ("mcp__???", "mcp__git", True),
        ("[bl]s", "ls", True),
        ("[!l]s", "ls", False),
        ("a.c", "abc", False),
    ],
)
def test_tools(pattern: str, tool: str, expected: bool) -> None:
    """Exact and case-sensitive, a glob with a wildcard in it."""
    assert matches({"tool": pattern}, {"tool": tool}) is expected
    assert not matches({"tool": pattern}, {"prompt": "x"})


@pytest.mark.parametrize(
    ("pattern", "args", "expected"),
    [
        (".env", {"file_path": ".env"}, True),
        (".env", {"file_path": "a/../.env"}, True),
        (".env", {"file_path": "./.env"}, True),
        (".env", {"file_path": f"{ROOT}/b/../.env"}, True),
        (".env", {"file_path": "a/.env"}, False),
        (".env", {"path": ".env"}, True),
        (".env", {"file_path": "x", "path": ".env"}, False),
        (".env", {"files": [{"path": "x"}, {"path": "a//../.env"}]}, True),
        (".env", {"files": [".env", {"path": 3}]}, False),
        (".env", {"file_path": 3}, False),
        (".env", {}, False),
        ("**/.env", {"file_path": "a/b/.env"}, True),
        ("**/.env", {"file_path": ".env"}, True),
        ("src/*.py", {"file_path": "src/a.py"}, True),
        ("src/*.py", {"file_path": "src/a/b.py"}, False),
        ("src/**", {"file_path": "src/a/b.py"}, True),
        ("src/[ab].?y", {"file_path": "src/a.py"}, True),
        ("src/[!ab].py", {"file_path": "src/a.py"}, False),
        ("src[!x]a", {"file_path": "src/a"}, False),
        ("../*", {"file_path": "../x"}, True),
        ("/etc/*", {"file_path": "/etc/passwd"}, True),
        ("*.py", {"file_path": "a\n.py"}, True),
        ("a.py", {"file_path": "abpy"}, False),
        (".", {"path": "."}, True),
    ],
)
def test_paths(pattern: str, args: dict[str, Any], expected: bool) -> None:
    """Globs against the normalised workspace-relative path of file_path, else path, or any of files."""
    assert matches({"path_pattern": pattern}, {"tool": "read", "args": args}) is expected


def test_paths_of_odd_roots() -> None:
    """A workspace at the file system's root, and a sibling whose name begins like the workspace's."""
    assert relative("/etc/passwd", "/") == "etc/passwd"
    assert relative("x", "/") == "x"
    assert relative(f"{ROOT}2/x", ROOT) == f"{ROOT}2/x"


@pytest.mark.parametrize(
    ("pattern", "command", "expected"),
    [
        (r"rm\s+-rf", "cd x && rm  -rf y", True),
        (r"^rm", "cd x && rm y", False),
        (r"rm", ["rm"], False),
        (r"a$", "a\nb", False),
        (r"(?m)a$", "a\nb", True),
    ],
)
def test_commands(pattern: str, command: Any, expected: bool) -> None:
    """A regular expression that is searched for in a command that is text."""
    assert matches({"command_pattern": pattern}, {"args": {"command": command}}) is expected


def test_sessions_skills_and_everything() -> None:
    """All given keys must match; no key at all matches every event; a missing field doesn't match."""
    payload = {"tool": "bash", "args": {"command": "ls", "path": "x"}}
    assert matches({}, payload)
    assert matches({"tool": None}, payload)
    assert matches({"session_id": "s", "tool": "bash", "command_pattern": "ls", "path_pattern": "x"}, payload)
    assert not matches({"session_id": "t", "tool": "bash"}, payload)
    assert not matches({"session_id": "s", "tool": "ls"}, payload)
    assert not matches({"skill": "review"}, payload)
    assert matches({"skill": "review"}, payload, skill="review")
    assert matches({"skill": "review"}, {"skill": "review"})
    assert not matches({"skill": "review"}, {"skill": "other"}, skill="review")


async def test_a_matcher_chooses_among_the_calls_of_a_run(agent: Agent, workspace: Path) -> None:
    """Only what matches is shown to the hook; a later hook's matcher sees the rewrite of an earlier one."""
    note = Note()
    script = [call("note", {"text": "x", "file_path": "a/../.env"}), call("note", {"text": "y"})], "done"
    session = await open_session(agent, workspace, *script, tools=[note])
    first = Heard({"action": "continue", "modified": {"text": "z", "command": "make"}})
    second = Heard()
    session.register_hook("first", "pre_tool_use", {"path_pattern": ".env"}, handler=first)
    session.register_hook("second", "pre_tool_use", {"command_pattern": "^make$"}, handler=second)
    await session.send_async("go")
    assert [p["args"]["text"] for p in first.payloads] == ["x"]
    assert [p["args"]["text"] for p in second.payloads] == ["z"]
    assert note.calls == [{"text": "z", "command": "make"}, {"text": "y"}]


async def test_a_matcher_that_fails_is_a_hook_that_fails(
    agent: Agent, workspace: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A gate that can't tell whether it is meant has denied; an observer is skipped."""

    class Broken(str):
        def __eq__(self, other: object) -> bool:
            raise RuntimeError("no comparing")

        __hash__ = str.__hash__

    session = await open_session(agent, workspace, tools=[Note()])
    session.register_hook("guard", "pre_tool_use", {"tool": Broken("note")}, handler=Heard())
    result = await session.tool_async("note", {"text": "x"})
    assert result.output.startswith("Denied by hook: Required hook 'guard' failed: RuntimeError: no comparing")
    session.unregister_hook("guard")
    session.register_hook("seer", "post_tool_use", {"tool": Broken("note")}, handler=Heard())
    with caplog.at_level(logging.WARNING, "a3s_code"):
        assert (await session.tool_async("note", {"text": "x"})).exit_code == 0
    assert "no comparing" in caplog.text
