"""A session's options (api.md, *SessionOptions*). In: attributes or keyword arguments. Out: the same, checked.

One rule: an option that this version can't honour is refused when the session is made, never ignored.
Known weakness: a list or mapping that is changed after the session was made changes nothing, and nobody says so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, dataclass_transform

from a3s_code.api.option_checks import CHECKS, SLOTS, check_field, nearest, snake
from a3s_code.core.content import Json
from a3s_code.core.policy import ConfirmationPolicy, PermissionPolicy, preset
from a3s_code.core.projection import ToolResultTransformPolicy
from a3s_code.core.retention import SessionRetentionLimits
from a3s_code.engine.artifacts import ArtifactStoreLimits
from a3s_code.errors import SessionConfigurationError
from a3s_code.ports.clock import HostEnvConfig
from a3s_code.ports.model import Model
from a3s_code.ports.store import SessionStore

NOT_YET: Final[dict[str, str]] = {
    "auto_compact": "compaction",
    "goal_tracking": "goal tracking",
    "web_allow_private": "the web tools' network policy",
    "completion_gate": "the completion gate",
    "verifier_enabled": "the verifier",
    "completion_waivers": "the completion gate",
    "completion_attestor": "the completion gate",
    "enforce_active_skill_tool_restrictions": "skills",
    "memory_store": "memory",
    "memory_extraction": "memory",
    "agent_dirs": "delegation",
    "worker_agents": "delegation",
    "agent_executor": "delegation",
    "auto_delegation": "delegation",
    "max_parallel_tasks": "delegation",
    "task_priority": "delegation",
    "skill_dirs": "skills",
    "inline_skills": "skills",
    "queue_config": "the lane queue",
    "context_providers": "context providers",
    "tool_presentation_profile": "a tool presentation profile",
    "trajectory_path": "trajectory recording",
    "trajectory_recorder": "trajectory recording",
}
"""Fields whose feature comes later: any value but the default, or one of ``HARMLESS_YET``, is refused."""

HARMLESS_YET: Final[dict[str, tuple[object, ...]]] = {
    "memory_extraction": (False,),
    "task_priority": ("user",),
}
"""Values that ask for nothing this version lacks."""


@dataclass_transform(kw_only_default=True)
class _Fields:
    """Tells type checkers that annotated class attributes are keyword arguments."""


class SessionOptions(_Fields):
    """Everything a session can be given; ``agent.session(workspace, options, **overrides)``.

    Fields are attributes, settable after construction or as keyword arguments; an unknown one is an
    ``AttributeError`` that suggests the nearest name. Values are checked when the session is made. Times are
    milliseconds, sizes bytes. ``None`` means what api.md says about the field's absence.

    Without a ``permission_policy`` the preset ``"workspace"`` is in force: what stays inside the boundary runs, what
    crosses it asks, and an ask that nobody can answer is refused.
    """

    # identity
    session_id: str | None = None
    tenant_id: str | None = None
    principal: str | None = None
    agent_template_id: str | None = None
    correlation_id: str | None = None
    # model
    model: str | None = None
    llm_client: Model | None = None
    llm_api_timeout_ms: int = 120_000
    max_context_tokens: int | None = None
    temperature: float | None = None
    max_output_tokens: int | None = None
    circuit_breaker_threshold: int = 3
    # prompt
    role: str | None = None
    guidelines: str | None = None
    response_style: str | None = None
    output_language: str | None = None
    extra: str | None = None
    prompt_slots: Mapping[str, str | None] | None = None
    user_instructions_dir: str | PathLike[str] | None = None
    project_doc_max_bytes: int | None = None
    project_doc_fallback_filenames: Sequence[str] = ()
    planning_mode: Literal["auto", "enabled", "disabled"] = "auto"
    planning: bool | None = None
    goal_tracking: bool = False
    # limits
    max_tool_rounds: int = 50
    tool_budget: int | None = 8
    step_limit: int = 32
    max_parse_retries: int = 2
    tool_timeout_ms: int | None = None
    duplicate_tool_call_threshold: int = 3
    max_execution_time_ms: int | None = None
    continuation_enabled: bool = True
    max_continuation_turns: int = 3
    auto_compact: bool = False
    auto_compact_threshold: float = 0.80
    retention_limits: SessionRetentionLimits | Mapping[str, Json] | None = None
    artifact_store_limits: ArtifactStoreLimits | Mapping[str, Json] | None = None
    # governance
    permission_policy: PermissionPolicy | Mapping[str, Json] | str | None = None
    confirmation_policy: ConfirmationPolicy | Mapping[str, Json] | None = None
    budget_guard: object | None = None
    budget_guard_timeout_ms: int = 5000
    security_provider: object | None = None
    hooks: Sequence[Mapping[str, Any]] = ()
    sandbox: Literal["native", "host"] = "native"
    allow_process_host_sandbox: bool = False
    sandbox_handle: object | None = None
    sandbox_writable: Sequence[str] | None = None
    credential_policy: Literal["ask", "deny", "off"] = "ask"
    web_allow_private: bool = False
    completion_gate: Literal["report", "require"] = "report"
    verifier_enabled: bool = False
    completion_waivers: Sequence[Mapping[str, str]] | None = None
    completion_attestor: object | None = None
    enforce_active_skill_tool_restrictions: bool = False
    # state
    session_store: SessionStore | None = None
    auto_save: bool = False
    memory_store: object | None = None
    auto_recall: bool = True
    memory_extraction: bool | Mapping[str, Json] | None = None
    log_durability: Literal["fsync", "os"] = "fsync"
    unknown_outcome: Literal["run", "ask", "report"] = "run"
    host_env: HostEnvConfig | Mapping[str, Json] | None = None
    # delegation
    agent_dirs: Sequence[str | PathLike[str]] = ()
    worker_agents: Sequence[object] = ()
    agent_executor: object | None = None
    discover_agent_dirs: bool = True
    auto_delegation: object | None = None
    auto_parallel: bool = True
    max_parallel_tasks: int = 4
    manual_delegation_enabled: bool = True
    task_priority: str = "interactive"
    # extensions
    skill_dirs: Sequence[str | PathLike[str]] = ()
    inline_skills: Sequence[object] = ()
    builtin_skills: object | None = None
    queue_config: object | None = None
    context_providers: Sequence[object] = ()
    tools: Sequence[Callable[..., Any] | object] = ()
    tool_presentation_profile: str | None = None
    tool_result_transform_policy: ToolResultTransformPolicy | Mapping[str, Json] | None = None
    trajectory_path: str | PathLike[str] | None = None
    trajectory_recorder: object | None = None

    fields: ClassVar[tuple[str, ...]] = tuple(CHECKS)

    if not TYPE_CHECKING:  # type checkers read the annotations above, so that they know every name

        def __init__(self, **given: Any) -> None:
            for name, value in given.items():
                setattr(self, name, value)

        def __setattr__(self, name: str, value: object) -> None:
            if name not in CHECKS:
                raise AttributeError(f"SessionOptions has no option '{name}'{nearest(name, CHECKS)}")
            self.__dict__[name] = value

        def __getattr__(self, name: str) -> Any:
            raise AttributeError(
                f"SessionOptions has no option '{name}'{'' if name[:1] == '_' else nearest(name, CHECKS)}"
            )

    @classmethod
    def of(cls, given: SessionOptions | Mapping[str, Any] | None) -> SessionOptions:
        """Options, or a mapping with snake_case or camelCase keys; raises ``SessionConfigurationError`` for others."""
        if given is None:
            return cls()
        if isinstance(given, SessionOptions):
            return given
        if not isinstance(given, Mapping):
            raise SessionConfigurationError(f"session options: expected SessionOptions or a mapping, got {given!r:.60}")
        options = cls()
        for key, value in given.items():
            name = snake(str(key))
            if name not in CHECKS:
                raise SessionConfigurationError(f"session options: unknown key '{key}'{nearest(str(key), CHECKS)}")
            options.__dict__[name] = value
        return options

    def merged(self, overrides: Mapping[str, Any]) -> SessionOptions:
        """A copy in which ``overrides`` win; an unknown one is an ``AttributeError``."""
        merged = SessionOptions(**self.__dict__)
        for name, value in overrides.items():
            setattr(merged, name, value)
        return merged

    def given(self) -> dict[str, Any]:
        """The fields that were set, whatever to."""
        return dict(self.__dict__)

    def validate(self) -> SessionOptions:
        """A checked copy in which mappings and preset names have become typed objects; no I/O.

        Raises ``SessionConfigurationError`` naming the field, what was expected and what was given, and for options
        whose feature is not available in this version. Only fields that were set are looked at.
        """
        checked = SessionOptions()
        for name, value in self.__dict__.items():
            kept = check_field(name, value)
            if name in NOT_YET and kept != getattr(SessionOptions, name) and kept not in HARMLESS_YET.get(name, ()):
                self._refuse(name, value)
            checked.__dict__[name] = kept
        return checked

    def _refuse(self, name: str, value: object) -> None:
        shown = f" = {value!r}" if isinstance(value, (str, bool, int)) else ""
        raise SessionConfigurationError(
            f"session option '{name}'{shown}: {NOT_YET[name]} is not available in this version"
        )

    def plans(self) -> bool:
        """Whether a plan is asked for, of checked options; ``planning`` loses to ``planning_mode``."""
        return self.planning_mode == "enabled" or (self.planning is True and "planning_mode" not in self.__dict__)

    def slots(self) -> dict[str, str | None]:
        """The five prompt slots; a slot's own option wins over ``prompt_slots``. Of checked options."""
        mapping = self.prompt_slots or {}
        return {name: getattr(self, name) or mapping.get(name) for name in SLOTS}

    def permissions(self) -> PermissionPolicy:
        """The policy in force, of checked options; without one the preset ``workspace``."""
        policy = self.permission_policy
        return policy if isinstance(policy, PermissionPolicy) else preset("workspace")

    def confirmations(self) -> ConfirmationPolicy | None:
        """Of checked options; ``None`` when nobody can answer."""
        policy = self.confirmation_policy
        return policy if isinstance(policy, ConfirmationPolicy) else None

    def retention(self) -> SessionRetentionLimits:
        """Of checked options."""
        limits = self.retention_limits
        return limits if isinstance(limits, SessionRetentionLimits) else SessionRetentionLimits()

    def transform(self) -> ToolResultTransformPolicy:
        """Of checked options."""
        policy = self.tool_result_transform_policy
        return policy if isinstance(policy, ToolResultTransformPolicy) else ToolResultTransformPolicy()

    def artifacts(self) -> ArtifactStoreLimits:
        """Of checked options."""
        limits = self.artifact_store_limits
        return limits if isinstance(limits, ArtifactStoreLimits) else ArtifactStoreLimits()

    def environment(self) -> HostEnvConfig | None:
        """Of checked options."""
        return self.host_env if isinstance(self.host_env, HostEnvConfig) else None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SessionOptions) and self.__dict__ == other.__dict__

    __hash__ = None  # type: ignore[assignment]  # options can change

    def __repr__(self) -> str:
        return f"SessionOptions({', '.join(f'{name}={value!r:.60}' for name, value in self.__dict__.items())})"
