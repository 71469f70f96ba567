"""Which store a session has, and what binds on resume (durability.md). In: options and a stored session. Out: options.

One rule: what the caller gives wins; what is stored fills what was left unset, and only what a store may decide: never
where commands run, nor anything that is code.
Known weakness: host tools, hooks, guards and providers are code, so whoever resumes a session has to give them again.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from a3s_code.api.options import SessionOptions
from a3s_code.config.model import CodeConfig
from a3s_code.core.content import JsonObject
from a3s_code.core.documents import CheckpointHeader, SessionSnapshot
from a3s_code.errors import SessionConfigurationError
from a3s_code.ports.store import SessionStore

BINDING: Final = (
    *("role", "guidelines", "response_style", "output_language", "extra", "prompt_slots", "planning_mode", "planning"),
    *("max_context_tokens", "temperature", "max_output_tokens", "continuation_enabled", "max_continuation_turns"),
    *("max_tool_rounds", "tool_budget", "step_limit", "max_parse_retries", "duplicate_tool_call_threshold"),
    *("tool_timeout_ms", "max_execution_time_ms", "retention_limits", "artifact_store_limits"),
    *("permission_policy", "confirmation_policy", "credential_policy", "unknown_outcome"),
    "tool_result_transform_policy",
)
"""The options that are stored and bind on resume."""
LABELS: Final = ("tenant_id", "principal", "agent_template_id", "correlation_id")
Stored = SessionSnapshot | CheckpointHeader


def configured_store(config: CodeConfig) -> SessionStore | None:
    """The store that the configuration gives every session."""
    match config.storage:
        case "file":
            from a3s_code.stores.file import FileSessionStore  # most agents have no store

            assert config.sessions_dir is not None, "the configuration was checked"
            return FileSessionStore(config.sessions_dir)
        case "memory":
            from a3s_code.stores.memory import MemorySessionStore  # the same

            return MemorySessionStore()
        case _:
            return None


def store_of(config: CodeConfig, configured: SessionStore | None, options: SessionOptions) -> SessionStore | None:
    """The store of a session with these options; ``opts.session_store`` wins."""
    store = options.session_store or configured
    if store is None and config.storage == "custom":
        raise SessionConfigurationError(
            "session option 'session_store': storage_backend \"custom\" needs the host's own store in it"
        )
    if store is None and options.auto_save:
        raise SessionConfigurationError("session option 'auto_save' = True: needs a session_store to save to")
    return store


def bound(options: SessionOptions) -> JsonObject:
    """What of checked ``options`` is stored."""
    given = options.given()
    kept: dict[str, Any] = {
        name: given[name] for name in BINDING if given.get(name) is not None or name in _NULLS & given.keys()
    }
    plain: JsonObject = msgspec.to_builtins(kept)
    return plain


_NULLS: Final = frozenset({"tool_budget"})
"""Options whose ``None`` asks for something."""


def resumed(options: SessionOptions, stored: Stored) -> SessionOptions:
    """``options`` with what they leave unset taken from ``stored``."""
    known: dict[str, Any] = {name: stored.options[name] for name in BINDING if name in stored.options}
    known |= {name: stored.labels[name] for name in LABELS if name in stored.labels}
    if stored.model:
        known["model"] = stored.model
    given = options.given()
    unset = {
        name: value for name, value in known.items() if given.get(name) is None and name not in _NULLS & given.keys()
    }
    return options.merged(unset)
