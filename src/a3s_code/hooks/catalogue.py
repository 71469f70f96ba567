"""The events hooks can be registered for (extensions.md §1.4). In: nothing. Out: their names, and which of them gate.

One rule: all names are accepted, also those of features that come later; these fire when their feature comes.
Known weakness: none known.
"""

from __future__ import annotations

from typing import Final

HOOK_EVENT_TYPES: Final[tuple[str, ...]] = (
    "session_start",
    "session_end",
    "pre_prompt",
    "pre_context_perception",
    "post_context_perception",
    "pre_memory_recall",
    "post_memory_recall",
    "intent_detection",
    "pre_planning",
    "post_planning",
    "pre_reasoning",
    "post_reasoning",
    "generate_start",
    "generate_end",
    "on_rate_limit",
    "pre_tool_use",
    "post_tool_use",
    "on_confirmation",
    "skill_load",
    "skill_unload",
    "post_response",
    "on_success",
    "on_error",
    "pre_run_control",
    "post_run_control",
)
"""The 25 portable names, in the order of the chapter."""

HOOK_EVENT_TYPES_EXTENDED: Final[tuple[str, ...]] = (
    *HOOK_EVENT_TYPES,
    "permission_request",
    "pre_compact",
    "post_compact",
)
"""All 28."""

GATING: Final = frozenset(
    ("pre_prompt", "pre_planning", "pre_tool_use", "pre_run_control", "permission_request", "pre_compact")
)
REWRITING: Final = frozenset(("pre_prompt", "pre_tool_use"))
