"""The names of public events (api.md, *Events*). In: nothing. Out: ``EventType`` and the ordered catalogue.

One rule: the order and the names of version 1 never change; a new name makes a new catalogue.
Known weakness: ``type`` is an open string, so a typing error in a host's own event is not found here.
"""

from __future__ import annotations

from typing import Final


class EventType:
    """Event names as constants. ``START`` and ``END`` are other names of ``AGENT_START`` and ``AGENT_END``."""

    AGENT_START: Final = "agent_start"
    START: Final = AGENT_START
    AGENT_MODE_CHANGED: Final = "agent_mode_changed"
    TURN_START: Final = "turn_start"
    TEXT_DELTA: Final = "text_delta"
    REASONING_DELTA: Final = "reasoning_delta"
    TOOL_START: Final = "tool_start"
    TOOL_INPUT_DELTA: Final = "tool_input_delta"
    TOOL_REQUEST_BOUND: Final = "tool_request_bound"
    TOOL_EXECUTION_START: Final = "tool_execution_start"
    TOOL_END: Final = "tool_end"
    TOOL_OUTPUT_DELTA: Final = "tool_output_delta"
    TURN_END: Final = "turn_end"
    AGENT_END: Final = "agent_end"
    END: Final = AGENT_END
    ERROR: Final = "error"
    CONFIRMATION_REQUIRED: Final = "confirmation_required"
    CONFIRMATION_RECEIVED: Final = "confirmation_received"
    CONFIRMATION_TIMEOUT: Final = "confirmation_timeout"
    USER_QUESTION: Final = "user_question"
    EXTERNAL_TASK_PENDING: Final = "external_task_pending"
    EXTERNAL_TASK_COMPLETED: Final = "external_task_completed"
    PERMISSION_DENIED: Final = "permission_denied"
    CONTEXT_RESOLVING: Final = "context_resolving"
    CONTEXT_RESOLVED: Final = "context_resolved"
    RUN_CAPABILITY_BOUND: Final = "run_capability_bound"
    MODEL_PRESENTATION_BOUND: Final = "model_presentation_bound"
    MODEL_INPUT_BOUND: Final = "model_input_bound"
    MODEL_USAGE_BOUND: Final = "model_usage_bound"
    COGNITIVE_CONTEXT_BOUND: Final = "cognitive_context_bound"
    COMMAND_DEAD_LETTERED: Final = "command_dead_lettered"
    COMMAND_RETRY: Final = "command_retry"
    QUEUE_ALERT: Final = "queue_alert"
    TASK_UPDATED: Final = "task_updated"
    MEMORY_STORED: Final = "memory_stored"
    MEMORY_RECALLED: Final = "memory_recalled"
    MEMORIES_SEARCHED: Final = "memories_searched"
    MEMORY_CLEARED: Final = "memory_cleared"
    SUBAGENT_START: Final = "subagent_start"
    SUBAGENT_PROGRESS: Final = "subagent_progress"
    SUBAGENT_END: Final = "subagent_end"
    PLANNING_START: Final = "planning_start"
    PLANNING_END: Final = "planning_end"
    STEP_START: Final = "step_start"
    STEP_END: Final = "step_end"
    GOAL_EXTRACTED: Final = "goal_extracted"
    GOAL_PROGRESS: Final = "goal_progress"
    GOAL_ACHIEVED: Final = "goal_achieved"
    CONTEXT_COMPACTED: Final = "context_compacted"
    RUN_CONTROL_APPLIED: Final = "run_control_applied"
    PERSISTENCE_FAILED: Final = "persistence_failed"
    BUDGET_THRESHOLD_HIT: Final = "budget_threshold_hit"
    PASSIVATION_REQUESTED: Final = "passivation_requested"
    PEER_INVOCATION: Final = "peer_invocation"


AGENT_EVENT_TYPES_V1: Final[tuple[str, ...]] = (
    EventType.AGENT_START,
    EventType.AGENT_MODE_CHANGED,
    EventType.TURN_START,
    EventType.TEXT_DELTA,
    EventType.REASONING_DELTA,
    EventType.TOOL_START,
    EventType.TOOL_INPUT_DELTA,
    EventType.TOOL_REQUEST_BOUND,
    EventType.TOOL_EXECUTION_START,
    EventType.TOOL_END,
    EventType.TOOL_OUTPUT_DELTA,
    EventType.TURN_END,
    EventType.AGENT_END,
    EventType.ERROR,
    EventType.CONFIRMATION_REQUIRED,
    EventType.CONFIRMATION_RECEIVED,
    EventType.CONFIRMATION_TIMEOUT,
    EventType.USER_QUESTION,
    EventType.EXTERNAL_TASK_PENDING,
    EventType.EXTERNAL_TASK_COMPLETED,
    EventType.PERMISSION_DENIED,
    EventType.CONTEXT_RESOLVING,
    EventType.CONTEXT_RESOLVED,
    EventType.RUN_CAPABILITY_BOUND,
    EventType.MODEL_PRESENTATION_BOUND,
    EventType.MODEL_INPUT_BOUND,
    EventType.MODEL_USAGE_BOUND,
    EventType.COGNITIVE_CONTEXT_BOUND,
    EventType.COMMAND_DEAD_LETTERED,
    EventType.COMMAND_RETRY,
    EventType.QUEUE_ALERT,
    EventType.TASK_UPDATED,
    EventType.MEMORY_STORED,
    EventType.MEMORY_RECALLED,
    EventType.MEMORIES_SEARCHED,
    EventType.MEMORY_CLEARED,
    EventType.SUBAGENT_START,
    EventType.SUBAGENT_PROGRESS,
    EventType.SUBAGENT_END,
    EventType.PLANNING_START,
    EventType.PLANNING_END,
    EventType.STEP_START,
    EventType.STEP_END,
    EventType.GOAL_EXTRACTED,
    EventType.GOAL_PROGRESS,
    EventType.GOAL_ACHIEVED,
    EventType.CONTEXT_COMPACTED,
    EventType.RUN_CONTROL_APPLIED,
    EventType.PERSISTENCE_FAILED,
    EventType.BUDGET_THRESHOLD_HIT,
    EventType.PASSIVATION_REQUESTED,
    EventType.PEER_INVOCATION,
)

TERMINAL_TYPES: Final = frozenset({EventType.AGENT_END, EventType.ERROR})
"""Each run has exactly one event of these, its last."""

DELTA_FIELDS: Final = {
    EventType.TEXT_DELTA: "text",
    EventType.REASONING_DELTA: "text",
    EventType.TOOL_INPUT_DELTA: "delta",
    EventType.TOOL_OUTPUT_DELTA: "text",
}
"""Events that may be merged with their neighbour, and the payload field that holds their text."""


def agent_event_types_v1() -> list[str]:
    """The ordered catalogue of version 1, as a new list."""
    return list(AGENT_EVENT_TYPES_V1)
