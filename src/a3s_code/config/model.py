"""The configuration, typed (providers.md, *The ACL file*). In: nothing. Out: frozen structs.

One rule: whatever may be a key or come late from the environment is a ``Secret``; opening it is the only thing that
can fail after loading.
Known weakness: ``None`` means "not said", so a default that belongs to a session option is not repeated here.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import msgspec

from a3s_code.config.secret import Secret
from a3s_code.core.content import JsonObject
from a3s_code.errors import ConfigError

OFFLINE = "offline"
SCOUT = "scout"


def _hide(struct: msgspec.Struct, field: str, value: object) -> None:
    """A host may pass a plain string where a ``Secret`` is meant; from here on nothing shows it."""
    if value is not None and not isinstance(value, Secret):
        msgspec.structs.force_setattr(struct, field, Secret(value))


class Limit(msgspec.Struct, frozen=True):
    """Tokens: the whole window, and the longest answer. ``None`` is unknown."""

    context: int | None = None
    output: int | None = None


class Cost(msgspec.Struct, frozen=True):
    """Price of a million tokens, in the host's currency."""

    input: float = 0.0
    output: float = 0.0
    cache_read: float = 0.0
    cache_write: float = 0.0


class ModelConfig(msgspec.Struct, frozen=True):
    """``id`` is the block's label and what the provider is asked for; ``name`` is for people (the id by default).
    ``text_tool_calls``: calls that the model writes as text are taken for calls (cases.md A26)."""

    LABEL: ClassVar[str] = "id"
    id: str = ""
    name: str = ""
    tool_call: bool = True
    limit: Limit = Limit()
    cost: Cost = Cost()
    text_tool_calls: bool = False


class ProviderConfig(msgspec.Struct, frozen=True):
    """``name`` is the block's label, which chooses the client. Plain strings are taken for secrets too.

    ``key()``, ``address()`` and ``header_values()`` open what is hidden; each raises ``ConfigError`` that names the
    environment variable when one is missing.
    """

    LABEL: ClassVar[str] = "name"
    name: str = ""
    api_key: Secret[str] | None = None
    base_url: Secret[str] | None = None
    headers: dict[str, Secret[str]] = {}
    models: dict[str, ModelConfig] = {}

    def __post_init__(self) -> None:
        _hide(self, "api_key", self.api_key)
        _hide(self, "base_url", self.base_url)
        headers: dict[str, Any] = {k: v if isinstance(v, Secret) else Secret(v) for k, v in self.headers.items()}
        msgspec.structs.force_setattr(self, "headers", headers)

    def key(self) -> str | None:
        return None if self.api_key is None else self.api_key.reveal()

    def address(self) -> str | None:
        """The base URL as it was written, with its path and without any change."""
        return None if self.base_url is None else self.base_url.reveal()

    def header_values(self) -> dict[str, str]:
        return {name: value.reveal() for name, value in self.headers.items()}


class AutoDelegation(msgspec.Struct, frozen=True):
    enabled: bool = False
    auto_parallel: bool = True
    allow_manual_delegation: bool = True
    min_confidence: float = 0.72
    max_tasks: int = 4


class TaskScheduler(msgspec.Struct, frozen=True):
    """``max_active`` ``None`` is unlimited."""

    max_active: int | None = None
    aging_interval_ms: int = 30_000


class Memory(msgspec.Struct, frozen=True):
    """A ``memory`` block; that it is there turns extraction on (extensions.md §5)."""

    llm_extraction: bool = True
    llm_extraction_max_items: int = 5
    llm_extraction_max_input_chars: int = 8000


class Queue(msgspec.Struct, frozen=True):
    """A ``queue`` block (extensions.md §10); that it is there gives sessions a queue."""

    control_concurrency: int = 2
    query_concurrency: int = 4
    execute_concurrency: int = 2
    generate_concurrency: int = 1
    enable_dlq: bool = False
    dlq_max_size: int = 1000
    enable_metrics: bool = False
    enable_alerts: bool = False
    enable_all_features: bool = False
    default_timeout_ms: int | None = None
    max_pending: int = 1000
    lane_handlers: JsonObject = {}


class CodeConfig(msgspec.Struct, frozen=True):
    """An agent's configuration. Directories are as written, relative ones to the working directory, with ``~`` resolved
    when they came through ``load_config`` or ``config_from_mapping``. ``mcp_servers`` and ``search`` are JSON for the
    parts that use them, hidden since they hold tokens and proxies with passwords."""

    default_model: str | None = None
    providers: dict[str, ProviderConfig] = {}
    max_parallel_tasks: int | None = None
    max_tool_rounds: int | None = None
    sessions_dir: str | None = None
    memory_dir: str | None = None
    skill_dirs: tuple[str, ...] = ()
    agent_dirs: tuple[str, ...] = ()
    storage_backend: Literal["file", "memory", "custom"] | None = None
    storage_url: Secret[str] | None = None
    user_instructions_dir: str | None = None
    project_doc_max_bytes: int | None = None
    project_doc_fallback_filenames: tuple[str, ...] | None = None
    completion_gate: Literal["report", "require"] | None = None
    auto_delegation: AutoDelegation = AutoDelegation()
    task_scheduler: TaskScheduler = TaskScheduler()
    memory: Memory | None = None
    queue: Queue | None = None
    mcp_servers: dict[str, Secret[JsonObject]] = {}
    search: Secret[JsonObject] | None = None

    def __post_init__(self) -> None:
        _hide(self, "storage_url", self.storage_url)
        _hide(self, "search", self.search)
        servers: dict[str, Any] = {k: v if isinstance(v, Secret) else Secret(v) for k, v in self.mcp_servers.items()}
        msgspec.structs.force_setattr(self, "mcp_servers", servers)

    @property
    def storage(self) -> Literal["file", "memory", "custom"] | None:
        """The store in force: ``sessions_dir`` alone means ``file``; ``None`` when nothing was said."""
        return self.storage_backend or ("file" if self.sessions_dir else None)

    def declared_models(self) -> list[str]:
        """Every ``provider/model-id``, in the order of the file."""
        return [f"{name}/{model}" for name, provider in self.providers.items() for model in provider.models]

    def resolve_model(self, name: str) -> tuple[ProviderConfig, ModelConfig]:
        """What ``provider/model-id`` (split at the first slash) stands for. ``offline/scout`` needs no declaration.
        Raises ``ConfigError`` that lists what is declared."""
        if (fault := self.model_fault(name)) is not None:
            raise ConfigError(f"model: {fault}")
        provider, _, model = name.partition("/")
        found = self.providers.get(provider)
        if found is None or model not in found.models:
            return found or ProviderConfig(OFFLINE), ModelConfig(SCOUT, "Offline scout")
        return found, found.models[model]

    def model_fault(self, name: str) -> str | None:
        """What is wrong with ``name`` as the name of a model, or ``None``."""
        provider, slash, model = name.partition("/")
        if not slash or not provider or not model:
            return f'expected "provider/model-id", found {name!r}; {_listed("models", self.declared_models())}'
        if name == f"{OFFLINE}/{SCOUT}":
            return None
        if provider not in self.providers:
            return f"provider {provider!r} is not declared{_nearest(provider, list(self.providers))}; " + _listed(
                "providers", list(self.providers)
            )
        models = list(self.providers[provider].models)
        if model not in models:
            return f"model {model!r} is not declared by provider {provider!r}{_nearest(model, models)}; " + _listed(
                "models", self.declared_models()
            )
        return None


def _nearest(name: str, known: list[str]) -> str:
    import difflib  # only a misspelt name needs it

    close = difflib.get_close_matches(name, known, 1)
    return f" (did you mean {close[0]!r}?)" if close else ""


def _listed(what: str, names: list[str]) -> str:
    return f"declared {what}: {', '.join(names)}" if names else f"no {what} are declared"
