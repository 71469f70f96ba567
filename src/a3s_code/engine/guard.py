"""The host's budget guard (api.md, *Budget guard*). In: what is about to be spent. Out: go on, or a reason not to.

One rule: fail closed: a guard that raises, answers rubbish or doesn't answer in time has denied.
Known weakness: a plain guard that hangs keeps its thread until it returns.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from a3s_code.core import project
from a3s_code.core.content import JsonObject, Usage
from a3s_code.core.project import Event
from a3s_code.ports.callbacks import Callbacks, NoAnswer

_log = logging.getLogger("a3s_code")
Emit: TypeAlias = Callable[[Event], None]
OWN_RESOURCE = "budget_guard"


class Guard:
    """Asks the present guard, if there is one. ``set`` counts from the next operation."""

    def __init__(self, session_id: str, callbacks: Callbacks) -> None:
        self._session_id = session_id
        self._callbacks = callbacks
        self._guard: object | None = None
        self._timeout_s = 5.0

    def set(self, guard: object | None, timeout_ms: int) -> None:
        self._guard, self._timeout_s = guard, timeout_ms / 1000

    @property
    def asks(self) -> bool:
        """Whether there is a guard."""
        return self._guard is not None

    async def before_model(self, tokens: int, emit: Emit) -> str | None:
        """``None``, or the message of the refusal: ``Budget exhausted on '<resource>': <reason>``."""
        return await self._check("check_before_llm", tokens, emit)

    async def before_tool(self, name: str, emit: Emit) -> str | None:
        return await self._check("check_before_tool", name, emit)

    async def after_model(self, usage: Usage) -> None:
        """Tells what was spent; a failure is logged and ignored."""
        record = getattr(self._guard, "record_after_llm", None)
        if record is None:
            return
        try:
            await self._callbacks.call_within(self._timeout_s, record, self._session_id, project.usage(usage))
        except Exception as error:  # noqa: BLE001  the host's own code; its bookkeeping must not end the run
            _log.warning("budget guard: record_after_llm failed: %s: %s", type(error).__name__, error)

    async def _check(self, method: str, what: object, emit: Emit) -> str | None:
        check = getattr(self._guard, method, None)
        if check is None:
            return None
        try:
            answer = await self._callbacks.call_within(self._timeout_s, check, self._session_id, what)
        except NoAnswer:
            answer = _failed(f"{method} gave no answer within {round(self._timeout_s * 1000)} ms")
        except Exception as error:  # noqa: BLE001  the host's own code; whatever it raises is a refusal
            answer = _failed(f"{method} raised {type(error).__name__}: {str(error)[:500]}")
        return _settled(method, answer, emit)


def _failed(why: str) -> JsonObject:
    return {"decision": "deny", "resource": OWN_RESOURCE, "reason": why}


def _settled(method: str, answer: Any, emit: Emit) -> str | None:
    if answer is None:
        return None
    if not _well_formed(answer):
        answer = _failed(f"{method} gave no decision of a known shape")
    if answer["decision"] == "allow":
        return None
    hard = answer["decision"] == "deny"
    emit(project.budget_hit(answer, hard=hard))
    return f"Budget exhausted on '{answer['resource']}': {answer['reason']}" if hard else None


def _well_formed(answer: Any) -> bool:
    if not isinstance(answer, Mapping):
        return False
    match answer.get("decision"):
        case "allow":
            return True
        case "soft":
            numbers = (answer.get("consumed"), answer.get("limit"))
            return isinstance(answer.get("resource"), str) and all(
                isinstance(n, (int, float)) and not isinstance(n, bool) for n in numbers
            )
        case "deny":
            return isinstance(answer.get("resource"), str) and isinstance(answer.get("reason"), str)
        case _:
            return False
