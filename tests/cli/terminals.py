"""A pseudo-terminal for the tests of the command. In: arguments. Out: a command on it, what it shows, what is typed.

One rule: waiting is for words to appear, never for time. Known weakness: a screen that redraws is read as a stream.
"""

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

from commands import COMMAND, environment

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
