"""A person at the terminal, asked while a run waits. In: lines to show and a question. Out: the line that was typed.

Questions go to the standard error output, so that a run's own output may go elsewhere.

One rule: what was typed before a question stood there is no answer to it.
Known weakness: while a long text is paged, the terminal's own size is taken once, at its beginning.
"""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import os
import shutil
import sys
import termios
import unicodedata
from collections.abc import Sequence
from typing import Final, TextIO

_LEFT_FOR_THE_QUESTION: Final = 4


class Keyboard:
    """``line`` and ``show`` give ``None`` or ``False`` once the person is gone or ``interrupt`` was called."""

    def __init__(self, fd: int | None = None, out: TextIO | None = None) -> None:
        self._fd = sys.stdin.fileno() if fd is None else fd
        self._out = out or sys.stderr
        self._waiting: asyncio.Future[str | None] | None = None
        self.interrupted = False

    def interrupt(self) -> None:
        """Ends the question that stands there, and every later one."""
        self.interrupted = True
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    @property
    def width(self) -> int:
        return shutil.get_terminal_size((80, 24)).columns

    async def line(self, question: str) -> str | None:
        if self.interrupted:
            return None
        with contextlib.suppress(termios.error):  # a terminal that went away gives its end when it is read
            termios.tcflush(self._fd, termios.TCIFLUSH)
        self.say(question, end="")
        loop = asyncio.get_running_loop()
        waiting: asyncio.Future[str | None] = loop.create_future()
        self._waiting = waiting
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        typed: list[str] = []

        def read() -> None:
            try:
                data = os.read(self._fd, 4096)
            except OSError:
                data = b""
            typed.append(decoder.decode(data))
            if not waiting.done() and (not data or b"\n" in data):
                waiting.set_result("".join(typed) if data else None)

        loop.add_reader(self._fd, read)
        try:
            answer = await waiting
        finally:
            loop.remove_reader(self._fd)
            self._waiting = None
        if answer is None:
            self.say("")
        return answer

    def say(self, text: str, end: str = "\n") -> None:
        encoding = getattr(self._out, "encoding", None) or "utf-8"
        self._out.write((text + end).encode(encoding, "replace").decode(encoding))
        self._out.flush()

    async def show(self, lines: Sequence[str]) -> bool:
        """All of it, a screen at a time."""
        width, height = shutil.get_terminal_size((80, 24))
        room = max(5, height - _LEFT_FOR_THE_QUESTION)
        rows = [row for line in lines for row in rows_of(line, width)]
        for begin in range(0, len(rows), room):
            for row in rows[begin : begin + room]:
                self.say(row)
            left = len(rows) - begin - room
            if left <= 0:
                break
            answer = await self.line(f"-- {left} more lines: Enter shows them, q goes to the question -- ")
            if answer is None:
                return False
            if answer.strip().lower() in ("q", "quit"):
                self.say(f"({left} lines were not shown)")
                break
        return True


def rows_of(line: str, width: int) -> list[str]:
    """``line`` in rows that fit a terminal of ``width`` columns, so that it wraps none itself."""
    width = max(10, width)
    if line.isascii():
        return [line[at : at + width] for at in range(0, max(1, len(line)), width)]
    rows, begin, used = [], 0, 0
    for at, char in enumerate(line):
        columns = 2 if unicodedata.east_asian_width(char) in "WFA" else 1
        if used + columns > width:
            rows.append(line[begin:at])
            begin, used = at, 0
        used += columns
    return [*rows, line[begin:]]
