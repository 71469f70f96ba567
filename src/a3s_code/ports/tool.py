"""The tool contract (tools.md §1.1). In: validated arguments and a context. Out: a ToolOutput.

One rule: a tool fails by raising ``ToolFailure`` (or returning an ``error_kind``); whatever else it raises is
reported as ``internal``, without a traceback.
Known weakness: capabilities are declared by the tool; nothing checks that a read-only tool only reads.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal, Protocol

import msgspec

from a3s_code.core.content import Json, JsonObject
from a3s_code.ports.clock import Clock
from a3s_code.ports.sandbox import Confinement
from a3s_code.ports.workspace import Entry, Workspace

Origin = Literal["agent", "nested", "host", "host_nested", "governed_host", "internal"]


class ToolCapabilities(msgspec.Struct, frozen=True):
    """What one call of a tool does (tools.md §1.1). The defaults are the worst case: a tool that is silent."""

    read_only: bool = False
    idempotent: bool = False
    resumable: bool = False
    cancellation_safe: bool = False
    pagination: bool = False
    max_parallelism: int = 1
    output_kind: Literal["text", "json", "image", "diff", "binary_ref"] = "text"

    @property
    def parallel_safe(self) -> bool:
        """Whether calls may run together."""
        return self.read_only and self.idempotent and self.max_parallelism > 1


class Escalation(msgspec.Struct, frozen=True):
    """The tool itself demands confirmation; it can only make a decision stricter."""

    reason: str
    scope: str = ""
    risk: str = ""


class Attachment(msgspec.Struct, frozen=True):
    """Bytes beside a result's text, an image say, and their MIME type."""

    media_type: str
    data: bytes

    def __repr__(self) -> str:
        return f"Attachment({self.media_type!r}, {len(self.data)} bytes)"


class ToolOutput(msgspec.Struct, frozen=True):
    """What a tool gives. ``artifacts`` are texts that ``metadata["file_change"]`` has only the beginning of, by name:
    they are kept for ``get_artifact``, and their URIs put there (tools.md §6.4)."""

    output: str
    exit_code: int = 0
    metadata: JsonObject = msgspec.field(default_factory=dict)
    error_kind: str | None = None
    attachments: tuple[Attachment, ...] = ()
    artifacts: dict[str, str] = msgspec.field(default_factory=dict)


class ToolFailure(Exception):
    """Raised by a tool body: becomes a failed result of this ``kind`` (tools.md §1.2). ``detail`` adds keys to
    ``metadata["error"]``, ``metadata`` to the result's metadata."""

    def __init__(
        self,
        kind: str,
        message: str,
        *,
        exit_code: int = 1,
        detail: JsonObject | None = None,
        metadata: JsonObject | None = None,
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.exit_code = exit_code
        self.detail = detail or {}
        self.metadata = metadata or {}


class ToolContext(msgspec.Struct):
    """What one invocation may use. ``deadline`` is monotonic seconds or ``None``, and ``limit_ms`` the limit that led
    to it, for the message when it passes; ``cancelled`` is set when the call should stop; ``emit`` puts text on the
    event stream (safe from any thread); ``invoke`` makes a nested, always governed call. ``hidden`` says of a file (its
    path, and what a listing says of it) whether a search leaves it out; ``None`` when nothing is left out. It may look
    at the disk: call it in a worker thread. ``approved_scope`` is the ``Escalation.scope`` that whoever approved the
    call was shown; ``None`` when nobody had to be asked."""

    session_id: str
    run_id: str
    invocation_id: str
    origin: Origin
    workspace: Workspace
    deadline: float | None
    cancelled: asyncio.Event
    emit: Callable[[str], None]
    invoke: Callable[[str, Mapping[str, Json]], Awaitable[Any]]
    clock: Clock
    new_id: Callable[[], str]
    sandbox: Confinement | None = None
    approved: bool = False
    approved_scope: str | None = None
    hidden: Callable[[str, Entry], bool] | None = None
    limit_ms: int | None = None


class Tool(Protocol):
    """``execute`` may be a coroutine function, or a plain one, which then runs in a worker thread.
    ``capabilities(args)`` and ``escalation(args, ctx)`` (``Escalation`` or ``None``, or an awaitable of it) are
    optional."""

    name: str
    description: str
    parameters: JsonObject

    def execute(self, args: JsonObject, ctx: ToolContext) -> ToolOutput | str | Awaitable[ToolOutput | str]: ...


class ToolResult(msgspec.Struct, frozen=True):
    """What a caller of a tool sees (tools.md §1.1). ``name`` is the registered name; ``metadata`` is never ``None``."""

    name: str
    output: str
    exit_code: int = 0
    metadata: JsonObject = msgspec.field(default_factory=dict)
    error_kind: str | None = None
    attachments: tuple[Attachment, ...] = ()

    @property
    def metadata_json(self) -> str:
        """``metadata`` as JSON text."""
        return msgspec.json.encode(self.metadata).decode()

    @property
    def is_error(self) -> bool:
        """Whether ``exit_code`` is not 0."""
        return self.exit_code != 0

    def __repr__(self) -> str:
        kind = f", error_kind={self.error_kind!r}" if self.error_kind else ""
        return f"ToolResult({self.name!r}, exit_code={self.exit_code}, {len(self.output)} characters{kind})"
