"""A session's hooks. In: registrations, from any thread. Out: the hooks of an event, in their order.

One rule: a change replaces whole tuples, so that an event that is firing sees the hooks of the moment it began.
Known weakness: none known.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from a3s_code.core.content import Json, JsonObject
from a3s_code.hooks.hook import Handler, Hook

_log = logging.getLogger("a3s_code")


class Registry:
    """``by_event`` has an entry for every event with a hook, ordered by priority, then by registration."""

    def __init__(self) -> None:
        self.by_event: dict[str, tuple[Hook, ...]] = {}
        self._hooks: dict[str, Hook] = {}
        self._lock = threading.Lock()

    def add(self, hook: Hook) -> None:
        """Registers; one of the same name is replaced, keeps its place among equals, and a warning is logged."""
        with self._lock:
            replaced = hook.name in self._hooks
            self._hooks = {**self._hooks, hook.name: hook}
            self._sort()
        if replaced:
            _log.warning("hook '%s' was registered again: the earlier one is replaced", hook.name)

    def remove(self, name: str) -> bool:
        with self._lock:
            if name not in self._hooks:
                return False
            self._hooks = {other: hook for other, hook in self._hooks.items() if other != name}
            self._sort()
            return True

    def count(self) -> int:
        return len(self._hooks)

    def listed(self, abandoned: Callable[[Handler], int]) -> list[JsonObject]:
        """In the order of registration. ``abandoned`` tells how many calls of a handler never came back."""
        return [
            {
                "name": hook.name,
                "event_type": hook.event,
                "priority": hook.config.priority,
                "timeout_ms": hook.config.timeout_ms,
                "matcher": dict[str, Json](hook.matcher),
                "has_handler": hook.handler is not None,
                "abandoned_calls": abandoned(hook.handler) if hook.handler is not None else 0,
            }
            for hook in self._hooks.values()
        ]

    def _sort(self) -> None:
        found: dict[str, list[Hook]] = {}
        for hook in sorted(self._hooks.values(), key=lambda each: each.config.priority):
            found.setdefault(hook.event, []).append(hook)
        self.by_event = {event: tuple(hooks) for event, hooks in found.items()}
