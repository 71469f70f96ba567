"""The one place that starts asyncio tasks, and lets others run. In: a coroutine. Out: a task kept alive until it ends.

One rule: no task is lost and no failure is silent.
Known weakness: a failure of a task nobody awaits is only logged.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Generator
from types import coroutine
from typing import Any, TypeVar

T = TypeVar("T")
_alive: set[asyncio.Task[Any]] = set()
_log = logging.getLogger("a3s_code")


def spawn(work: Coroutine[Any, Any, T], name: str) -> asyncio.Task[T]:
    """Starts ``work`` on the running loop. The caller may await, cancel or forget the task."""
    task = asyncio.get_running_loop().create_task(work, name=name)
    _alive.add(task)
    task.add_done_callback(_ended)
    return task


@coroutine
def breathe() -> Generator[None, None, None]:
    """Lets everything else that is ready on the loop run once."""
    yield


def _ended(task: asyncio.Task[Any]) -> None:
    _alive.discard(task)
    if not task.cancelled() and (error := task.exception()) is not None:
        _log.debug("task %s ended with %r", task.get_name(), error)
