"""Calling what the host gave. In: a plain or coroutine function and arguments. Out: its result, awaited.

One rule: a plain function runs in a worker thread, a coroutine on the loop that was running when it was given, else
on the home loop; never is the home loop blocked.
Known weakness: a plain function that never returns keeps its thread; its result is discarded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol


class NoAnswer(Exception):
    """What the host gave didn't answer in time; the message says how long it had."""


class Callbacks(Protocol):
    async def call_host(self, fn: Callable[..., Any], *args: Any) -> Any: ...

    async def call_within(self, seconds: float, fn: Callable[..., Any], *args: Any) -> Any:
        """The same; ``NoAnswer`` after ``seconds``, whatever the function does: it is abandoned, and its late answer is
        discarded. While four calls of one function are abandoned, further ones fail at once."""

    def abandoned(self, fn: Callable[..., Any]) -> int:
        """How many calls of ``fn`` were abandoned and have not ended since."""

    async def in_thread(self, fn: Callable[..., Any], *args: Any) -> Any:
        """Runs our own blocking code in a worker thread."""
