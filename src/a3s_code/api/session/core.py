"""What every group of a session's methods needs. In: an engine and a home. Out: the base class, and its properties.

One rule: an ``_async`` method is the implementation; the blocking one runs it on the home loop.
Known weakness: none known.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

from a3s_code.api.blocking import Home
from a3s_code.api.result import AgentResult
from a3s_code.core.content import JsonObject
from a3s_code.core.state import ClosedRun, RunState
from a3s_code.engine.active import ActiveRun
from a3s_code.errors import BudgetExhausted, CodeError, HookDenied, LlmError, SessionClosed, StepLimit, StoreError

if TYPE_CHECKING:
    from a3s_code.api.agent import Agent
    from a3s_code.api.options import SessionOptions
    from a3s_code.api.wiring import Built

_BY_CODE: dict[str, type[CodeError]] = {
    kind.default_code: kind for kind in (LlmError, StepLimit, BudgetExhausted, HookDenied, SessionClosed, StoreError)
}


class SessionCore:
    """``_agent`` keeps the agent alive while a session of it is."""

    def __init__(self, agent: Agent, home: Home, built: Built, options: SessionOptions) -> None:
        self._agent = agent
        self._home = home
        self._engine = built.engine
        self._hooks = built.hooks
        self._warnings = built.warnings
        self._options = options
        built.engine.owner = weakref.ref(self)

    @property
    def session_id(self) -> str:
        """Given, or made when the session was."""
        return self._engine.parts.session_id

    @property
    def workspace(self) -> str:
        """The canonical path."""
        return self._engine.parts.workspace.root

    @property
    def init_warning(self) -> str | None:
        """What the session could not honour, in words; ``None`` when there is nothing to say."""
        return "; ".join(self._warnings) or None

    @property
    def tenant_id(self) -> str | None:
        """A label of the host: kept and passed on, never interpreted."""
        return self._engine.parts.labels.tenant_id

    @property
    def principal(self) -> str | None:
        """The same."""
        return self._engine.parts.labels.principal

    @property
    def agent_template_id(self) -> str | None:
        """The same."""
        return self._engine.parts.labels.agent_template_id

    @property
    def correlation_id(self) -> str | None:
        """The same."""
        return self._engine.parts.labels.correlation_id

    @property
    def has_memory(self) -> bool:
        """Whether the session remembers beyond its own conversation; never in this version."""
        return False

    @property
    def sandbox(self) -> JsonObject:
        """``{"kind", "reason"}``: what commands run in (``native``, ``custom``, ``process_host``, or ``none`` when the
        one that was asked for doesn't work here). The first look tries a command, which takes some milliseconds."""
        confinement = self._engine.parts.sandbox
        if confinement is None:
            return {"kind": "process_host", "reason": "this session has no sandbox"}
        state = confinement.look()
        return {"kind": state.kind, "reason": state.reason}

    def is_closed(self) -> bool:
        """Whether ``close`` has begun."""
        return self._engine.closed

    def __repr__(self) -> str:
        state = "closed" if self.is_closed() else "open"
        return f"Session({self.session_id!r}, {self.workspace!r}, {state})"


def result_of(closed: ClosedRun) -> AgentResult:
    """What a settled run gives its caller; a failed one raises."""
    if closed.error is not None:
        raise _error_of(closed)
    return _result(closed.run, closed.stop_reason)


def _error_of(closed: ClosedRun) -> CodeError:
    failure = closed.error
    assert failure is not None
    kind = _BY_CODE.get(failure.code)
    error = CodeError(failure.message, failure.code) if kind is None else kind(failure.message)
    error.result = _result(closed.run, closed.stop_reason)
    return error


def _result(run: RunState, reason: str = "done") -> AgentResult:
    return AgentResult(
        text=run.text,
        run_id=run.id,
        stop_reason="tool_budget" if reason == "tool_budget" else "cancelled" if reason == "cancelled" else "done",
        steps=run.steps,
        tool_calls_count=run.tool_calls,
        prompt_tokens=run.usage.prompt_tokens,
        completion_tokens=run.usage.completion_tokens,
        total_tokens=run.usage.total_tokens,
        cache_read_tokens=run.usage.cache_read_tokens,
        cache_write_tokens=run.usage.cache_write_tokens,
    )


def outcome_of(run: ActiveRun) -> AgentResult:
    """The result of a run that has ended, or its error with the partial result in ``.result``."""
    if run.error is None and run.outcome is not None:
        return result_of(run.outcome)
    error = run.error or CodeError("The run ended without a result")
    if run.latest is not None:
        error.result = _result(run.latest)
    raise error
