"""The encoded view beside a long log (facts.md, *View and phases*). In: a view and run records. Out: bytes, and back.

One rule: a shortcut only saves time: one that doesn't fit the log or this version is as good as none.
Known weakness: it is written when a session is closed, so a killed process leaves the one before it.
"""

from __future__ import annotations

import hashlib
from typing import Final

import msgspec

from a3s_code.core.content import Usage
from a3s_code.core.facts.runs import Cause, Failure
from a3s_code.core.state import View
from a3s_code.core.viewcodec import LAYOUT, decode_view, encode_view
from a3s_code.ports.log import Position

WORTH_IT: Final = 2_000
"""Facts that a log must have grown by before a new shortcut is worth its bytes."""


class SavedRun(msgspec.Struct, frozen=True):
    """A run record without its events, which are not kept over a restart."""

    id: str
    status: str
    prompt: str
    cause: Cause
    created_ms: int
    updated_ms: int
    ended_ms: int | None
    steps: int
    usage: Usage
    text: str
    input_digest: str | None = None
    error: Failure | None = None
    stop_reason: str | None = None


class Saved(msgspec.Struct, frozen=True):
    """``sum`` is the digest of ``view``, so that a damaged file is not taken for a conversation."""

    a3s_view: str
    position: Position
    sum: str
    runs: tuple[SavedRun, ...]
    dropped: tuple[str, ...]
    view: msgspec.Raw


def save(view: View, position: Position, runs: tuple[SavedRun, ...], dropped: tuple[str, ...]) -> bytes:
    encoded = encode_view(view)
    digest = hashlib.blake2b(encoded, digest_size=16).hexdigest()
    return msgspec.json.encode(Saved(LAYOUT, position, digest, runs, dropped, msgspec.Raw(encoded)))


def load(data: bytes) -> tuple[Saved, View] | None:
    """``None`` for bytes of another version, another layout, or damaged ones."""
    try:
        saved = msgspec.json.decode(data, type=Saved)
    except msgspec.MsgspecError:
        return None
    encoded = bytes(saved.view)
    if saved.a3s_view != LAYOUT or hashlib.blake2b(encoded, digest_size=16).hexdigest() != saved.sum:
        return None
    view = decode_view(encoded)
    return (saved, view) if view is not None and view.seq == saved.position.seq else None
