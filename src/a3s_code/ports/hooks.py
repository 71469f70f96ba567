"""What hooks are to the engine (extensions.md §1). In: an event that happens. Out: told, or a decision about it.

One rule: a gating event goes on only when every hook it was put to has answered well; an observing one always goes on.
Known weakness: none known.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from typing import Protocol

import msgspec

from a3s_code.core.content import Json, JsonObject


class About(msgspec.Struct, frozen=True):
    """Where an event happens. ``root`` is the workspace's path, ``trace`` takes a line about every hook that was
    called, with the time that it took if this is ``timed``; ``patience_ms`` shortens the hooks' own timeouts."""

    session_id: str
    root: str
    timestamp_ms: int
    labels: Mapping[str, str]
    trace: Callable[[JsonObject], None]
    run_id: str | None = None
    turn_id: str | None = None
    parent_session_id: str | None = None
    skill: str | None = None
    patience_ms: int | None = None
    timed: bool = True


class Denied(msgspec.Struct, frozen=True):
    """A hook's refusal. ``retry_after_ms`` only when ``retryable``."""

    reason: str
    retryable: bool = False
    retry_after_ms: int | None = None

    def detail(self) -> dict[str, Json]:
        """Exactly what ``metadata["error"]`` of a denied call holds."""
        return {
            "type": "hook_denied",
            "reason": self.reason,
            "retryable": self.retryable,
            "retry_after_ms": self.retry_after_ms,
        }

    def __str__(self) -> str:
        after = f"; retry after {self.retry_after_ms} ms" if self.retry_after_ms is not None else ""
        return f"Denied by hook: {self.reason} (retryable={str(self.retryable).lower()}){after}"


class Gated(msgspec.Struct, frozen=True):
    """What came of a gating event. ``payload`` is the one given, with what hooks rewrote; ``consulted`` says that a
    hook was asked; ``allowed_by`` names the hook that answered a ``permission_request`` with yes; ``context`` is what
    hooks want added to a prompt."""

    payload: JsonObject
    denied: Denied | None = None
    consulted: bool = False
    allowed_by: str | None = None
    reason: str | None = None
    context: str = ""


class Hooks(Protocol):
    @property
    def listening(self) -> Container[str]:
        """The events that a hook is registered for: asked before an event is put together, so that without hooks
        nothing is."""

    async def gate(self, event: str, about: About, payload: JsonObject, *, own_args: bool = False) -> Gated:
        """Puts the question to the hooks, one after another. ``own_args`` says that the tool has a parameter ``args``,
        so that a rewrite can't mean it."""

    async def tell(self, event: str, about: About, payload: JsonObject) -> None:
        """Tells the hooks, one after another; those in the background are not waited for."""

    async def drained(self, seconds: float) -> None:
        """Returns once the hooks in the background have been told everything, or after this long."""

    def dropped(self) -> None:
        """Ends what is still to be told in the background: the session is closed."""


class NoHooks:
    """Of a session that has no hooks and will get none."""

    listening: frozenset[str] = frozenset()

    async def gate(self, event: str, about: About, payload: JsonObject, *, own_args: bool = False) -> Gated:
        return Gated(payload)

    async def tell(self, event: str, about: About, payload: JsonObject) -> None:
        return

    async def drained(self, seconds: float) -> None:
        return

    def dropped(self) -> None:
        return
