"""A run told to a person. In: its events, in order. Out: what to say for good, and what is going on now.

A turn's text is a draft until the turn is settled (its end, its first call at work, a question, the run's end): a
repeated ``turn_start`` of the same number makes the draft void (api.md, *Events*), and void text is never said.

One rule: time is what the events say (``timestamp_ms``); the same events tell the same story.
Known weakness: delegated runs are told by their beginning and end only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, Protocol, TypeAlias

import msgspec

from a3s_code.cli.words import call_words, clean, count, duration, is_number, number_of, one_line, result_words, text_of

Payload: TypeAlias = Mapping[str, Any]
Style: TypeAlias = Literal["call", "ok", "failed", "note", "warning", "question", "error", "summary"]


class Event(Protocol):
    """What is read of an ``AgentEvent``."""

    @property
    def version(self) -> int: ...
    @property
    def type(self) -> str: ...
    @property
    def payload(self) -> Payload: ...
    @property
    def metadata(self) -> Payload: ...


class Line(msgspec.Struct, frozen=True):
    """One finished line. ``detail`` says that it belongs to the line before it."""

    style: Style
    text: str
    detail: bool = False


class Answer(msgspec.Struct, frozen=True):
    """A settled text of the model, Markdown as a rule."""

    text: str


Say: TypeAlias = Line | Answer

_CODES: Final = {
    "LLM_ERROR": "the model provider failed",
    "BUDGET_EXHAUSTED": "the budget is used up",
    "STEP_LIMIT": "the run took as many steps as it may",
    "SESSION_BUSY": "the session is at work elsewhere",
    "SESSION_CLOSED": "the session was closed",
    "CONFIG_ERROR": "the configuration can't be used",
    "SESSION_CONFIGURATION_ERROR": "an option of the session can't be used",
    "DEADLINE_EXCEEDED": "the time allowed is over",
    "DUPLICATE_TOOL_CALL": "the model repeated one call without end",
    "COMPLETION_GATE_FAILED": "the change was not verified",
    "IO_ERROR": "a file or store could not be read or written",
    "HOOK_DENIED": "a hook refused",
    "MCP_ERROR": "an MCP server failed",
    "INTERNAL_ERROR": "something inside broke",
}
_NOT_VERIFIED: Final = ("not_run", "skipped")
_ENDS: Final = {"done": "done", "tool_budget": "stopped at the tool budget", "cancelled": "cancelled"}


class Narrator:
    """``tell(event)`` gives what to say now; ``draft`` and ``doing`` are what a live view shows meanwhile."""

    def __init__(self) -> None:
        self.doing = ""
        self._handlers: dict[str, Callable[[Payload], list[Say]]] = {
            name.removeprefix("_on_"): getattr(self, name) for name in dir(self) if name.startswith("_on_")
        }
        self._reset()

    def _reset(self) -> None:
        self._draft: list[str] = []
        self._calls: dict[str, str] = {}
        self._refused: set[str] = set()
        self._last_call = ""
        self._answered = False
        self._turn: object = None
        self._ended_calls = 0
        self._tokens = 0
        self._began: int | None = None
        self._now = 0

    @property
    def draft(self) -> str:
        """The text of the turn that is not settled yet."""
        return "".join(self._draft)

    @property
    def elapsed_ms(self) -> int:
        return self._now - (self._began if self._began is not None else self._now)

    @property
    def tokens(self) -> int:
        return self._tokens

    def tell(self, event: Event) -> list[Say]:
        if event.type == "agent_start":
            self._reset()
        stamp = number_of(event.metadata.get("timestamp_ms"))
        if stamp:
            self._began = stamp if self._began is None else self._began
            self._now = max(self._now, stamp)
        handler = self._handlers.get(event.type)
        return [] if handler is None else handler(event.payload)

    def _settle(self) -> list[Say]:
        text = self.draft.strip("\n")
        self._draft = []
        if not text.strip():
            return []
        self._answered = True
        self._last_call = ""
        return [Answer(text)]

    def _line(self, style: Style, text: str, *, detail: bool = False) -> list[Say]:
        """The draft first: what is said after it must not stand before it."""
        said = self._settle()
        if not detail:
            self._last_call = ""
        return [*said, Line(style, text, detail)]

    def _on_agent_start(self, payload: Payload) -> list[Say]:
        self.doing = "starting"
        return []

    def _on_turn_start(self, payload: Payload) -> list[Say]:
        turn = payload.get("turn")
        again = turn is not None and turn == self._turn
        if again:
            self._draft = []
            said = self._line("note", "the model's answer broke off and begins again")
        else:
            said = self._settle()
        self._turn, self._answered, self.doing = turn, False, "waiting for the model"
        return said

    def _on_text_delta(self, payload: Payload) -> list[Say]:
        self._draft.append(clean(text_of(payload, "text")))
        self.doing = "answering"
        return []

    def _on_reasoning_delta(self, payload: Payload) -> list[Say]:
        self.doing = "thinking"
        return []

    def _on_tool_start(self, payload: Payload) -> list[Say]:
        self.doing = f"preparing {one_line(text_of(payload, 'tool_name', 'name'), 40)}"
        return []

    def _on_turn_end(self, payload: Payload) -> list[Say]:
        usage = payload.get("usage")
        self._tokens += number_of(usage.get("total_tokens")) if isinstance(usage, Mapping) else 0
        return self._settle()

    def _on_tool_execution_start(self, payload: Payload) -> list[Say]:
        call, words = _id(payload), _words(payload)
        said = self._line("call", words)
        self._calls[call] = words
        self._last_call, self.doing = call, words
        return said

    def _on_tool_output_delta(self, payload: Payload) -> list[Say]:
        lines = clean(text_of(payload, "text")[-2000:]).strip().rsplit("\n", 1)
        if words := self._calls.get(_id(payload)):
            self.doing = one_line(f"{words}: {lines[-1]}") if lines[-1] else words
        return []

    def _on_tool_end(self, payload: Payload) -> list[Say]:
        call, code = _id(payload), number_of(payload.get("exit_code"))
        words = self._calls.pop(call, "")
        self._ended_calls += 1
        self.doing = next(reversed(self._calls.values()), "waiting for the model")
        if call in self._refused:
            return []
        metadata = payload.get("metadata")
        name = text_of(payload, "tool_name", "name")
        result = result_words(name, text_of(payload, "output"), code, metadata, payload.get("took_ms"))
        failed = code != 0 or (isinstance(metadata, Mapping) and isinstance(metadata.get("error"), Mapping))
        follows = bool(words) and self._last_call == call
        self._last_call = ""
        text = result if follows else f"{words or _words(payload)}: {result}"
        return self._line("failed" if failed else "ok", text, detail=True)

    def _on_permission_denied(self, payload: Payload) -> list[Say]:
        if call := _id(payload):
            self._refused.add(call)
        return self._line("failed", f"{_words(payload)}: denied{_because(payload)}")

    def _on_confirmation_required(self, payload: Payload) -> list[Say]:
        self.doing = "waiting for your approval"
        return self._line("question", f"{_words(payload)} needs your approval{_because(payload)}")

    def _on_confirmation_received(self, payload: Payload) -> list[Say]:
        self.doing = "working"
        approved = payload.get("approved") is True
        text = ("approved" if approved else "rejected") + _because(payload)
        return self._line("ok" if approved else "failed", text, detail=True)

    def _on_confirmation_timeout(self, payload: Payload) -> list[Say]:
        action = one_line(text_of(payload, "action_taken").replace("_", " ")) or "rejected"
        return self._line("warning", f"nobody answered in time: {action}", detail=True)

    def _on_user_question(self, payload: Payload) -> list[Say]:
        self.doing = "waiting for your answer"
        options = payload.get("options")
        said = self._line("question", one_line(text_of(payload, "question"), 400))
        for i, option in enumerate(options if isinstance(options, list | tuple) else (), 1):
            label = text_of(option, "label") if isinstance(option, Mapping) else str(option)
            said.append(Line("question", f"{i}. {one_line(label)}", detail=True))
        return said

    def _on_context_compacted(self, payload: Payload) -> list[Say]:
        before, after = number_of(payload.get("tokens_before")), number_of(payload.get("tokens_after"))
        return self._line("note", f"the conversation was shortened from {before:,} to {after:,} tokens")

    def _on_run_control_applied(self, payload: Payload) -> list[Say]:
        return self._line("note", f"{one_line(text_of(payload, 'kind')) or 'a request'} was applied")

    def _on_persistence_failed(self, payload: Payload) -> list[Say]:
        what, error = one_line(text_of(payload, "what")) or "something", one_line(text_of(payload, "error"))
        return self._line("warning", f"{what} could not be saved: {error}")

    def _on_budget_threshold_hit(self, payload: Payload) -> list[Say]:
        consumed, limit = payload.get("consumed"), payload.get("limit")
        used = f" ({consumed:,} of {limit:,})" if is_number(consumed) and is_number(limit) else ""
        message = one_line(text_of(payload, "message"))
        kind = "used up" if payload.get("kind") == "hard" else "nearly used up"
        resource = one_line(text_of(payload, "resource"))
        return self._line("warning", f"budget {resource} is {kind}{used}{': ' + message if message else ''}")

    def _on_passivation_requested(self, payload: Payload) -> list[Say]:
        return self._line("warning", f"the host wants to pause this session{_because(payload)}")

    def _on_task_updated(self, payload: Payload) -> list[Say]:
        tasks = payload.get("tasks")
        steps = [t for t in tasks if isinstance(t, Mapping)] if isinstance(tasks, list | tuple) else []
        if not steps:
            return []
        done = sum(step.get("status") == "completed" for step in steps)
        now = next(
            (text_of(step, "step", "content", "title") for step in steps if step.get("status") == "in_progress"), ""
        )
        return self._line("note", f"plan: {done} of {len(steps)} done{', now: ' + one_line(now) if now else ''}")

    def _on_subagent_start(self, payload: Payload) -> list[Say]:
        return self._line("note", one_line(f"{text_of(payload, 'agent')} begins: {text_of(payload, 'description')}"))

    def _on_subagent_end(self, payload: Payload) -> list[Say]:
        ended = payload.get("success") is True
        text = f"{one_line(text_of(payload, 'agent'))} {'is done' if ended else 'failed'}"
        return self._line("note" if ended else "warning", text)

    def _on_queue_alert(self, payload: Payload) -> list[Say]:
        return self._line(
            "warning", f"queue {one_line(text_of(payload, 'lane'))}: {one_line(text_of(payload, 'message'))}"
        )

    def _on_agent_end(self, payload: Payload) -> list[Say]:
        said = self._settle()
        text = clean(text_of(payload, "text")).strip("\n")
        if not self._answered and text.strip():
            said.append(Answer(text))
        usage = payload.get("usage")
        if isinstance(usage, Mapping) and number_of(usage.get("total_tokens")):
            self._tokens = number_of(usage.get("total_tokens"))
        if "tool_calls_count" in payload:
            self._ended_calls = number_of(payload.get("tool_calls_count"))
        if verified := _verification(payload.get("verification_summary")):
            said.append(Line("note", verified))
        reason = text_of(payload, "stop_reason") or "done"
        return [*said, self._summary(_ENDS.get(reason, one_line(reason)))]

    def _on_error(self, payload: Payload) -> list[Say]:
        code, message = text_of(payload, "code"), one_line(text_of(payload, "message"), 400)
        words = ": ".join(word for word in (_CODES.get(code, ""), message) if word) or "unknown"
        return [*self._line("error", f"error: {words}{f' [{code}]' if code else ''}"), self._summary("failed")]

    def _summary(self, how: str) -> Line:
        self.doing = ""
        parts = [count(self._ended_calls, "tool call"), count(self._tokens, "token"), duration(self.elapsed_ms)]
        return Line("summary", f"{how}: {', '.join(parts)}")


def _id(payload: Payload) -> str:
    return text_of(payload, "tool_id", "id")


def _words(payload: Payload) -> str:
    return call_words(text_of(payload, "tool_name", "name") or "a tool", payload.get("args"))


def _because(payload: Payload) -> str:
    reason = one_line(text_of(payload, "reason"), 200)
    return f": {reason}" if reason else ""


def _verification(summary: object) -> str:
    """The verification summary in one line; a mapping says it in ``text`` or by its ``status``. That nothing was
    verified is no news."""
    if isinstance(summary, Mapping):
        summary = text_of(summary, "text", "summary_text", "status")
    told = isinstance(summary, str) and summary.strip() not in ("", *_NOT_VERIFIED)
    return f"verification: {one_line(str(summary), 200)}" if told else ""
