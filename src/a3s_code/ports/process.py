"""Child processes. In: an argument vector, environment, limits. Out: what it printed and how it ended.

One rule: when ``run`` returns, nothing of the child's process group is left, whatever it did with its pipes.
Known weakness: a grandchild that called ``setsid`` leaves the group; on Linux it is found by a mark in its
environment and killed, elsewhere it is only seen when it holds a pipe (``background_terminated``).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import msgspec


class Captured(msgspec.Struct, frozen=True):
    """One stream, bounded: ``text`` is head, marker and tail; ``total`` and ``omitted`` are bytes."""

    text: str = ""
    total: int = 0
    omitted: int = 0
    lossy: bool = False


class ProcessOutcome(msgspec.Struct, frozen=True):
    """``exit_code`` is 128+n for a death by signal n, 127 when it could not be started (``error`` says why)."""

    exit_code: int
    stdout: Captured
    stderr: Captured
    signal: int | None = None
    timed_out: bool = False
    cancelled: bool = False
    background_terminated: bool = False
    duration_ms: int = 0
    error: str | None = None


class Processes(Protocol):
    async def run(
        self,
        argv: Sequence[str],
        *,
        cwd: str,
        env: Mapping[str, str],
        timeout_ms: int,
        cancelled: asyncio.Event,
        on_text: Callable[[str], None] | None = None,
        capture_bytes: int = 524_288,
        stdin: bytes = b"",
        supervised: bool = False,
        passed: Sequence[int] = (),
    ) -> ProcessOutcome:
        """Runs to the end as tools.md §3.7 says (*Process*, *Deadline*, *Background children*, *Capture*).
        ``capture_bytes`` is kept of the head and of the tail of each stream; ``stdin`` is empty unless given.
        ``supervised``: the first process ends with what it started, so only the others are asked to end (SIGTERM).
        ``passed`` are descriptors that the process inherits under their numbers."""
