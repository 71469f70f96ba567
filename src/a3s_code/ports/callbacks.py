"""Calling what the host gave. In: a plain or coroutine function and arguments. Out: its result, awaited.

One rule: a plain function runs in a worker thread, a coroutine on the loop that was running when it was given, else
on the home loop; never is the home loop blocked.
Known weakness: a plain function that never returns keeps its thread; its result is discarded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol


class Callbacks(Protocol):
    async def call_host(self, fn: Callable[..., Any], *args: Any) -> Any: ...

    async def in_thread(self, fn: Callable[..., Any], *args: Any) -> Any:
        """Runs our own blocking code in a worker thread."""
