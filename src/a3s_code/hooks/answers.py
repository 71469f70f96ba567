"""What a handler returned (extensions.md §1.2, §1.3). In: any value. Out: an answer, or what is wrong with it.

One rule: only what the chapter lists is understood; whatever else is a fault, for the caller to fail closed on.
Known weakness: none known.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec

from a3s_code.core.content import Json, JsonObject
from a3s_code.ports.hooks import Denied

LONGEST_REASON: Final = 2000
DEFAULT_DELAY_MS: Final = 1000
_ACTIONS: Final = ("continue", "skip", "block", "retry")
_KEYS: Final = frozenset(("action", "modified", "reason", "delay_ms"))
_DEEPEST: Final = 200
_PLAIN: Final = frozenset((str, int, bool, type(None)))


class AnswerFault(ValueError):
    """What is wrong with an answer, in words."""


class Answer(msgspec.Struct, frozen=True):
    """``modified`` is a copy, so that the handler may go on changing its own."""

    action: Literal["continue", "skip", "block", "retry", "allow", "deny"] = "continue"
    modified: JsonObject | None = None
    reason: str | None = None
    delay_ms: int = DEFAULT_DELAY_MS

    def denial(self, hook: str) -> Denied | None:
        if self.action not in ("block", "retry", "deny"):
            return None
        reason = self.reason or f"blocked by hook '{hook}'"
        return Denied(reason, True, self.delay_ms) if self.action == "retry" else Denied(reason)


CONTINUE: Final = Answer()


def parsed(returned: object, event: str) -> Answer:
    """``AnswerFault`` for everything that is not in the chapter's table."""
    if returned is None:
        return CONTINUE
    if not isinstance(returned, Mapping):
        raise AnswerFault(f"it returned {type(returned).__name__}, expected None or a mapping")
    given = {"delay_ms" if key == "delayMs" else key: value for key, value in returned.items()}
    if "decision" in given:
        return _decision(given, event)
    for key in given:
        if key not in _KEYS:
            raise AnswerFault(f"it returned the unknown key {key!r:.60}")
    action = given.get("action")
    if not isinstance(action, str) or action not in _ACTIONS:
        raise AnswerFault(f"it returned the action {action!r:.60}, expected one of {', '.join(_ACTIONS)}")
    return Answer(
        action,  # type: ignore[arg-type]  # one of the words just compared with
        _modified(given.get("modified")),
        _reason(given.get("reason")),
        _delay(given.get("delay_ms")),
    )


def _decision(given: Mapping[str, Any], event: str) -> Answer:
    if event != "permission_request":
        raise AnswerFault("it returned a decision, which only permission_request takes")
    decision = given["decision"]
    if decision not in ("allow", "deny") or given.keys() - {"decision", "reason"}:
        raise AnswerFault(f"it returned {dict(given)!r:.100}, expected decision allow or deny, and a reason")
    return Answer(decision, None, _reason(given.get("reason")))


def _modified(value: object) -> JsonObject | None:
    if value is None:
        return None
    if not isinstance(value, Mapping):
        raise AnswerFault(f"'modified' is {type(value).__name__}, expected a mapping")
    return copied_object(value)


def _reason(value: object) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str):
        raise AnswerFault(f"'reason' is {type(value).__name__}, expected text")
    return value[:LONGEST_REASON]


def _delay(value: object) -> int:
    if value is None:
        return DEFAULT_DELAY_MS
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise AnswerFault(f"'delay_ms' is {value!r:.60}, expected milliseconds")
    return value


def new_args(modified: JsonObject, *, own_args: bool) -> JsonObject:
    """The arguments that a rewrite of ``pre_tool_use`` stands for. ``own_args``: the tool has a parameter ``args``."""
    inner: Json = modified
    while isinstance(inner, dict) and "hookSpecificOutput" in inner:
        inner = inner["hookSpecificOutput"]
    if isinstance(inner, dict):
        for key in ("updatedInput", "updated_input", *(() if own_args else ("args",))):
            if key in inner:
                inner = inner[key]
                break
    if not isinstance(inner, dict):
        raise AnswerFault("'modified' holds no object of arguments")
    return inner


def new_prompt(modified: JsonObject) -> tuple[str | None, str]:
    """The prompt that replaces the one given, and the context to be added."""
    prompt = modified.get("prompt")
    context = modified.get("additional_context", modified.get("additionalContext"))
    if prompt is None and context is None:
        raise AnswerFault("'modified' holds neither prompt nor additional_context")
    if prompt is not None and (not isinstance(prompt, str) or not prompt.strip()):
        raise AnswerFault("'modified.prompt' is no text, or blank")
    if context is not None and not isinstance(context, str):
        raise AnswerFault("'modified.additional_context' is no text")
    return prompt, context or ""


def copied_object(value: Mapping[Any, Any]) -> JsonObject:
    """A deep copy of a JSON object; ``AnswerFault`` when it is none."""
    copy = _copied(value, 0)
    assert isinstance(copy, dict)
    return copy


def _copied(value: Any, depth: int) -> Json:
    kind = type(value)
    if kind in _PLAIN:
        return value  # type: ignore[no-any-return]  # one of the types just compared with
    if depth > _DEEPEST:
        raise AnswerFault(f"it is nested more than {_DEEPEST} deep")
    if isinstance(value, Mapping):
        copy: JsonObject = {}
        for key, member in value.items():
            if not isinstance(key, str):
                raise AnswerFault("an object has a key that is no text")
            copy[str(key)] = member if type(member) in _PLAIN else _copied(member, depth + 1)
        return copy
    if isinstance(value, (list, tuple)):
        return [_copied(member, depth + 1) for member in value]
    if isinstance(value, float):
        if value != value or value in (float("inf"), float("-inf")):
            raise AnswerFault("a number is not finite")
        return float(value)
    if isinstance(value, (str, int)):
        return str(value) if isinstance(value, str) else int(value)
    raise AnswerFault(f"{kind.__name__} is no JSON value")
