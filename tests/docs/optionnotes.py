"""What the options of this version are for. In: nothing. Out: group → option → its meaning.

One rule: an option stands here if and only if this version honours it; a test compares with ``SessionOptions``.
Known weakness: none known.
"""

from __future__ import annotations

from typing import Final

OPTIONS: Final[dict[str, dict[str, str]]] = {
    "Identity": {
        "session_id": "the session's name, and its log's; made when not given. The same id goes on with its log",
        "tenant_id": "a label: kept, put on every event, never interpreted",
        "principal": "a label",
        "agent_template_id": "a label",
        "correlation_id": "a label",
    },
    "Model": {
        "model": "`provider/model-id`; the agent's `default_model` when not given",
        "llm_client": "your own client, or a `ScriptedModel`; see [providers](providers.md)",
        "llm_api_timeout_ms": "longest wait for the first byte, and for each silence after it",
        "circuit_breaker_threshold": "attempts for one model call",
        "max_context_tokens": "the model's window, when the configuration doesn't say it",
        "max_output_tokens": "longest answer; the model's declared limit when not given",
        "temperature": "0 to 2; the provider's default when not given",
    },
    "Prompt": {
        "role": "who the agent is",
        "guidelines": "rules it has to keep",
        "response_style": "how it answers",
        "output_language": "a language tag such as `de`",
        "extra": "text put at the end of the system prompt",
        "prompt_slots": "the five above as one mapping; an option of its own wins",
        "user_instructions_dir": "where your personal `AGENTS.md` is; `~/.a3s` when not given",
        "project_doc_max_bytes": "how much of all `AGENTS.md` files is read; 32768 when not given, 0 reads none",
        "project_doc_fallback_filenames": "names tried in a directory without an `AGENTS.md`",
    },
    "Limits": {
        "step_limit": "model calls and tool steps of one run; past it `STEP_LIMIT`",
        "tool_budget": "successful tool results since the last prompt; then the run ends with `stop_reason` "
        "`tool_budget`. `None` lifts it",
        "max_tool_rounds": "answers with tool calls since the last prompt; then the model gets no tools",
        "max_parse_retries": "malformed tool calls in a row that are given back to the model",
        "duplicate_tool_call_threshold": "the same call this often among the last 8 is refused",
        "tool_timeout_ms": "longest time for one call, beside the tool's own",
        "max_execution_time_ms": "working time of a run; waiting for an answer doesn't count",
        "continuation_enabled": "ask a model that stopped early to go on",
        "max_continuation_turns": "how often in a row",
        "artifact_store_limits": "how many whole outputs are kept in memory for `get_artifact`; a mapping or "
        "`ArtifactStoreLimits`",
        "retention_limits": "how many runs, events and traces are kept in memory; a mapping or "
        "`SessionRetentionLimits`",
    },
    "Governance": {
        "permission_policy": "which calls run, ask or are refused: a `PermissionPolicy`, a mapping, or a preset's "
        "name; see [writing a policy](writing-a-policy.md). Without one the preset `workspace`",
        "confirmation_policy": "a `ConfirmationPolicy` or a mapping: calls that ask are parked for you; see "
        "[approvals](approvals.md)",
        "credential_policy": 'what a model\'s call that names a credential file does: `"ask"`, `"deny"` or `"off"`',
        "security_provider": "an object with `sanitize(text)`, like `DefaultSecurityProvider()`: what leaves a run "
        "passes it; see [the threat model](threat-model.md)",
        "budget_guard": "an object that is asked before each model and tool call; see [budgets](budgets.md)",
        "hooks": "a list of mappings, each a hook as `register_hook` takes it; see [hooks](hooks.md)",
        "budget_guard_timeout_ms": "how long it may think; no answer is a refusal",
        "sandbox": 'what commands run in: `"native"`, or `"host"` for none; see [the sandbox](sandbox.md)',
        "allow_process_host_sandbox": 'the same as `sandbox="host"`',
        "sandbox_handle": "a sandbox of your own, in place of the native one",
        "sandbox_writable": "workspace-relative paths whose protection in the sandbox is lifted, like `.git`",
    },
    "State": {
        "session_store": "where the session's snapshots and checkpoints go, so that it can go on elsewhere; see "
        "[stores](stores.md)",
        "auto_save": "saves a snapshot after every settled run; needs a store",
        "log_durability": '`"fsync"`, or `"os"`: survives a killed process, not a power cut',
        "unknown_outcome": 'what a resume does with a call that may have had its effect: `"run"`, `"ask"` or '
        '`"report"`',
        "host_env": "a `HostEnvConfig` that fixes ids and times, so that two runs write the same bytes",
    },
    "Tools": {
        "tools": "your own functions or tool objects; see [tools](tools.md)",
        "tool_result_transform_policy": "how long outputs are shortened: a mapping or a `ToolResultTransformPolicy`; "
        "see [tools](tools.md)",
    },
    "Accepted, without effect in this version": {
        "auto_compact_threshold": "belongs to compaction",
        "planning_mode": "accepted; nothing is planned before the first step yet",
        "planning": "the same as a flag; loses to `planning_mode`",
        "auto_recall": "belongs to memory",
        "discover_agent_dirs": "belongs to delegation",
        "auto_parallel": "belongs to delegation",
        "manual_delegation_enabled": "belongs to delegation",
        "builtin_skills": "kept for old programs",
    },
}
