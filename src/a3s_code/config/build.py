"""A tree into a ``CodeConfig``. In: a ``Table`` and what its load has in common. Out: the configuration, checked.

One rule: every key is read here and nowhere else, so this file is the list of what a configuration may say.
Known weakness: ``mcp_servers`` and ``search`` are only checked by the parts that use them.
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from a3s_code.config.model import (
    AutoDelegation,
    CodeConfig,
    Cost,
    Limit,
    Memory,
    ModelConfig,
    ProviderConfig,
    Queue,
    TaskScheduler,
)
from a3s_code.config.reader import MANY, Reading, Section, log
from a3s_code.config.tree import Table

S = TypeVar("S", bound=msgspec.Struct)


def build(table: Table, reading: Reading) -> CodeConfig:
    """Raises ``ConfigError``; logs a warning for each unknown key."""
    top = Section(reading, table)
    config = _said(
        CodeConfig,
        default_model=top.text("default_model"),
        providers={label: _provider(label, section) for label, section in top.labelled("providers")},
        max_parallel_tasks=top.whole("max_parallel_tasks", high=MANY),
        max_tool_rounds=top.whole("max_tool_rounds", high=MANY),
        sessions_dir=top.path_text("sessions_dir"),
        memory_dir=top.path_text("memory_dir"),
        skill_dirs=top.texts("skill_dirs", paths=True),
        agent_dirs=top.texts("agent_dirs", paths=True),
        storage_backend=top.choice("storage_backend", ("file", "memory", "custom")),
        storage_url=top.secret("storage_url"),
        user_instructions_dir=top.path_text("user_instructions_dir"),
        project_doc_max_bytes=top.whole("project_doc_max_bytes", low=0),
        project_doc_fallback_filenames=top.texts("project_doc_fallback_filenames"),
        completion_gate=top.choice("completion_gate", ("report", "require")),
        auto_delegation=_auto_delegation(top.section("auto_delegation", "auto_delegation")),
        task_scheduler=_task_scheduler(top.section("task_scheduler", "task_scheduler")),
        memory=_memory(top.section("memory", "memory")),
        queue=_queue(top.section("queue", "queue")),
        mcp_servers=top.hidden_blocks("mcp_servers"),
        search=top.hidden_block("search"),
    )
    top.finish()
    _check_storage(config, top)
    if config.default_model is not None and (fault := config.model_fault(config.default_model)) is not None:
        raise top.fault("default_model", top.place("default_model"), fault)
    return config


def _said(struct: type[S], **fields: Any) -> S:
    """The struct with its own default for whatever was not said."""
    return struct(**{name: value for name, value in fields.items() if value is not None})


def _check_storage(config: CodeConfig, top: Section) -> None:
    if config.storage_backend == "file" and config.sessions_dir is None:
        raise top.fault("storage_backend", top.place("storage_backend"), 'expected sessions_dir beside "file"')
    if config.storage_url is not None and config.storage_backend != "custom":
        log.warning('storage_url is ignored: it is the connection text of storage_backend "custom" only')


def _provider(label: str, section: Section) -> ProviderConfig:
    if "/" in label:
        raise section.reading.source.error(section.table.at, "expected a provider's name without '/'", section.path)
    provider = _said(
        ProviderConfig,
        name=label,
        api_key=section.secret("api_key"),
        base_url=section.secret("base_url", _address_fault),
        headers=section.secrets("headers"),
        models={model: _model(model, inner) for model, inner in section.labelled("models")},
    )
    section.finish()
    return provider


def _address_fault(text: str) -> str | None:
    if text.lower().startswith(("http://", "https://")) and text.isprintable() and " " not in text:
        return None
    return "expected an address that begins with http:// or https://"


def _model(label: str, section: Section) -> ModelConfig:
    limit, cost = section.section("limit", "limit"), section.section("cost", "cost")
    model = _said(
        ModelConfig,
        id=label,
        name=section.text("name") or label,
        tool_call=section.flag("tool_call"),
        text_tool_calls=section.flag("text_tool_calls"),
        limit=_limit(limit),
        cost=_cost(cost),
    )
    section.finish()
    return model


def _limit(section: Section | None) -> Limit | None:
    if section is None:
        return None
    limit = _said(Limit, context=section.whole("context"), output=section.whole("output"))
    section.finish()
    return limit


def _cost(section: Section | None) -> Cost | None:
    if section is None:
        return None
    cost = _said(
        Cost,
        input=section.number("input"),
        output=section.number("output"),
        cache_read=section.number("cache_read"),
        cache_write=section.number("cache_write"),
    )
    section.finish()
    return cost


def _auto_delegation(section: Section | None) -> AutoDelegation | None:
    if section is None:
        return None
    block = _said(
        AutoDelegation,
        enabled=section.flag("enabled"),
        auto_parallel=section.flag("auto_parallel"),
        allow_manual_delegation=section.flag("allow_manual_delegation"),
        min_confidence=section.number("min_confidence", high=1),
        max_tasks=section.whole("max_tasks", high=MANY),
    )
    section.finish()
    return block


def _task_scheduler(section: Section | None) -> TaskScheduler | None:
    if section is None:
        return None
    block = _said(
        TaskScheduler, max_active=section.whole("max_active"), aging_interval_ms=section.whole("aging_interval_ms")
    )
    section.finish()
    return block


def _memory(section: Section | None) -> Memory | None:
    if section is None:
        return None
    block = _said(
        Memory,
        llm_extraction=section.flag("llm_extraction"),
        llm_extraction_max_items=section.whole("llm_extraction_max_items", low=0, high=20),
        llm_extraction_max_input_chars=section.whole("llm_extraction_max_input_chars", low=500, high=100_000),
    )
    section.finish()
    return block


def _queue(section: Section | None) -> Queue | None:
    if section is None:
        return None
    lanes = ("control", "query", "execute", "generate")
    block = _said(
        Queue,
        **{f"{lane}_concurrency": section.whole(f"{lane}_concurrency", f"{lane}_max_concurrency") for lane in lanes},
        enable_dlq=section.flag("enable_dlq"),
        dlq_max_size=section.whole("dlq_max_size"),
        enable_metrics=section.flag("enable_metrics"),
        enable_alerts=section.flag("enable_alerts"),
        enable_all_features=section.flag("enable_all_features"),
        default_timeout_ms=section.whole("default_timeout_ms"),
        max_pending=section.whole("max_pending"),
        lane_handlers=section.json("lane_handlers"),
    )
    section.finish()
    return block
