"""``run`` and ``chat`` as a person sees them: on a pseudo-terminal, and with piped lines."""

from __future__ import annotations

import fcntl
import os
import re
import select
import struct
import subprocess
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from commands import COMMAND, HOLD, environment, provider, run, said

_ESCAPES = re.compile(r"\x1b(?:\[[0-9;?]*[a-zA-Z]|[=>])")


class Terminal:
    """A command on a pseudo-terminal of 100 columns."""

    def __init__(self, process: subprocess.Popen[bytes], fd: int) -> None:
        self.process = process
        self.fd = fd
        self.raw = b""
        self._seen = 0

    def type(self, text: str) -> None:
        os.write(self.fd, text.encode())

    def until(self, words: str) -> str:
        """What appeared since the last time, once ``words`` did."""
        while words not in (shown := self.text[self._seen :]):
            if not self._more():
                raise AssertionError(f"{words!r} never appeared in {shown!r}")
        self._seen += shown.index(words) + len(words)
        return shown

    def end(self) -> int:
        while self._more():
            continue
        return self.process.wait(20)

    @property
    def text(self) -> str:
        return _ESCAPES.sub("", self.raw.decode("utf-8", "replace")).replace("\r", "")

    def _more(self) -> bool:
        if not select.select([self.fd], [], [], 20)[0]:
            return False
        try:
            piece = os.read(self.fd, 65_536)
        except OSError:  # how Linux tells that nobody has the other end any more
            return False
        if b"\x1b[6n" in piece:
            os.write(self.fd, b"\x1b[1;1R")
        self.raw += piece
        return bool(piece)


@contextmanager
def terminal(args: list[str], home: Path, **env: str) -> Iterator[Terminal]:
    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
    process = subprocess.Popen(
        [*COMMAND, *args],
        env=environment(home, **env),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        preexec_fn=_own_terminal,
        start_new_session=True,
    )
    os.close(theirs)
    try:
        yield Terminal(process, ours)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        os.close(ours)


def _own_terminal() -> None:
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


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
