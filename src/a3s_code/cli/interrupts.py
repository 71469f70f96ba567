"""Ctrl-C while a run is at work. In: what to do at the first one. Out: a run that ends, or a program that leaves.

One rule: the first interrupt asks and waits, the second doesn't wait; the log is well formed either way.
Known weakness: what a command of the run started elsewhere (another machine, a daemon) goes on.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Final

_LAST_MOMENT_S: Final = 2.0  # for child processes to be ended and the terminal to be put right


class Interrupts:
    """A context manager around a run on the running loop. ``code`` is the exit code that an interrupt asks for."""

    def __init__(self, first: Callable[[], object], second: Callable[[], object]) -> None:
        self.code: int | None = None
        self._first = first
        self._second = second
        self._loop = asyncio.get_running_loop()
        self._signals = (signal.SIGINT, signal.SIGTERM)

    def __enter__(self) -> Interrupts:
        for number in self._signals:
            self._loop.add_signal_handler(number, self._signalled, number)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number in self._signals:
            self._loop.remove_signal_handler(number)

    def _signalled(self, number: int) -> None:
        if self.code is None:
            self.code = 128 + number
            self._first()
            return
        self._second()
        last = threading.Timer(_LAST_MOMENT_S, os._exit, [self.code])
        last.daemon = True
        last.start()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
