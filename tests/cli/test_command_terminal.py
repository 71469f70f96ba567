"""``run`` and ``chat`` as a person sees them: on a pseudo-terminal, and with piped lines."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from commands import HOLD, provider, run, said
from terminals import terminal


def test_a_run_is_shown_live(tmp_path: Path) -> None:
    """Calls with their results, the answer as Markdown, a summary; the cursor is back at the end."""
    (tmp_path / "README.md").write_text("# Kites\n\nHow to build kites.\n")
    with terminal(["run", "-w", str(tmp_path), "summarise this repository"], tmp_path) as shown:
        assert shown.end() == 0
    assert "● read README.md" in shown.text
    assert "✓" in shown.text
    assert "How to build kites." in shown.text
    assert "done: " in shown.text
    assert shown.raw.rindex(b"\x1b[?25h") > shown.raw.rindex(b"\x1b[?25l")


def test_ctrl_c_on_a_terminal_interrupts_the_run(tmp_path: Path) -> None:
    """The typed character is the signal."""
    with provider([HOLD]) as server, terminal(["run", "-w", str(tmp_path), "go"], tmp_path, **server.env) as shown:
        assert server.holding.wait(20)
        shown.type("\x03")
        shown.until("interrupting")
        assert shown.end() == 130
    assert "cancelled: " in shown.text


@pytest.mark.parametrize("kit", ["with prompt-toolkit", "without it"])
def test_a_conversation_is_typed(tmp_path: Path, kit: str) -> None:
    """Prompts, the program's own commands, Ctrl-C at the prompt and in a run, Ctrl-D; with and without the extra."""
    extra = {"PYTHONPATH": os.pathsep.join([str(tmp_path / "off"), os.environ.get("PYTHONPATH", "")])}
    if kit == "without it":
        (tmp_path / "off" / "prompt_toolkit").mkdir(parents=True)
        missing = "raise ModuleNotFoundError('prompt_toolkit is hidden', name='prompt_toolkit')"
        (tmp_path / "off" / "prompt_toolkit" / "__init__.py").write_text(missing)
    with (
        provider(said("First answer."), [HOLD], said("Third answer.")) as server,
        terminal(["chat", "-w", str(tmp_path)], tmp_path, **server.env, **extra) as shown,
    ):
        shown.until("/help for help.")
        shown.type("one\r")
        shown.until("First answer.")
        shown.until("done: ")
        shown.until(">")
        shown.type("never sent\x03")
        shown.until(">")
        shown.type("two\r")
        assert server.holding.wait(20)
        shown.type("\x03")
        shown.until("cancelled: ")
        shown.until(">")
        shown.type("/history\r")
        shown.until("First answer.")
        shown.until(">")
        shown.type("three\r")
        shown.until("Third answer.")
        shown.until("done: ")
        shown.until(">")
        shown.type("\x04")
        shown.until("a3s-code chat --session")
        assert shown.end() == 0
    assert [body["messages"][-1]["content"] for _, body in server.asked] == ["one", "two", "three"]


def test_alt_enter_begins_a_new_line(tmp_path: Path) -> None:
    """Several lines are one prompt, and are remembered for the next time."""
    with (
        provider(said("Read.")) as server,
        terminal(["chat", "-w", str(tmp_path)], tmp_path, **server.env) as shown,
    ):
        shown.until(">")
        shown.type("one\x1b\rtwo\r")
        shown.until("Read.")
        shown.until(">")
        shown.type("/exit\r")
        assert shown.end() == 0
    assert server.asked[0][1]["messages"][-1]["content"] == "one\ntwo"
    history = tmp_path / ".local" / "state" / "a3s-code" / "chat-history"
    assert "+one\n+two\n" in history.read_text()
    assert history.stat().st_mode & 0o077 == 0


def test_piped_lines_are_prompts(tmp_path: Path) -> None:
    """Without a terminal each line is a prompt; /new begins another session, and a failed run ends nothing."""
    with provider(said("First."), 400, said("Third.")) as server:
        typed = "one\n\n/nonsense\ntwo\n/new\nthree\n/help\n/exit\nnever\n"
        code, out, err = run(["chat", "-w", str(tmp_path)], tmp_path, typed, **server.env)
    assert code == 0, err
    assert "First.\n" in out
    assert "there is no command /nonsense" in out
    assert "LLM_ERROR" in out
    assert "Third.\n" in out
    assert "Ctrl-D" in out
    assert [len(body["messages"]) for _, body in server.asked] == [2, 4, 2]
    assert len(list((tmp_path / ".a3s" / "effect-log").glob("*.jsonl"))) == 2
