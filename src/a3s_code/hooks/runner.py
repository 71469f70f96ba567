"""Calling hooks (extensions.md §1.2). In: an event. Out: a decision, or nothing.

One rule: a gating hook that raises, hangs or answers rubbish has denied; an observing one that does is logged.
Known weakness: a coroutine handler that blocks its thread blocks the event loop it runs on.
"""

from __future__ import annotations

import logging
from typing import Any

from msgspec.structs import replace

from a3s_code.core.content import JsonObject
from a3s_code.hooks.answers import Answer, AnswerFault, copied_object, new_args, new_prompt, parsed
from a3s_code.hooks.background import Background
from a3s_code.hooks.catalogue import REWRITING
from a3s_code.hooks.hook import Hook
from a3s_code.hooks.registry import Registry
from a3s_code.ports.callbacks import Callbacks, NoAnswer
from a3s_code.ports.clock import Clock
from a3s_code.ports.hooks import About, Denied, Gated

_log = logging.getLogger("a3s_code")


class Failed(Exception):
    """A hook gave no answer that can be used; the message says why."""


class HookRunner:
    """A session's ``ports.Hooks``. ``registry`` may change at any time, from any thread."""

    def __init__(self, callbacks: Callbacks, clock: Clock) -> None:
        self.registry = Registry()
        self._callbacks = callbacks
        self._clock = clock
        self._background = Background(self._observe)

    @property
    def listening(self) -> dict[str, tuple[Hook, ...]]:
        return self.registry.by_event

    async def gate(self, event: str, about: About, payload: JsonObject, *, own_args: bool = False) -> Gated:
        gated = Gated(payload)
        for hook in self.registry.by_event.get(event, ()):
            try:
                if not hook.matches(about, gated.payload):
                    continue
                answer = await self._ask(hook, about, gated.payload)
                gated = _after(hook, replace(gated, consulted=True), answer, own_args=own_args)
            except Exception as error:  # noqa: BLE001  a host's pattern or handler, whatever it raises: fail closed
                denied = Denied(f"Required hook '{hook.name}' failed: {detail_of(error)}")
                return replace(gated, consulted=True, denied=denied)
            if gated.denied is not None or answer.action == "skip":
                return gated
        return gated

    async def tell(self, event: str, about: About, payload: JsonObject) -> None:
        for hook in self.registry.by_event.get(event, ()):
            try:
                wanted = hook.matches(about, payload)
            except Exception as error:  # noqa: BLE001  a host's pattern, whatever it raises: an observer never stops us
                _log.warning("hook '%s': matching %s failed: %s", hook.name, event, detail_of(error))
                continue
            if not wanted:
                continue
            if hook.config.background and hook.handler is not None:
                self._background.later(hook, _placed(hook, about), copied_object(payload))
            elif await self._observe(hook, about, payload) == "skip":
                return

    async def drained(self, seconds: float) -> None:
        await self._background.drained(seconds)

    def dropped(self) -> None:
        self._background.drop()

    async def _observe(self, hook: Hook, about: About, payload: JsonObject) -> str:
        """Tells one hook; gives the action it answered with."""
        try:
            answer = await self._ask(hook, about, payload)
        except Exception as error:  # noqa: BLE001  a host's handler, whatever it raises: an observer never stops us
            _log.warning("hook '%s' on %s failed: %s", hook.name, hook.event, detail_of(error))
            return "continue"
        if answer.action in ("block", "retry"):
            _log.warning("hook '%s': %s can't be denied; '%s' is ignored", hook.name, hook.event, answer.action)
        if answer.modified is not None:
            _log.warning("hook '%s': %s can't be rewritten; 'modified' is ignored", hook.name, hook.event)
        return answer.action

    async def _ask(self, hook: Hook, about: About, payload: JsonObject) -> Answer:
        """Calls the handler and reads its answer; raises ``Failed``. Leaves a line in the trace."""
        started = self._clock.monotonic()
        outcome = "failed"
        try:
            answer = Answer() if hook.handler is None else await self._call(hook, about, payload)
            outcome = answer.action if hook.handler is not None else "no handler"
        except NoAnswer as error:
            outcome = "timeout"
            raise Failed(str(error)) from None
        finally:
            took = round((self._clock.monotonic() - started) * 1000) if about.timed else 0
            about.trace(_line(hook, about, outcome, took))
        return answer

    async def _call(self, hook: Hook, about: About, payload: JsonObject) -> Answer:
        assert hook.handler is not None
        limit_ms = hook.config.timeout_ms
        if about.patience_ms is not None:
            limit_ms = min(limit_ms, about.patience_ms)
        args = (envelope(hook.event, about, payload),) if hook.takes_event else ()
        returned = await self._callbacks.call_within(limit_ms / 1000, hook.handler, *args)
        return parsed(returned, hook.event)


def _placed(hook: Hook, about: About) -> About:
    """The same, with a line in the trace where the event happened, whenever the hook is called and fills it in."""
    line = _line(hook, about, "waiting", 0)
    about.trace(line)
    return replace(about, trace=line.update)


def _line(hook: Hook, about: About, outcome: str, took_ms: int) -> JsonObject:
    return {
        "type": "hook",
        "run_id": about.run_id or "",
        "name": hook.name,
        "event": hook.event,
        "outcome": outcome,
        "started_ms": about.timestamp_ms,
        "took_ms": took_ms,
        **about.labels,
    }


def envelope(event: str, about: About, payload: JsonObject) -> dict[str, Any]:
    """What a handler receives: its own to change."""
    labels = about.labels
    return {
        "event_type": event,
        "session_id": about.session_id,
        "parent_session_id": about.parent_session_id,
        "run_id": about.run_id,
        "turn_id": about.turn_id,
        "timestamp_ms": about.timestamp_ms,
        "tenant_id": labels.get("tenant_id"),
        "principal": labels.get("principal"),
        "agent_template_id": labels.get("agent_template_id"),
        "correlation_id": labels.get("correlation_id"),
        "payload": copied_object(payload),
    }


def _after(hook: Hook, gated: Gated, answer: Answer, *, own_args: bool) -> Gated:
    """The state of the question once ``hook`` has answered. A yes doesn't end it: a later hook may still say no."""
    denied = answer.denial(hook.name)
    if denied is not None:
        return replace(gated, denied=denied, allowed_by=None)
    if answer.action == "allow":
        return gated if gated.allowed_by else replace(gated, allowed_by=hook.name, reason=answer.reason)
    if answer.modified is None or answer.action != "continue":
        return gated
    if hook.event not in REWRITING:
        _log.warning("hook '%s': %s can't be rewritten; 'modified' is ignored", hook.name, hook.event)
        return gated
    if hook.event == "pre_tool_use":
        return replace(gated, payload={**gated.payload, "args": new_args(answer.modified, own_args=own_args)})
    prompt, context = new_prompt(answer.modified)
    both = "\n\n".join(part for part in (gated.context, context) if part)
    payload = gated.payload if prompt is None else {**gated.payload, "prompt": prompt}
    return replace(gated, payload=payload, context=both)


def detail_of(error: Exception) -> str:
    """What is told of a failure: rubbish and timeouts in our words, exceptions with their type."""
    text = str(error)[:500]
    return text if isinstance(error, (AnswerFault, Failed)) else f"{type(error).__name__}: {text}"
