"""Where a run fires its hooks (extensions.md §1.4), and what it says. In: what happens. Out: hooks told or asked.

One rule: one function an event, called in one line where it happens; without a hook it returns at once.
Known weakness: contexts, plans, memory, skills and compaction have their events when they come.
"""

from __future__ import annotations

from typing import Final

from a3s_code.core import project
from a3s_code.core.content import Call, JsonObject
from a3s_code.core.decide.approvals import asks_person
from a3s_code.core.facts import ModelTurn
from a3s_code.core.steps import Settle
from a3s_code.engine.active import ActiveRun
from a3s_code.engine.firing import Firing
from a3s_code.engine.invoke.hooked import confirmation
from a3s_code.engine.token import CancelToken
from a3s_code.errors import HookDenied, LlmError
from a3s_code.ports.hooks import Denied
from a3s_code.ports.model import ModelRequest

CONTEXT_BYTES: Final = 16 * 1024
_OVERLOADED: Final = frozenset({429, 503, 529})


async def _tell(run: ActiveRun, event: str, payload: JsonObject) -> None:
    await run.firing.tell(event, payload, run.token, run.id)


async def prompt(firing: Firing, token: CancelToken, text: str, attachments: int, history_len: int, run_id: str) -> str:
    """``pre_prompt``: the prompt as the hooks leave it; ``HookDenied`` when one refuses it."""
    if not firing.wants("pre_prompt"):
        return text
    payload: JsonObject = {"prompt": text, "attachment_count": attachments, "history_len": history_len}
    gated = await firing.gate("pre_prompt", payload, token, run_id)
    if gated.denied is not None:
        raise denial(gated.denied)
    rewritten = gated.payload["prompt"]
    assert isinstance(rewritten, str)
    return f"{rewritten}\n\n{_block(gated.context)}" if gated.context.strip() else rewritten


def _block(context: str) -> str:
    """One labelled block of at most ``CONTEXT_BYTES``, its label included."""
    first, last = "<additional_context>\n", "\n</additional_context>"
    room = CONTEXT_BYTES - len(first) - len(last)
    return first + context.encode("utf-8", "replace")[:room].decode("utf-8", "ignore") + last


def denial(denied: Denied) -> HookDenied:
    """How a denial reaches a host that asked for the operation."""
    code = "HOOK_RETRY" if denied.retryable else "HOOK_DENIED"
    return HookDenied(f"Denied by hook: {denied.reason}", code, retry_after_ms=denied.retry_after_ms)


async def reasoning(run: ActiveRun, turn: int) -> None:
    if run.firing.wants("pre_reasoning"):
        await _tell(run, "pre_reasoning", {"turn": turn})


async def reasoned(run: ActiveRun, turn: int, answer: ModelTurn) -> None:
    if run.firing.wants("post_reasoning"):
        said: JsonObject = {"turn": turn, "tool_call_count": len(answer.calls), "has_text": bool(answer.text.strip())}
        await _tell(run, "post_reasoning", said)


class Generation:
    """``generate_start`` and ``generate_end`` of the attempts of one request of the main loop."""

    def __init__(self, run: ActiveRun, request: ModelRequest) -> None:
        self._run = run
        self._request = request
        self._since = 0.0
        self._open = False
        self.attempt = 0

    async def begins(self, tokens: int) -> None:
        self.attempt += 1
        run, request = self._run, self._request
        self._since, self._open = run.parts.clock.monotonic(), True
        if run.firing.wants("generate_start"):
            payload: JsonObject = {
                "model": request.model,
                "purpose": "turn",
                "attempt": self.attempt,
                "message_count": len(request.messages),
                "tool_count": len(request.tools),
                "estimated_tokens": tokens,
            }
            await _tell(run, "generate_start", payload)

    async def ends(self, usage: JsonObject | None = None, stop: str | None = None, error: str | None = None) -> None:
        """Told also when the run was interrupted meanwhile."""
        run = self._run
        if not self._open or not run.firing.wants("generate_end"):
            return
        self._open = False
        duration = 0 if run.parts.env.fixed else round((run.parts.clock.monotonic() - self._since) * 1000)
        payload: JsonObject = {
            "model": self._request.model,
            "purpose": "turn",
            "usage": usage,
            "stop_reason": stop,
            "duration_ms": duration,
            "error": error,
        }
        await run.firing.tell_anyway("generate_end", payload, run.token, run.id)


async def rate_limit(run: ActiveRun, attempt: int, error: LlmError) -> None:
    if error.status in _OVERLOADED and run.firing.wants("on_rate_limit"):
        model = run.parts.model_settings.name
        payload: JsonObject = {"model": model, "attempt": attempt, "retry_after_ms": error.retry_after_ms}
        await _tell(run, "on_rate_limit", payload)


async def confirmations_required(run: ActiveRun, calls: list[Call]) -> None:
    """Told once the calls are published, so that a handler may answer."""
    for call in calls:
        if run.firing.wants("on_confirmation") and not asks_person(call):
            args = run.firing.filled_in(call.name, call.args)
            await _tell(run, "on_confirmation", confirmation(call.id, call.name, args, "required", None, None))


async def response(run: ActiveRun, step: Settle) -> None:
    """``post_response``, before a run is closed that has its answer."""
    if step.status != "completed" or not run.firing.wants("post_response") or run.view.run is None:
        return
    now = run.view.run
    payload: JsonObject = {
        "text": now.text,
        "usage": project.usage(now.usage),
        "tool_calls_count": now.tool_calls,
        "completion": None,
    }
    await _tell(run, "post_response", payload)


async def run_ended(run: ActiveRun) -> None:
    """``on_success`` or ``on_error``, once a run has settled; neither for one that was cancelled or stays parked."""
    outcome = run.outcome
    if outcome is not None and outcome.status == "completed":
        if run.firing.wants("on_success"):
            duration = run.parts.env.now_ms() - run.record.created_ms
            usage = project.usage(outcome.run.usage)
            payload: JsonObject = {"duration_ms": duration, "usage": usage, "completion": None}
            await run.firing.tell_anyway("on_success", payload, run.token, run.id)
        return
    failure = outcome.error if outcome is not None else None
    code, message = (failure.code, failure.message) if failure is not None else ("", "")
    if outcome is None and run.error is not None:
        code, message = run.error.code, str(run.error)
    if code and run.firing.wants("on_error"):
        await run.firing.tell_anyway("on_error", {"code": code, "message": message}, run.token, run.id)
