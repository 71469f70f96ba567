"""Telling readers that a quiet run is alive (cases H18). In: a run at work. Out: ``heartbeat`` events while it is so.

One rule: a heartbeat is for whoever reads now; it is neither recorded nor part of a replay.
Known weakness: it says that the loop turns, not that the work makes progress; deadlines are for that.
"""

from __future__ import annotations

import asyncio

from a3s_code.core import project
from a3s_code.core.decide import next_step
from a3s_code.engine.active import ActiveRun

EVERY_S = 15.0


class Heartbeat:
    """Beats between ``start`` and ``stop``; not under fixed times, whose streams are equal byte for byte."""

    def __init__(self, run: ActiveRun) -> None:
        self._run = run
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._seen = -1

    def start(self) -> None:
        if not self._run.parts.env.fixed:
            self._timer = self._loop.call_later(EVERY_S, self._beat)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _beat(self) -> None:
        run, seen = self._run, self._run.sequence
        if seen == self._seen:
            run.whisper(project.heartbeat(next_step(run.view, run.rules).phase))
        self._seen = seen
        self._timer = self._loop.call_later(EVERY_S, self._beat)
