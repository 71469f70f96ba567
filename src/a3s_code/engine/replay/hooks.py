"""Hooks as a recorded log has them. In: a tape. Out: a ports.Hooks that decides what was decided.

One rule: what a hook made of a call is the fact that comes next, or nothing.
Known weakness: where a hook allowed what its tool still asked about, the replay leaves the record.
"""

from __future__ import annotations

from a3s_code.core.content import JsonObject
from a3s_code.core.facts import CallJudged, ConfirmationAnswered, ToolResulted
from a3s_code.engine.replay.tape import Tape
from a3s_code.ports.hooks import About, Denied, Gated, NoHooks


class PlayedHooks(NoHooks):
    listening = frozenset({"pre_tool_use", "permission_request"})

    def __init__(self, tape: Tape) -> None:
        self._tape = tape

    async def gate(self, event: str, about: About, payload: JsonObject, *, own_args: bool = False) -> Gated:
        call = payload["tool_call_id"]
        match self._tape.next:
            case ToolResulted() as result if result.call == call:
                return Gated(payload, _denied(result), consulted=True)
            case CallJudged() as judged if judged.call == call and event == "pre_tool_use":
                return Gated({**payload, "args": judged.args}, consulted=True)
            case ConfirmationAnswered(by=str()) as answer if answer.call == call and event == "permission_request":
                return Gated(payload, consulted=True, allowed_by=answer.by, reason=answer.reason)
            case _:
                return Gated(payload)


def _denied(result: ToolResulted) -> Denied | None:
    error = result.metadata.get("error")
    if not isinstance(error, dict) or error.get("type") != "hook_denied":
        return None
    after = error.get("retry_after_ms")
    retry_ms = after if isinstance(after, int) else None
    return Denied(str(error.get("reason")), bool(error.get("retryable")), retry_ms)
