"""Facts about tools at work. In: nothing. Out: ToolStarted, ToolResulted.

One rule: ``tool.started`` is on disk before the effects of an unsafe call begin.
Known weakness: none known.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from a3s_code.core.content import AttachmentRef, JsonObject

Outcome: TypeAlias = Literal["ok", "error", "denied", "blocked", "cancelled", "unknown"]


class ToolStarted(msgspec.Struct, frozen=True, omit_defaults=True):
    """``tool.started``: a call's side effects are about to begin. ``rerun`` is ``safe`` for read-only and
    idempotent calls; ``read_only`` keeps the duplicate guard's window (tools.md §2.3)."""

    call: str
    attempt: int
    rerun: Literal["safe", "unsafe"]
    read_only: bool = False


class ToolResulted(msgspec.Struct, frozen=True, omit_defaults=True):
    """``tool.result``: a call finished, was denied, blocked or cancelled, or nobody knows what became of it."""

    call: str
    name: str
    output: str
    exit_code: int
    outcome: Outcome
    metadata: JsonObject = {}
    took_ms: int = 0
    attachments: tuple[AttachmentRef, ...] = ()
    source: Literal["history"] | None = None
