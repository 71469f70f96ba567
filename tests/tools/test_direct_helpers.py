"""The helpers by which a host uses tools directly: exact values, options in either form, and the kernel as ever."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from a3s_code import Agent, CodeError, Session, ToolError


class Guard:
    """Counts the calls it is asked about."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def check_before_tool(self, session_id: str, tool_name: str) -> None:
        self.asked.append(tool_name)


class Redacting:
    def sanitize(self, text: str) -> str:
        return text.replace("hunter2", "[redacted]")


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    (tmp_path / "a.txt").write_text("one\ntwo\nthree\n")
    with Agent.create('default_model = "offline/scout"') as agent:
        yield agent.session(tmp_path, sandbox="host")


def test_reading_a_file_passes_the_kernel(tmp_path: Path) -> None:
    """The budget guard is asked, the security provider sees the text, and a hook may refuse, as for every call."""
    (tmp_path / "a.txt").write_text("password: hunter2\n")
    guard = Guard()
    with Agent.create('default_model = "offline/scout"') as agent:
        session = agent.session(tmp_path, budget_guard=guard, security_provider=Redacting())
        assert session.read_file("a.txt") == "password: [redacted]\n"
        assert guard.asked == ["read"]
        session.register_hook("no", "pre_tool_use", handler=lambda event: {"action": "block", "reason": "not now"})
        with pytest.raises(ToolError, match="not now"):
            session.read_file("a.txt")


def test_reading_a_file_gives_its_exact_text(session: Session, tmp_path: Path) -> None:
    """Lines keep their ends, and a file longer than any view comes whole."""
    (tmp_path / "long.txt").write_bytes(b"line\r\n" * 40_000)
    assert session.read_file("a.txt", 1, 1) == "two\n"
    assert session.read_file("long.txt") == "line\r\n" * 40_000
    with pytest.raises(ToolError) as caught:
        session.read_file("none.txt")
    assert caught.value.result.error_kind == "not_found"


def test_a_mapping_stands_for_the_parameters(session: Session, tmp_path: Path) -> None:
    """Every helper takes its options as a mapping too, in either spelling; an unknown one is refused by name."""
    helpers: Any = session
    (tmp_path / "sub").mkdir()
    assert helpers.read_file("a.txt", {"offset": 1, "limit": 1}) == "two\n"
    assert helpers.bash("pwd", {"cwd": "sub", "timeoutMs": 5000}).strip().endswith("/sub")
    assert helpers.glob("*.txt", {"path": "."}) == ["a.txt"]
    assert helpers.grep("TWO", {"ignoreCase": True}).startswith("a.txt:2:two")
    assert helpers.edit_file("a.txt", {"old_string": "two", "newString": "2"}).exit_code == 0
    with pytest.raises(CodeError, match="did you mean 'limit'"):
        helpers.read_file("a.txt", {"limt": 1})


def test_names_with_unusual_line_ends_stay_whole(session: Session, tmp_path: Path) -> None:
    """Only a line feed ends a line of a listing; other separators are part of a name."""
    name = "a\u2028b\x85c.md"
    (tmp_path / name).write_text("x")
    assert session.glob("*.md") == [name]


def test_wrong_kinds_of_arguments_have_a_code(session: Session) -> None:
    """What is no name, mapping or number is refused as an invalid request, not by an accident inside."""
    helpers: Any = session
    wrong: list[Callable[[], Any]] = [
        lambda: helpers.tool(5),
        lambda: helpers.tool("ls", 5),
        lambda: helpers.read_file("a.txt", "1"),
        lambda: helpers.read_file("a.txt", {"limit": "1"}),
    ]
    for call in wrong:
        with pytest.raises(CodeError) as caught:
            call()
        assert caught.value.code == "INVALID_REQUEST"


def test_a_guard_that_guards_nothing_is_refused(session: Session) -> None:
    """An object without any of a guard's methods would allow everything in silence."""
    with pytest.raises(CodeError, match="check_before_llm"):
        session.set_budget_guard(object())
