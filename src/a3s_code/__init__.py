"""A runtime for coding agents whose every step is a fact in an append-only log.

One rule: importing the package loads nothing but this file; each public name is loaded when it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from a3s_code.api.agent import Agent as Agent
    from a3s_code.api.options import SessionOptions as SessionOptions
    from a3s_code.api.policy import PermissionPolicy as PermissionPolicy
    from a3s_code.api.result import AgentResult as AgentResult
    from a3s_code.api.session import Session as Session
    from a3s_code.api.stream import EventStream as EventStream
    from a3s_code.config.model import CodeConfig as CodeConfig
    from a3s_code.core.content import Usage as Usage
    from a3s_code.core.events.catalogue import AGENT_EVENT_TYPES_V1 as AGENT_EVENT_TYPES_V1
    from a3s_code.core.events.catalogue import EventType as EventType
    from a3s_code.core.events.catalogue import agent_event_types_v1 as agent_event_types_v1
    from a3s_code.core.events.envelope import AgentEvent as AgentEvent
    from a3s_code.core.policy import ConfirmationPolicy as ConfirmationPolicy
    from a3s_code.core.projection import ToolResultTransformPolicy as ToolResultTransformPolicy
    from a3s_code.core.retention import SessionRetentionLimits as SessionRetentionLimits
    from a3s_code.core.secrets import DefaultSecurityProvider as DefaultSecurityProvider
    from a3s_code.engine.artifacts import ArtifactStoreLimits as ArtifactStoreLimits
    from a3s_code.errors import BudgetExhausted as BudgetExhausted
    from a3s_code.errors import CodeError as CodeError
    from a3s_code.errors import ConfigError as ConfigError
    from a3s_code.errors import HookDenied as HookDenied
    from a3s_code.errors import LeaseLost as LeaseLost
    from a3s_code.errors import LlmError as LlmError
    from a3s_code.errors import RunIdentityConflict as RunIdentityConflict
    from a3s_code.errors import SessionBusy as SessionBusy
    from a3s_code.errors import SessionClosed as SessionClosed
    from a3s_code.errors import SessionConfigurationError as SessionConfigurationError
    from a3s_code.errors import StepLimit as StepLimit
    from a3s_code.errors import StoreError as StoreError
    from a3s_code.errors import ToolError as ToolError
    from a3s_code.errors import UnknownToolError as UnknownToolError
    from a3s_code.hooks.catalogue import HOOK_EVENT_TYPES as HOOK_EVENT_TYPES
    from a3s_code.hooks.catalogue import HOOK_EVENT_TYPES_EXTENDED as HOOK_EVENT_TYPES_EXTENDED
    from a3s_code.ports.clock import HostEnvConfig as HostEnvConfig
    from a3s_code.ports.model import CallDelta as CallDelta
    from a3s_code.ports.model import ModelDelta as ModelDelta
    from a3s_code.ports.model import ModelRequest as ModelRequest
    from a3s_code.ports.model import ToolSpec as ToolSpec
    from a3s_code.ports.store import SessionStore as SessionStore
    from a3s_code.ports.tool import Attachment as Attachment
    from a3s_code.ports.tool import Escalation as Escalation
    from a3s_code.ports.tool import ToolCapabilities as ToolCapabilities
    from a3s_code.ports.tool import ToolContext as ToolContext
    from a3s_code.ports.tool import ToolFailure as ToolFailure
    from a3s_code.ports.tool import ToolOutput as ToolOutput
    from a3s_code.ports.tool import ToolResult as ToolResult
    from a3s_code.stores.file import FileSessionStore as FileSessionStore
    from a3s_code.stores.memory import MemorySessionStore as MemorySessionStore
    from a3s_code.stores.postgres import PostgresSessionStore as PostgresSessionStore
    from a3s_code.stores.sqlite import SqliteSessionStore as SqliteSessionStore
    from a3s_code.tools.schema import tool as tool

_HOME = {
    "Agent": "api.agent",
    "SessionOptions": "api.options",
    "AgentResult": "api.result",
    "Session": "api.session",
    "EventStream": "api.stream",
    "CodeConfig": "config.model",
    "Usage": "core.content",
    **dict.fromkeys(("AGENT_EVENT_TYPES_V1", "EventType", "agent_event_types_v1"), "core.events.catalogue"),
    "AgentEvent": "core.events.envelope",
    "ConfirmationPolicy": "core.policy",
    "PermissionPolicy": "api.policy",
    "ToolResultTransformPolicy": "core.projection",
    "SessionRetentionLimits": "core.retention",
    "DefaultSecurityProvider": "core.secrets",
    "ArtifactStoreLimits": "engine.artifacts",
    **dict.fromkeys(
        (
            "BudgetExhausted",
            "CodeError",
            "ConfigError",
            "HookDenied",
            "LeaseLost",
            "LlmError",
            "RunIdentityConflict",
            "SessionBusy",
            "SessionClosed",
            "SessionConfigurationError",
            "StepLimit",
            "StoreError",
            "ToolError",
            "UnknownToolError",
        ),
        "errors",
    ),
    **dict.fromkeys(("HOOK_EVENT_TYPES", "HOOK_EVENT_TYPES_EXTENDED"), "hooks.catalogue"),
    "HostEnvConfig": "ports.clock",
    **dict.fromkeys(("CallDelta", "ModelDelta", "ModelRequest", "ToolSpec"), "ports.model"),
    **dict.fromkeys(
        (
            "Attachment",
            "Escalation",
            "ToolCapabilities",
            "ToolContext",
            "ToolFailure",
            "ToolOutput",
            "ToolResult",
        ),
        "ports.tool",
    ),
    "SessionStore": "ports.store",
    "FileSessionStore": "stores.file",
    "MemorySessionStore": "stores.memory",
    "PostgresSessionStore": "stores.postgres",
    "SqliteSessionStore": "stores.sqlite",
    "tool": "tools.schema",
}
__all__ = sorted(_HOME)
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'a3s_code' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"a3s_code.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*globals(), *_HOME]
