"""Facts about what was said. In: nothing. Out: UserSaid, ModelTurn, CompactionDone.

One rule: a stored turn is never sent to the model again to be answered anew.
Known weakness: none known.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from a3s_code.core.content import AttachmentRef, Call, Reasoning, Usage


class UserSaid(msgspec.Struct, frozen=True, omit_defaults=True):
    """``user.message``: a prompt, an applied steer, seeded history, or the request to go on."""

    text: str
    source: Literal["prompt", "steer", "history", "continuation"]
    attachments: tuple[AttachmentRef, ...] = ()
    request_id: str | None = None


class ModelTurn(msgspec.Struct, frozen=True, omit_defaults=True):
    """``model.turn``: the model answered. ``finish`` is ``stop``, ``length``, ``tool_calls`` or empty."""

    text: str
    source: Literal["model", "history", "delegation"]
    calls: tuple[Call, ...] = ()
    reasoning: tuple[Reasoning, ...] = ()
    usage: Usage = Usage()
    model: str = ""
    finish: str = ""


class CompactionDone(msgspec.Struct, frozen=True, omit_defaults=True):
    """``compaction.done``: everything up to fact ``upto`` is carried as ``summary``; the outputs of the calls
    ``pruned`` are carried shortened."""

    summary: str
    upto: int
    tokens_before: int
    tokens_after: int
    pruned: tuple[str, ...] = ()
    strategy: str = "model"
