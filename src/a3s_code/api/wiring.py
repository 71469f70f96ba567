"""Where everything is put together. In: an agent's configuration, a workspace, options. Out: a session's engine.

One rule: this is the only module that knows both the engine and what implements its ports.
Known weakness: the file system is looked at once for instructions, in the calling thread.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping

import msgspec

from a3s_code.api.blocking import Home
from a3s_code.api.confine import command_sandbox
from a3s_code.api.options import SessionOptions
from a3s_code.api.policy import Judging
from a3s_code.api.storing import bound, configured_store, store_of
from a3s_code.config.model import CodeConfig, ModelConfig, ProviderConfig
from a3s_code.context.instructions import Instructions, load_instructions
from a3s_code.context.prompt import PromptSlots, build_system_prompt
from a3s_code.core.content import JsonObject
from a3s_code.core.digest import canonical
from a3s_code.core.rules import Rules
from a3s_code.engine.keeping import Keeping
from a3s_code.engine.parts import Governance, Labels, Limits, ModelSettings, Parts
from a3s_code.engine.sanitizer import Sanitizer
from a3s_code.engine.session import EngineSession
from a3s_code.errors import CodeError, ConfigError, SessionConfigurationError
from a3s_code.hooks.hook import hook_from
from a3s_code.hooks.runner import HookRunner
from a3s_code.ports.clock import HostEnvConfig
from a3s_code.ports.model import Model, ToolSpec
from a3s_code.ports.store import SessionStore
from a3s_code.providers.factory import Providers
from a3s_code.stores.blobs import FileBlobs
from a3s_code.stores.factlog import FileFactLog, log_path
from a3s_code.stores.keepalive import Keepalive
from a3s_code.stores.syncer import Syncer
from a3s_code.system.clock import SystemClock, SystemEntropy
from a3s_code.system.hostenv import ConfiguredEnv
from a3s_code.system.process import LocalProcesses
from a3s_code.tools.builtin import BuiltIn
from a3s_code.tools.registry import Registry
from a3s_code.workspace.local import LocalWorkspace

DEFAULT_WINDOW = 200_000
CHARS_PER_TOKEN = 4
SYNCER = Syncer()
"""One for the process: all sessions of all agents that wait at a moment share one sync."""
LEASES = Keepalive(SystemClock())
"""The same for leases: those of one store are renewed in one batch."""


class Shared:
    """What the sessions of one agent have in common."""

    def __init__(self, config: CodeConfig, home: Home, environ: Mapping[str, str]) -> None:
        self.config = config
        self.home = home
        self.clock = SystemClock()
        self.entropy = SystemEntropy()
        self.providers = Providers()
        self.environ = environ
        self.processes = LocalProcesses()
        self.tools = BuiltIn(self.processes, environ)
        self.store = configured_store(config)

    async def aclose(self) -> None:
        await self.providers.aclose()
        if self.store is not None:
            await self.store.close()


class Built(msgspec.Struct, frozen=True):
    """A new session's engine, and what its creation has to say."""

    engine: EngineSession
    hooks: HookRunner
    warnings: tuple[str, ...]


def build(shared: Shared, workspace: str | os.PathLike[str], given: SessionOptions) -> Built:
    """Raises ``SessionConfigurationError`` before any I/O for an option that can't be honoured."""
    options = given.validate()
    name = options.model or shared.config.default_model
    provider, model = _model(shared.config, name, options)
    tools = _tools(shared, options)
    place = LocalWorkspace(os.fspath(workspace))
    env = ConfiguredEnv(options.environment() or HostEnvConfig(), shared.clock, shared.entropy)
    session_id = options.session_id or env.new_id()
    instructions = _instructions(shared.config, place.root, options)
    system = build_system_prompt(PromptSlots(**options.slots()), instructions=instructions.text)
    client = options.llm_client or _client(shared.providers, provider, model)
    specs = tools.specs()
    hooks = _hooks(shared, options)
    judging = Judging(options.permissions(), place)
    log = FileFactLog(place.root, session_id, created_ms=env.now_ms(), syncer=SYNCER, durability=options.log_durability)
    store = store_of(shared.config, shared.store, options)
    parts = Parts(
        session_id=session_id,
        labels=Labels(options.tenant_id, options.principal, options.agent_template_id, options.correlation_id),
        workspace=place,
        log=log,
        blobs=FileBlobs(place.root),
        env=env,
        clock=shared.clock,
        entropy=shared.entropy,
        callbacks=shared.home,
        model=client,
        model_settings=_model_settings(options, model),
        hooks=hooks,
        system=lambda: system,
        toolbox=tools,
        judge=judging.verdict,
        governance=_governance(options, judging),
        context=_Context(system, tools, options, name).digests,
        rules=_rules(shared.config, options, model, _tokens(system, specs)),
        keeping=None if store is None else _keeping(store, log, options, name),
        sandbox=command_sandbox(options, place.root, shared.processes, shared.environ, shared.home, shared.clock),
        limits=_limits(options),
        durable=options.log_durability == "fsync",
        tool_timeout_ms=options.tool_timeout_ms,
        max_execution_time_ms=options.max_execution_time_ms,
    )
    engine = EngineSession(parts)
    if options.budget_guard is not None:
        shared.home.adopt(options.budget_guard)
        engine.guard.set(options.budget_guard, options.budget_guard_timeout_ms)
    return Built(engine, hooks, (*_not_yet(shared.config, options), *instructions.warnings))


def _keeping(store: SessionStore, log: FileFactLog, options: SessionOptions, model: str | None) -> Keeping:
    return Keeping(store, log, LEASES, options.auto_save, model or "", bound(options))


def fork_log(engine: EngineSession, session_id: str, at_seq: int | None) -> None:
    """Begins the log of session ``session_id`` with the facts of ``engine``'s up to ``at_seq``. Blocks."""
    from a3s_code.stores.logfile import copy_log  # few sessions are forked

    parts = engine.parts
    target = log_path(parts.workspace.root, session_id)
    if parts.log.exists() or at_seq is not None:
        copy_log(parts.log.path, target, at_seq, session_id, parts.env.now_ms())


def _model(config: CodeConfig, name: str | None, options: SessionOptions) -> tuple[ProviderConfig, ModelConfig]:
    if options.llm_client is not None and (name is None or config.model_fault(name) is not None):
        return ProviderConfig("custom"), ModelConfig(name or "custom", "custom")
    if name is None:
        raise SessionConfigurationError("session option 'model': none given, and the agent has no default_model")
    try:
        return config.resolve_model(name)
    except ConfigError as error:
        raise SessionConfigurationError(f"session option 'model': {str(error).removeprefix('model: ')}") from None


def _client(providers: Providers, provider: ProviderConfig, model: ModelConfig) -> Model:
    return providers.client(
        provider.name,
        base_url=provider.address(),
        api_key=provider.key,
        headers=provider.header_values(),
        model=model.id,
        text_tool_calls=model.text_tool_calls,
    )


def _model_settings(options: SessionOptions, model: ModelConfig) -> ModelSettings:
    return ModelSettings(
        name=model.id,
        tools=model.tool_call,
        attempts=options.circuit_breaker_threshold,
        timeout_ms=options.llm_api_timeout_ms,
        temperature=options.temperature,
        max_output_tokens=options.max_output_tokens or (model.limit.output if model.limit else None),
    )


def _tools(shared: Shared, options: SessionOptions) -> Registry:
    tools = Registry(shared.tools)
    for given in options.tools:
        shared.home.adopt(given)
        try:
            tools.add(given)
        except CodeError as error:
            raise SessionConfigurationError(f"session option 'tools': {error}") from error
    return tools


def _hooks(shared: Shared, options: SessionOptions) -> HookRunner:
    runner = HookRunner(shared.home, shared.clock)
    for given in options.hooks:
        hook = hook_from(given)
        if hook.handler is not None:
            shared.home.adopt(hook.handler)
        runner.registry.add(hook)
    return runner


def _instructions(config: CodeConfig, root: str, options: SessionOptions) -> Instructions:
    limit = options.project_doc_max_bytes
    return load_instructions(
        root,
        user_dir=options.user_instructions_dir or config.user_instructions_dir,
        max_bytes=config.project_doc_max_bytes if limit is None else limit,
        fallback_names=options.project_doc_fallback_filenames or config.project_doc_fallback_filenames or (),
    )


def _governance(options: SessionOptions, judging: Judging) -> Governance:
    return Governance(
        credentials=options.credential_policy,
        confirmations=options.confirmations(),
        vouched=judging.vouches,
        hides=judging.hides,
        sanitizer=None if options.security_provider is None else Sanitizer(options.security_provider),
        transform=options.transform(),
        artifacts=options.artifacts(),
    )


def _rules(config: CodeConfig, options: SessionOptions, model: ModelConfig, fixed_tokens: int) -> Rules:
    declared = model.limit.context if model.limit else None
    rounds = options.max_tool_rounds
    if "max_tool_rounds" not in options.given() and config.max_tool_rounds is not None:
        rounds = config.max_tool_rounds
    confirmations = options.confirmations()
    return Rules(
        step_limit=options.step_limit,
        tool_budget=options.tool_budget,
        max_tool_rounds=rounds,
        continuation=options.continuation_enabled,
        max_continuations=options.max_continuation_turns,
        max_parse_retries=options.max_parse_retries,
        duplicate_threshold=options.duplicate_tool_call_threshold,
        auto_compact=options.auto_compact,
        compact_threshold=options.auto_compact_threshold,
        window=options.max_context_tokens or declared or DEFAULT_WINDOW,
        fixed_tokens=fixed_tokens,
        unknown_outcome=options.unknown_outcome,
        can_ask=confirmations is not None and confirmations.enabled,
    )


def _tokens(system: str, specs: tuple[ToolSpec, ...]) -> int:
    schemas = sum(len(spec.description) + len(str(spec.parameters)) for spec in specs)
    return (len(system) + schemas) // CHARS_PER_TOKEN


def _limits(options: SessionOptions) -> Limits:
    kept = options.retention()
    if kept.unbounded:
        return Limits(None, None, None, None)
    return Limits(kept.max_runs_retained, kept.max_events_per_run, kept.max_event_bytes_per_run, kept.max_trace_events)


class _Context:
    """What stands behind a run (facts.md, *Standing context*), digested once, when the first run opens."""

    def __init__(self, system: str, tools: Registry, options: SessionOptions, model: str | None) -> None:
        self._system, self._tools, self._options, self._model = system, tools, options, model
        self._made: dict[str, str] | None = None

    def digests(self) -> dict[str, str]:
        if self._made is None:
            tools: JsonObject = {r.name: r.tool.parameters for r in self._tools.own()}
            policy = self._options.permissions()
            rules: list[list[str] | str] = [sorted(policy.deny), sorted(policy.ask), sorted(policy.allow)]
            self._made = {
                "instructions": _short(self._system),
                "tools": _short(canonical(tools)),
                "policy": _short(repr((rules, policy.default_decision, policy.enabled))),
                "model": self._model or "custom",
            }
        return self._made


def _short(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:10]


def _not_yet(config: CodeConfig, options: SessionOptions) -> list[str]:
    """What the configuration asks for and this version doesn't have; for ``init_warning``."""
    asked = {
        "memory_dir": config.memory_dir is not None or config.memory is not None,
        "skill_dirs": bool(config.skill_dirs),
        "agent_dirs": bool(config.agent_dirs),
        "mcp_servers": bool(config.mcp_servers),
        "queue": config.queue is not None,
        "search": config.search is not None,
        "auto_delegation": config.auto_delegation.enabled is True,
        "completion_gate 'require'": config.completion_gate == "require",
        "planning_mode 'enabled'": options.plans(),
    }
    return [f"{name} has no effect in this version" for name, given in asked.items() if given]
