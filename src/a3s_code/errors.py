"""Errors of the public API. In: a stable code and a message. Out: exceptions that a host can catch by class.

One rule: a message never holds a key, a header or a whole prompt; it says what, where and how to mend it.
Known weakness: messages are English only.
"""

from __future__ import annotations

from typing import Any, Final

CODES: Final = frozenset(
    """CONFIG_ERROR LLM_ERROR TOOL_ERROR SESSION_ERROR SESSION_CONFIGURATION_ERROR SESSION_INITIALIZATION_ERROR
    SESSION_CLOSED SESSION_BUSY RUN_IDENTITY_CONFLICT INVALID_REQUEST SESSION_MISMATCH RUN_MISMATCH NO_ACTIVE_RUN
    STALE_TURN DEADLINE_EXCEEDED QUEUE_FULL CLOSED DUPLICATE_REQUEST HOOK_DENIED HOOK_RETRY
    TASK_ADMISSION_CANCELLED TASK_SCHEDULER_CLOSED BUDGET_EXHAUSTED STEP_LIMIT DUPLICATE_TOOL_CALL
    COMPLETION_GATE_FAILED LEASE_LOST SECURITY_ERROR CONTEXT_ERROR MCP_ERROR QUEUE_ERROR IO_ERROR
    SERIALIZATION_ERROR INTERNAL_ERROR""".split()
)


class CodeError(RuntimeError):
    """Every error of the runtime (api.md, *Errors*). ``code`` is one of ``CODES``.

    ``result`` is the partial ``AgentResult`` (or the ``ToolResult`` of a ``ToolError``), else ``None``.
    """

    default_code = "INTERNAL_ERROR"

    def __init__(self, message: str, code: str | None = None, *, result: Any = None) -> None:
        super().__init__(message)
        self.code = code or self.default_code
        if self.code not in CODES:
            raise ValueError(f"unknown error code {self.code!r}")
        self.result = result

    @property
    def message(self) -> str:
        """What happened, without the code."""
        return str(self)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.code}: {self})"


class ConfigError(CodeError):
    """The configuration can't be used; the message names file, line and column."""

    default_code = "CONFIG_ERROR"


class SessionConfigurationError(CodeError):
    """A session option has a wrong type or range; the message names the field."""

    default_code = "SESSION_CONFIGURATION_ERROR"


class LlmError(CodeError):
    """A model provider failed. ``status`` is the HTTP status or ``None``; ``retryable`` as in providers.md."""

    default_code = "LLM_ERROR"

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        retryable: bool = False,
        retry_after_ms: int | None = None,
        context_too_long: bool = False,
        code: str | None = None,
        result: Any = None,
    ) -> None:
        super().__init__(message, code, result=result)
        self.status = status
        self.retryable = retryable
        self.retry_after_ms = retry_after_ms
        self.context_too_long = context_too_long


class ToolError(CodeError):
    """A host helper's tool call failed; ``result`` is its ``ToolResult`` (tools.md §2.2)."""

    default_code = "TOOL_ERROR"


class UnknownToolError(ToolError):
    """A host called a tool that is not registered."""


class SessionBusy(CodeError):
    """Another operation or process is changing this session's conversation. ``holder`` names who has its lease, and
    ``until_ms`` is that lease's end by the store's clock, when that is what is in the way."""

    default_code = "SESSION_BUSY"

    def __init__(
        self, message: str, code: str | None = None, *, holder: str = "", until_ms: int = 0, result: Any = None
    ) -> None:
        super().__init__(message, code, result=result)
        self.holder = holder
        self.until_ms = until_ms


class SessionClosed(CodeError):
    """The session or agent was closed."""

    default_code = "SESSION_CLOSED"


class RunIdentityConflict(CodeError):
    """A run id was used before with another input."""

    default_code = "RUN_IDENTITY_CONFLICT"


class BudgetExhausted(CodeError):
    """A budget guard refused a model call."""

    default_code = "BUDGET_EXHAUSTED"


class StepLimit(CodeError):
    """A run took as many steps as its limit allows."""

    default_code = "STEP_LIMIT"


class HookDenied(CodeError):
    """A hook refused an operation. ``retry_after_ms`` is set when it may be tried again (``HOOK_RETRY``)."""

    default_code = "HOOK_DENIED"

    def __init__(
        self, message: str, code: str | None = None, *, retry_after_ms: int | None = None, result: Any = None
    ) -> None:
        super().__init__(message, code, result=result)
        self.retry_after_ms = retry_after_ms


class LeaseLost(CodeError):
    """Another holder has a session's lease by now; what this one still had in flight was not written."""

    default_code = "LEASE_LOST"


class StoreError(CodeError):
    """The fact log or a store can't be read or written (``IO_ERROR``, ``SERIALIZATION_ERROR``)."""

    default_code = "IO_ERROR"
