"""The short forms of calls, results and numbers."""

from __future__ import annotations

from typing import Any

import pytest

from a3s_code.cli.words import WIDTH, call_words, duration, result_words


@pytest.mark.parametrize(
    ("name", "args", "words"),
    [
        ("read", {"file_path": "README.md"}, "read README.md"),
        ("read", {"path": "a.py", "offset": 200}, "read a.py from line 201"),
        ("read", {"files": [{"path": p} for p in "abcde"]}, "read a, b, c and 2 more"),
        ("write", {"file_path": "a", "content": "1\n2"}, "write a (2 lines)"),
        ("write", {"file_path": "a", "content": "1\n"}, "write a (1 line)"),
        ("edit", {"file_path": "a", "old_string": "x", "new_string": "y"}, "edit a"),
        ("ls", {}, "ls"),
        ("ls", {"path": "src"}, "ls src"),
        ("search", {"mode": "grep", "query": "x", "path": "src"}, 'search grep "x" in src'),
        ("search", {"mode": "glob", "query": "*.py", "path": "."}, 'search glob "*.py"'),
        ("bash", {"command": "make test"}, "bash $ make test"),
        ("bash", {"command": "\ncd x\nmake"}, "bash $ cd x ..."),
        ("git", {"command": "checkout", "ref": "main"}, "git checkout main"),
        ("batch", {"invocations": [{"tool": "read"}, {"tool": "ls"}]}, "batch read, ls"),
        ("program", {"source": "a\nb"}, "program of 2 lines"),
        ("web_fetch", {"url": "https://h/x"}, "web_fetch https://h/x"),
        ("web_search", {"query": "q"}, 'web_search "q"'),
        ("update_plan", {"plan": [{}, {}]}, "update_plan 2 steps"),
        ("ask_user", {"question": "why?"}, 'ask_user "why?"'),
        ("Skill", {"skill_name": "s"}, "Skill s"),
        ("task", {"tasks": [{"agent": "explore", "description": "look"}]}, "task explore: look"),
        ("mcp__gh__issue", {"id": 5, "open": True, "t": "x"}, "mcp__gh__issue id=5, open=true, t=x"),
        ("read", {"offset": "x"}, "read no files"),
        ("read", "not an object", "read"),
        ("bash", None, "bash"),
    ],
)
def test_calls(name: str, args: Any, words: str) -> None:
    """A call is said as a person would say it."""
    assert call_words(name, args) == words


def test_long_calls_are_cut() -> None:
    """A long command ends in dots within the width."""
    words = call_words("bash", {"command": "echo " + "x" * 500})
    assert len(words) == WIDTH
    assert words.endswith("x...")


@pytest.mark.parametrize(
    ("name", "output", "exit_code", "metadata", "words"),
    [
        ("read", "a\nb\n", 0, {}, "ok, 2 lines, 5 ms"),
        ("bash", "", 0, {}, "ok, no output, 5 ms"),
        ("bash", "a\n[exit code: 3]", 3, None, "exit 3, 5 ms: a"),
        ("bash", "[exit code: 3]", 3, {}, "exit 3, 5 ms"),
        ("bash", "x", 124, {"error": {"type": "timeout", "message": "Timed out"}}, "failed (timeout), 5 ms: Timed out"),
        ("read", "no such file", 1, {"error": {"type": "not_found"}}, "failed (not_found), 5 ms: no such file"),
        ("write", "Created a (2 lines, 3 bytes)\n", 0, {}, "Created a (2 lines, 3 bytes), 5 ms"),
        ("search", "a:1:x\n1 match(es) in 1 file(s)", 0, {}, "1 match(es) in 1 file(s), 5 ms"),
    ],
)
def test_results(name: str, output: str, exit_code: int, metadata: object, words: str) -> None:
    """A result says how it ended, how much came and how long it took."""
    assert result_words(name, output, exit_code, metadata, 5) == words


@pytest.mark.parametrize(
    ("ms", "words"),
    [(0, "0 ms"), (999, "999 ms"), (999.7, "1.0 s"), (59_940, "59.9 s"), (59_960, "1 min 0 s"), (125_000, "2 min 5 s")],
)
def test_durations(ms: float, words: str) -> None:
    """A duration has the unit that a person would choose."""
    assert duration(ms) == words
