"""What a session is made of. In: nothing. Out: one struct that wiring fills and the engine reads.

One rule: the engine knows ports and core values only; who implements them is wiring's business.
Known weakness: none known.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import msgspec

from a3s_code.core.content import JsonObject, Verdict
from a3s_code.core.policy import ConfirmationPolicy
from a3s_code.core.projection import ToolResultTransformPolicy
from a3s_code.core.rules import Rules
from a3s_code.engine.artifacts import ArtifactStoreLimits
from a3s_code.engine.keeping import Keeping
from a3s_code.engine.sanitizer import Sanitizer
from a3s_code.ports.blobs import Blobs
from a3s_code.ports.callbacks import Callbacks
from a3s_code.ports.clock import Clock, Entropy, HostEnv
from a3s_code.ports.hooks import Hooks, NoHooks
from a3s_code.ports.log import FactLog
from a3s_code.ports.model import Model
from a3s_code.ports.sandbox import Confinement
from a3s_code.ports.toolbox import Toolbox
from a3s_code.ports.workspace import Workspace


class Labels(msgspec.Struct, frozen=True):
    """Opaque identity labels; kept and passed on, never interpreted."""

    tenant_id: str | None = None
    principal: str | None = None
    agent_template_id: str | None = None
    correlation_id: str | None = None

    def present(self) -> dict[str, str]:
        if self == _NO_LABELS:  # asked for every call and turn
            return {}
        return {name: value for name, value in msgspec.structs.asdict(self).items() if value is not None}


_NO_LABELS = Labels()


class Limits(msgspec.Struct, frozen=True):
    """Retention (api.md); counts, and bytes for ``event_bytes``. ``None`` keeps everything."""

    runs: int | None = 64
    events: int | None = 2048
    event_bytes: int | None = 8 * 1024 * 1024
    traces: int | None = 8192


class ModelSettings(msgspec.Struct, frozen=True):
    """``tools`` is false for a model that is declared to call none (``tool_call = false``): it is offered none."""

    name: str
    tools: bool = True
    attempts: int = 3
    timeout_ms: int = 120_000
    temperature: float | None = None
    max_output_tokens: int | None = None


def nothing(*of: object) -> bool:
    """A rule that holds for nothing."""
    return False


class Governance(msgspec.Struct, frozen=True):
    """What stands between a call and its effects, beside the policy. ``vouched`` says whether an allow rule names just
    this path, given tool, path and real path; ``hides`` whether a rule on ``read`` keeps a file out of searches, given
    path and real path. ``guarded`` looks at the paths of calls; ``as_recorded`` takes results with their evidence as
    they come: a replay has neither paths nor whole outputs."""

    credentials: Literal["ask", "deny", "off"] = "ask"
    confirmations: ConfirmationPolicy | None = None
    vouched: Callable[[str, str, str], bool] = nothing
    hides: Callable[[str, str], bool] = nothing
    sanitizer: Sanitizer | None = None
    transform: ToolResultTransformPolicy = ToolResultTransformPolicy()
    artifacts: ArtifactStoreLimits = ArtifactStoreLimits()
    guarded: bool = True
    as_recorded: bool = False

    def loggable(self, error: Exception) -> Exception | None:
        """The error for a log line; with a security provider none, as its text was not sanitised."""
        return error if self.sanitizer is None else None


class Parts(msgspec.Struct, frozen=True):
    """``judge`` gives the policy's verdict on a call; ``context`` digests what stands behind a run (facts.md)."""

    session_id: str
    labels: Labels
    workspace: Workspace
    log: FactLog
    blobs: Blobs
    env: HostEnv
    clock: Clock
    entropy: Entropy
    callbacks: Callbacks
    model: Model
    model_settings: ModelSettings
    system: Callable[[], str]
    toolbox: Toolbox
    judge: Callable[[str, JsonObject], Verdict]
    context: Callable[[], dict[str, str]]
    rules: Rules
    keeping: Keeping | None = None
    sandbox: Confinement | None = None
    governance: Governance = Governance()
    hooks: Hooks = NoHooks()
    limits: Limits = Limits()
    durable: bool = True
    tool_timeout_ms: int | None = None
    max_execution_time_ms: int | None = None
    memo: dict[str, Any] = msgspec.field(default_factory=dict)
