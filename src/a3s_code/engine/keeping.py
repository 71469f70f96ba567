"""What a session with a store is given. In: nothing. Out: one struct that wiring fills and the engine reads.

One rule: a session without a store has none of this, and pays for none of it.
Known weakness: none known.
"""

from __future__ import annotations

import msgspec

from a3s_code.core.content import JsonObject
from a3s_code.ports.leases import Leases
from a3s_code.ports.log import MovableLog
from a3s_code.ports.store import SessionStore


class Keeping(msgspec.Struct, frozen=True):
    """``options`` and ``model`` bind on resume where the caller leaves them unset; ``log`` is the session's own;
    ``leases`` are those of the process, ``None`` where nobody else can write the session."""

    store: SessionStore
    log: MovableLog
    leases: Leases | None = None
    auto_save: bool = False
    model: str = ""
    options: JsonObject = {}
