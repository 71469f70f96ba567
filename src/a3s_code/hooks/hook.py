"""One registered hook (extensions.md §1.1). In: the five arguments of ``register_hook``. Out: a checked hook.

One rule: whatever is wrong is said before anything changes (``INVALID_REQUEST``, naming the hook and the argument).
Known weakness: a handler whose signature can't be read is taken to want the event.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

import msgspec

from a3s_code.core.content import JsonObject
from a3s_code.errors import CodeError
from a3s_code.hooks import matcher as matchers
from a3s_code.hooks.catalogue import GATING, HOOK_EVENT_TYPES_EXTENDED
from a3s_code.ports.hooks import About

Handler: TypeAlias = Callable[..., Any]
ARGUMENTS: Final = ("name", "event_type", "matcher", "config", "handler")
DEFAULT_PRIORITY: Final = 100
DEFAULT_TIMEOUT_MS: Final = 30_000


class HookConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``priority``: lower runs first. ``timeout_ms`` bounds one call of the handler. ``background``: observing events
    only; fire without waiting."""

    priority: int = DEFAULT_PRIORITY
    timeout_ms: int = DEFAULT_TIMEOUT_MS
    background: bool = False


class Hook(msgspec.Struct, frozen=True, eq=False):
    """``takes_event`` is false for a handler that declares no parameter."""

    name: str
    event: str
    matcher: dict[str, str]
    config: HookConfig
    handler: Handler | None
    takes_event: bool
    tests: tuple[matchers.Test, ...]

    def matches(self, about: About, payload: JsonObject) -> bool:
        return all(test(about, payload) for test in self.tests)


def hook_of(name: object, event_type: object, matcher: object, config: object, handler: object) -> Hook:
    """The hook these arguments stand for; ``INVALID_REQUEST`` says what is wrong with them."""
    if not isinstance(name, str) or not name.strip():
        raise CodeError(f"hook name: expected text that is not blank, got {name!r:.60}", "INVALID_REQUEST")
    try:
        if handler is None and callable(matcher) and not isinstance(matcher, Mapping):
            matcher, handler = None, matcher
        event = _event(event_type)
        given = _keyed("matcher", matcher, matchers.KEYS)
        settings = _config(_keyed("config", config, HookConfig.__struct_fields__), event)
        if handler is not None and not callable(handler):
            raise ValueError(f"handler: expected a function, got {type(handler).__name__}")
        return Hook(name, event, given, settings, handler, _takes_event(handler), matchers.compiled(given))
    except ValueError as error:
        raise CodeError(f"hook '{name:.60}': {error}", "INVALID_REQUEST") from None


def hook_from(given: object) -> Hook:
    """The hook of a mapping with the five arguments as members, for the option ``hooks``."""
    try:
        members = _keyed("it", given, ARGUMENTS)
    except ValueError as error:
        raise CodeError(f"a hook is a mapping of {', '.join(ARGUMENTS)}: {error}", "INVALID_REQUEST") from None
    return hook_of(*(members.get(name) for name in ARGUMENTS))


def _event(given: object) -> str:
    if isinstance(given, str) and given in HOOK_EVENT_TYPES_EXTENDED:
        return given
    raise ValueError(f"unknown event {given!r:.60}; the events are {', '.join(HOOK_EVENT_TYPES_EXTENDED)}")


def _keyed(what: str, given: object, known: tuple[str, ...]) -> dict[str, Any]:
    """A mapping or an option object as a dict with snake_case keys, all of them known."""
    if given is None:
        return {}
    if isinstance(given, msgspec.Struct):
        given = msgspec.structs.asdict(given)
    if not isinstance(given, Mapping):
        raise ValueError(f"{what}: expected a mapping, got {given!r:.60}")
    keyed = {}
    for key, value in given.items():
        name = re.sub(r"(?<=[a-z0-9])([A-Z])", lambda upper: f"_{upper[1].lower()}", str(key))
        if name not in known:
            raise ValueError(f"{what}: unknown key {key!r:.60}{_nearest(name, known)}")
        keyed[name] = value
    return keyed


def _nearest(name: str, known: tuple[str, ...]) -> str:
    import difflib  # only a misspelt name needs it

    close = difflib.get_close_matches(name, known, 1)
    return f" (did you mean '{close[0]}'?)" if close else f", expected {', '.join(known)}"


def _config(given: dict[str, Any], event: str) -> HookConfig:
    try:
        config = msgspec.convert({key: value for key, value in given.items() if value is not None}, HookConfig)
    except msgspec.ValidationError as error:
        raise ValueError(f"config: {error}") from None
    if config.timeout_ms < 1:
        raise ValueError(f"config: timeout_ms: expected 1 or more, got {config.timeout_ms}")
    if config.background and event in GATING:
        raise ValueError(f"config: background: the event {event} waits for its hooks' decision")
    return config


def _takes_event(handler: object) -> bool:
    if not callable(handler):
        return True
    try:
        return bool(inspect.signature(handler).parameters)
    except (TypeError, ValueError):
        return True
