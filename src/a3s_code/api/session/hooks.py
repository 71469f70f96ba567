"""Hooks of a session (extensions.md §1.1). In: handlers of a host. Out: a registry that events are put to.

One rule: a change counts from the next event on, also while a run is at work; nothing here waits.
Known weakness: none known.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from a3s_code.api.session.control import RunControl
from a3s_code.core.content import JsonObject
from a3s_code.hooks.hook import Handler, HookConfig, hook_of

Matcher = Mapping[str, str] | Handler


class Hooking(RunControl):
    """The ``_async`` methods are the same for programs that use that face throughout."""

    def register_hook(
        self,
        name: str,
        event_type: str,
        matcher: Matcher | None = None,
        config: HookConfig | Mapping[str, Any] | None = None,
        handler: Callable[..., Any] | None = None,
    ) -> None:
        """Has ``handler(event)``, a plain or a coroutine function, called at every matching event of this type.

        ``matcher``: ``tool``, ``path_pattern``, ``command_pattern``, ``session_id``, ``skill``; all given ones must
        match; a function in its place is the handler. ``config``: ``priority`` (100; lower runs first), ``timeout_ms``
        (30000), ``background`` (false). Without a handler matches are only traced. A name that is registered is
        replaced. ``INVALID_REQUEST`` says what is wrong. See extensions.md §1.
        """
        self._engine.check_open()
        hook = hook_of(name, event_type, matcher, config, handler)
        if hook.handler is not None:
            self._home.adopt(hook.handler)
        self._hooks.registry.add(hook)

    async def register_hook_async(
        self,
        name: str,
        event_type: str,
        matcher: Matcher | None = None,
        config: HookConfig | Mapping[str, Any] | None = None,
        handler: Callable[..., Any] | None = None,
    ) -> None:
        """The same."""
        self.register_hook(name, event_type, matcher, config, handler)

    def unregister_hook(self, name: str) -> bool:
        """``False`` when no hook has this name."""
        self._engine.check_open()
        return self._hooks.registry.remove(name)

    async def unregister_hook_async(self, name: str) -> bool:
        """The same."""
        return self.unregister_hook(name)

    def hook_count(self) -> int:
        """How many hooks are registered."""
        return self._hooks.registry.count()

    async def hook_count_async(self) -> int:
        """The same."""
        return self.hook_count()

    def list_hooks(self) -> list[JsonObject]:
        """``name``, ``event_type``, ``priority``, ``timeout_ms``, ``matcher``, ``has_handler`` and ``abandoned_calls``
        (calls that outlived their timeout and have not come back), in the order of registration."""
        return self._hooks.registry.listed(self._home.abandoned)

    async def list_hooks_async(self) -> list[JsonObject]:
        """The same."""
        return self.list_hooks()
