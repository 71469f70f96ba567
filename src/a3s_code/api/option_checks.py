"""What a session option may be. In: a field's name and a value. Out: the value in its own type, or what was expected.

One rule: every field of ``SessionOptions`` has a check here (a test holds them together); a check does no I/O.
Known weakness: messages show at most 60 characters of a wrong value.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, Final, TypeAlias, TypeVar, get_args, get_type_hints

import msgspec
from msgspec import Meta

from a3s_code.core.policy import ConfirmationPolicy, PermissionPolicy, PolicyError, compile_policy, preset
from a3s_code.core.projection import ToolResultTransformPolicy
from a3s_code.core.protected import RUNTIME_DIRECTORY
from a3s_code.core.retention import SessionRetentionLimits
from a3s_code.engine.artifacts import ArtifactStoreLimits
from a3s_code.errors import CodeError, SessionConfigurationError
from a3s_code.hooks.hook import hook_from
from a3s_code.ports.clock import HostEnvConfig
from a3s_code.ports.store import SessionStore

S = TypeVar("S", bound=msgspec.Struct)
Check: TypeAlias = Callable[[Any], Any]

SLOT_BYTES: Final = 32 * 1024
SLOTS: Final = ("role", "guidelines", "response_style", "output_language", "extra")
_LANGUAGE: Final = r"(?:[A-Za-z]{2,8}|[xXiI])(?:-[A-Za-z0-9]{1,8})*"

_Natural = Annotated[int, Meta(ge=0)]
_Positive = Annotated[int, Meta(ge=1)]


def check_field(name: str, value: object) -> Any:
    """The value as the field keeps it; raises ``SessionConfigurationError`` naming field, expected and got."""
    try:
        return CHECKS[name](value)
    except UnicodeEncodeError:
        raise SessionConfigurationError(f"session option '{name}': expected text without lone surrogates") from None
    except ValueError as error:
        reason = str(error) or "not a valid value"
        raise SessionConfigurationError(f"session option '{name}': {reason[0].lower()}{reason[1:]}") from None


def nearest(name: str, known: Iterable[str]) -> str:
    """ " (did you mean 'x'?)", or nothing."""
    import difflib  # only a misspelt name needs it

    close = difflib.get_close_matches(snake(name), known, 1)
    return f" (did you mean '{close[0]}'?)" if close else ""


def snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])([A-Z])", lambda upper: f"_{upper[1].lower()}", name)


def struct_from(kind: type[S], value: object) -> S:
    """``value``, an object of ``kind`` or a mapping with snake_case or camelCase keys, checked."""
    if isinstance(value, kind):
        given: dict[str, object] = msgspec.structs.asdict(value)
    elif isinstance(value, Mapping):
        given = {}
        for key, member in value.items():
            name = snake(str(key))
            if name not in kind.__struct_fields__:
                raise ValueError(f"Unknown key '{key}'{nearest(str(key), kind.__struct_fields__)}")
            given[name] = list(member) if isinstance(member, (tuple, set, frozenset)) else member
    else:
        raise ValueError(f"Expected a {kind.__name__} or a mapping, got {_shown(value)}")
    try:
        return msgspec.convert(given, kind)
    except msgspec.ValidationError as error:
        expected, _, rest = str(error).partition(" - at ")
        member = rest.strip("`$.").partition("[")[0]
        if expected.startswith("Invalid enum value"):
            expected = f"Expected {_listed(_words(get_type_hints(kind)[member]))}"
        raise ValueError(f"'{member}': {expected}, got {_shown(given.get(member))}" if member else expected) from None


def of(annotation: Any) -> Check:
    """Strictly of a type: no number out of a string, no ``bool`` for a number."""

    def check(value: object) -> object:
        try:
            return msgspec.convert(value, annotation)
        except msgspec.ValidationError as error:
            expected = str(error).split(", got ")[0].split(" - at ")[0]
            raise ValueError(f"{expected}, got {_shown(value)}") from None

    return check


def one_of(*words: str) -> Check:
    def check(value: object) -> object:
        if not isinstance(value, str) or value not in words:
            raise ValueError(f"Expected {_listed(words)}, got {_shown(value)}")
        return value

    return check


def having(*methods: str) -> Check:
    """An object with at least one of ``methods``."""

    def check(value: object) -> object:
        if value is None or any(callable(getattr(value, method, None)) for method in methods):
            return value
        raise ValueError(f"Expected an object with {_listed(f'{m}()' for m in methods)}, got {type(value).__name__}")

    return check


def struct(kind: type[msgspec.Struct]) -> Check:
    return lambda value: None if value is None else struct_from(kind, value)


def anything(value: object) -> object:
    return value


def text(value: object) -> str | None:
    """A string that has something in it and can be written as UTF-8."""
    if value is None:
        return None
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"Expected a non-blank string, got {_shown(value)}")
    value.encode()
    return value


def slot(value: object) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str):
        raise ValueError(f"Expected a string, got {_shown(value)}")
    size = len(value.encode())
    if size > SLOT_BYTES:
        raise ValueError(f"Expected at most {SLOT_BYTES} bytes, got {size}")
    return value if value.strip() else None


def language(value: object) -> str | None:
    tag = slot(value)
    if tag is not None and not re.fullmatch(_LANGUAGE, tag.strip()):
        raise ValueError(f"Expected a BCP-47 language tag like 'de' or 'pt-BR', got {_shown(value)}")
    return tag.strip() if tag else None


def slots(value: object) -> dict[str, str | None] | None:
    if value is None:
        return None
    if not isinstance(value, Mapping):
        raise ValueError(f"Expected a mapping of {_listed(SLOTS)}, got {_shown(value)}")
    checked: dict[str, str | None] = {}
    for key, member in value.items():
        name = snake(str(key))
        if name not in SLOTS:
            raise ValueError(f"Unknown key '{key}'{nearest(str(key), SLOTS)}")
        checked[name] = CHECKS[name](member)
    return checked


def directory(value: object) -> str | None:
    if value is None:
        return None
    path = os.fspath(value) if isinstance(value, os.PathLike) else value
    if not isinstance(path, str) or not path or "\0" in path:
        raise ValueError(f"Expected a path, got {_shown(value)}")
    return path


def permission(value: object) -> PermissionPolicy | None:
    if value is None:
        return None
    try:
        policy = preset(value) if isinstance(value, str) else struct_from(PermissionPolicy, value)
        compile_policy(policy)
    except PolicyError as error:
        raise ValueError(str(error)) from None
    return policy


def threshold(value: object) -> float:
    number: float = of(float)(value)
    if number != number:
        raise ValueError("Expected a number, got nan")
    return min(1.0, max(0.05, number))


def listed(value: object) -> tuple[object, ...]:
    if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Iterable):
        raise ValueError(f"Expected a list, got {_shown(value)}")
    return tuple(value)


def host_env(value: object) -> HostEnvConfig | None:
    """The object itself, as ids are counted in it."""
    if value is None or isinstance(value, HostEnvConfig):
        return value
    if not isinstance(value, Mapping):
        raise ValueError(f"Expected a HostEnvConfig or a mapping, got {_shown(value)}")
    given = {snake(str(key)): member for key, member in value.items()}
    for name in given.keys() - {"sequential_id_prefix", "fixed_time_ms"}:
        raise ValueError(f"Unknown key '{name}'{nearest(name, ('sequential_id_prefix', 'fixed_time_ms'))}")
    return HostEnvConfig(**given)


def host_tools(value: object) -> tuple[object, ...]:
    """Functions, or objects with ``name`` and ``execute``."""
    tools = listed(value)
    for tool in tools:
        if not callable(tool) and not callable(getattr(tool, "execute", None)):
            raise ValueError(f"Expected functions or objects with execute(), got {_shown(tool)}")
    return tools


def hooks(value: object) -> tuple[object, ...]:
    """Mappings with the arguments of ``register_hook``."""
    given = () if value is None else listed(value)
    for hook in given:
        try:
            hook_from(hook)
        except CodeError as error:
            raise ValueError(str(error)) from None
    return given


def sandbox_handle(value: object) -> object:
    """An object with ``name``, ``probe`` and ``command`` (tools.md §3.7)."""
    if value is None:
        return None
    for member in ("probe", "command"):
        if not callable(getattr(value, member, None)):
            raise ValueError(f"Expected an object with name, probe() and command(), got {_shown(value)}")
    if not isinstance(getattr(value, "name", None), str):
        raise ValueError(f"Expected an object with name, probe() and command(), got {_shown(value)}")
    return value


def session_store(value: object) -> object:
    """An object with the methods of ``ports.store.SessionStore``."""
    missing = [] if value is None else [name for name in _STORE if not callable(getattr(value, name, None))]
    if missing:
        raise ValueError(f"Expected a SessionStore, got {_shown(value)}, which has no {missing[0]}()")
    return value


def inside_workspace(value: object) -> tuple[str, ...] | None:
    """Relative paths that stay inside and are not the runtime's own."""
    if value is None:
        return None
    paths: tuple[str, ...] = of(tuple[str, ...])(value)
    for path in paths:
        parts = path.split("/")
        if not path or path.startswith("/") or ".." in parts or "\0" in path:
            raise ValueError(f"Expected workspace-relative paths, got {_shown(path)}")
        if [part for part in parts if part not in ("", ".")][:1] == [RUNTIME_DIRECTORY]:
            raise ValueError(f"Expected paths outside of {RUNTIME_DIRECTORY}, which no command may write")
    return paths


def _shown(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= 60 else f"{shown[:57]}... ({type(value).__name__})"


def _words(annotation: Any) -> tuple[str, ...]:
    """The words of a ``Literal``, or of the ``Literal`` that a tuple holds."""
    first, *_ = args = get_args(annotation)
    return args if isinstance(first, str) else _words(first)


def _listed(words: Iterable[str]) -> str:
    *first, last = (word if word.endswith("()") else repr(word) for word in words)
    return f"{', '.join(first)} or {last}" if first else last


_STORE: Final = tuple(name for name in vars(SessionStore) if not name.startswith("_"))
_flag: Final = of(bool)
_natural: Final = of(_Natural)
_positive: Final = of(_Positive)
_maybe_natural: Final = of(_Natural | None)
_maybe_positive: Final = of(_Positive | None)

CHECKS: Final[dict[str, Check]] = {
    **dict.fromkeys(("session_id", "tenant_id", "principal", "agent_template_id", "correlation_id", "model"), text),
    "llm_client": having("stream"),
    "temperature": of(Annotated[float, Meta(ge=0, le=2)] | None),
    **dict.fromkeys(("max_tool_rounds", "max_parse_retries", "max_continuation_turns"), _natural),
    **dict.fromkeys(("llm_api_timeout_ms", "budget_guard_timeout_ms"), _positive),
    **dict.fromkeys(("circuit_breaker_threshold", "step_limit", "duplicate_tool_call_threshold"), _positive),
    "max_parallel_tasks": _positive,
    **dict.fromkeys(("max_context_tokens", "max_output_tokens"), _maybe_positive),
    **dict.fromkeys(("tool_timeout_ms", "max_execution_time_ms"), _maybe_positive),
    **dict.fromkeys(("tool_budget", "project_doc_max_bytes"), _maybe_natural),
    **dict.fromkeys(("role", "guidelines", "response_style", "extra"), slot),
    "output_language": language,
    "prompt_slots": slots,
    "user_instructions_dir": directory,
    "project_doc_fallback_filenames": of(tuple[str, ...]),
    "planning_mode": one_of("auto", "enabled", "disabled"),
    "planning": of(bool | None),
    **dict.fromkeys(("auto_delegation", "memory_extraction"), anything),
    **dict.fromkeys(("goal_tracking", "continuation_enabled", "auto_compact", "allow_process_host_sandbox"), _flag),
    **dict.fromkeys(("web_allow_private", "verifier_enabled", "enforce_active_skill_tool_restrictions"), _flag),
    **dict.fromkeys(("auto_save", "auto_recall", "discover_agent_dirs", "auto_parallel"), _flag),
    "manual_delegation_enabled": _flag,
    "auto_compact_threshold": threshold,
    "retention_limits": struct(SessionRetentionLimits),
    "artifact_store_limits": struct(ArtifactStoreLimits),
    "permission_policy": permission,
    "confirmation_policy": struct(ConfirmationPolicy),
    "budget_guard": having("check_before_llm", "record_after_llm", "check_before_tool"),
    "security_provider": having("sanitize"),
    "hooks": hooks,
    "completion_waivers": anything,
    "sandbox_handle": sandbox_handle,
    "sandbox_writable": inside_workspace,
    "sandbox": one_of("native", "host"),
    "credential_policy": one_of("ask", "deny", "off"),
    "completion_gate": one_of("report", "require"),
    **dict.fromkeys(("completion_attestor", "memory_store", "agent_executor"), anything),
    "session_store": session_store,
    "log_durability": one_of("fsync", "os"),
    "unknown_outcome": one_of("run", "ask", "report"),
    "host_env": host_env,
    **dict.fromkeys(("agent_dirs", "worker_agents", "skill_dirs", "inline_skills", "context_providers"), listed),
    "task_priority": one_of("urgent", "interactive", "user", "foreground", "background", "maintenance"),
    **dict.fromkeys(("builtin_skills", "queue_config", "tool_presentation_profile"), anything),
    "tool_result_transform_policy": struct(ToolResultTransformPolicy),
    **dict.fromkeys(("trajectory_path", "trajectory_recorder"), anything),
    "tools": host_tools,
}
