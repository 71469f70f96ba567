"""Facts about runs. In: nothing. Out: RunOpened, RunClosed.

One rule: at most one run of a log is open; the first closing fact wins.
Known weakness: a run whose process died stays open until it is resumed or settled by the next prompt.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

Cause: TypeAlias = Literal["send", "stream", "command", "resume", "recovery", "spawned"]
Closing: TypeAlias = Literal["completed", "failed", "cancelled"]


class Failure(msgspec.Struct, frozen=True, omit_defaults=True):
    """Why a run failed: a code of ``errors.CODES`` and a message."""

    code: str
    message: str


class RunOpened(msgspec.Struct, frozen=True, omit_defaults=True):
    """``run.opened``: a run begins. ``context`` is the digest of what stands behind it (facts.md, *Standing
    context*); ``side`` marks a run with explicit history, which ``history()`` leaves out; ``resumes`` is the run
    it goes on from."""

    run: str
    cause: Cause
    context: dict[str, str] = {}
    side: bool = False
    resumes: str | None = None
    input_digest: str | None = None


class RunClosed(msgspec.Struct, frozen=True, omit_defaults=True):
    """``run.closed``: a run settled. ``stop_reason`` is ``done``, ``tool_budget`` or ``cancelled``."""

    status: Closing
    steps: int
    error: Failure | None = None
    stop_reason: str = "done"
