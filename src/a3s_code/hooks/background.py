"""Hooks that nobody waits for (extensions.md §1.1, ``background``). In: events as they happen. Out: handlers told.

One rule: one hook is told one event at a time, in the order they happened; a slow hook holds up only itself.
Known weakness: a hook that is slower than its events loses the newest once ``LONGEST`` are waiting.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeAlias

from a3s_code.core.content import JsonObject
from a3s_code.hooks.hook import Hook
from a3s_code.ports.hooks import About
from a3s_code.ports.tasks import spawn

LONGEST: Final = 1024
_log = logging.getLogger("a3s_code")
Observe: TypeAlias = Callable[[Hook, About, JsonObject], Awaitable[str]]


class _Line:
    """What one hook is still to be told."""

    def __init__(self) -> None:
        self.waiting: deque[tuple[Hook, About, JsonObject]] = deque()
        self.task: asyncio.Task[None] | None = None


class Background:
    def __init__(self, observe: Observe) -> None:
        self._observe = observe
        self._lines: dict[str, _Line] = {}

    def later(self, hook: Hook, about: About, payload: JsonObject) -> None:
        """Has ``hook`` told after everything it is still to be told; ``payload`` is its own copy."""
        line = self._lines.setdefault(hook.name, _Line())
        if len(line.waiting) >= LONGEST:
            _log.warning("hook '%s' is too slow: an event %s is dropped", hook.name, hook.event)
            return
        line.waiting.append((hook, about, payload))
        if line.task is None:
            line.task = spawn(self._work(hook.name, line), f"hook {hook.name}")

    async def drained(self, seconds: float) -> None:
        tasks = self._tasks()
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=seconds)
            if late:
                _log.warning("%d hook(s) in the background were not done after %s s", len(late), seconds)

    def drop(self) -> None:
        for line in self._lines.values():
            line.waiting.clear()
        for task in self._tasks():
            task.cancel()

    def _tasks(self) -> list[asyncio.Task[Any]]:
        return [line.task for line in self._lines.values() if line.task is not None]

    async def _work(self, name: str, line: _Line) -> None:
        try:
            while line.waiting:
                await self._observe(*line.waiting.popleft())
        finally:
            if self._lines.get(name) is line:
                del self._lines[name]
