"""What the events of this version are. In: nothing. Out: type → (when it is sent, its payload).

One rule: an event is named here if and only if this version sends it; a test compares with the code that makes them.
Known weakness: that the payload fields are right is checked for the events of the scripted runs only.
"""

from __future__ import annotations

from typing import Final

EVENTS: Final[dict[str, tuple[str, str]]] = {
    "agent_start": ("a run begins", "`prompt`; `resumes` when it goes on with an earlier run"),
    "turn_start": ("the model is called; the same number again replaces an attempt that was cut", "`turn`"),
    "text_delta": ("the model says something", "`text`"),
    "reasoning_delta": ("the model thinks aloud", "`text`"),
    "tool_start": ("the model begins a call", "`id`, `name`"),
    "tool_input_delta": ("arguments of a call arrive", "`id`, `name`, `delta`"),
    "turn_end": ("the model's answer is whole and in the log", "`turn`, `usage`"),
    "tool_execution_start": ("a call runs", "`id`, `name`, `args`"),
    "tool_output_delta": ("a running tool prints", "`id`, `name`, `text`"),
    "tool_end": ("a call has its result", "`id`, `name`, `output`, `exit_code`, `metadata`, `took_ms`"),
    "permission_denied": ("a call was refused; its `tool_end` follows", "`id`, `name`, `args`, `reason`"),
    "confirmation_required": (
        "a call waits for your answer; see [approvals](approvals.md)",
        "`tool_id`, `tool_name`, `args`, `reason`; `scope`, `risk` and `permission` where there are any",
    ),
    "confirmation_received": ("you answered", "`tool_id`, `approved`, `reason`"),
    "confirmation_timeout": (
        "nobody answered a call that can't wait in the log",
        "`tool_id`, `action_taken`: `reject` or `auto_approve`",
    ),
    "user_question": (
        "the model asks you something with `ask_user`; answer with `answer_question`",
        "`tool_id`, `question`, `options`",
    ),
    "run_control_applied": ("a steer has become a message", "`request_id`, `kind`, `run_id`, `turn_id`"),
    "passivation_requested": (
        "you published it: the session is to be put away until `deadline_ms` (Unix time)",
        "`reason`, `deadline_ms`",
    ),
    "peer_invocation": (
        "you published it: another session asks this one",
        "`from_session_id`, `from_tenant_id`, `correlation_id`",
    ),
    "persistence_failed": (
        "the session store didn't take the `snapshot`, `checkpoint` or `run record` (`what`); the run goes on",
        "`what`, `error`",
    ),
    "budget_threshold_hit": (
        "your budget guard said `soft` (`kind` `soft`) or `deny` (`hard`)",
        "`resource`, `kind`, `consumed`, `limit`, `message`",
    ),
    "agent_end": (
        "the last event of a run that was completed or cancelled",
        "`text`, `usage`, `tool_calls_count`, `stop_reason`, `verification_summary`, `completion`",
    ),
    "error": ("the last event of a run that failed", "`message`, `code`"),
}
