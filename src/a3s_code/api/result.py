"""What a run gives its caller (api.md, *Session*). In: nothing. Out: AgentResult.

One rule: a result is read off the log; nothing in it is known only to the process that made it.
Known weakness: this version verifies nothing, so the verification fields always say ``skipped`` and ``completion``
is ``None``.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from a3s_code.core.content import JsonObject, Usage
from a3s_code.core.project import no_summary, usage


class AgentResult(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of ``send``, ``resume_run`` and a finished stream. Tokens are of this run's own model calls;
    ``delegated_usage`` is its children's. ``stop_reason`` ``cancelled`` comes with what text there was."""

    text: str = ""
    run_id: str = ""
    stop_reason: Literal["done", "tool_budget", "cancelled"] = "done"
    steps: int = 0
    tool_calls_count: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    total_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    delegated_usage: JsonObject = msgspec.field(default_factory=lambda: usage(Usage()))
    verification_status: str = "skipped"
    pending_verification_count: int = 0
    failed_verification_count: int = 0
    verification_report_count: int = 0
    verification_summary: JsonObject = msgspec.field(default_factory=no_summary)
    verification_summary_text: str = "Verification: skipped (0 reports, 0 required, 0 failed, 0 pending)"
    completion: JsonObject | None = None

    @property
    def verification_summary_json(self) -> str:
        """``verification_summary`` as JSON text."""
        return msgspec.json.encode(self.verification_summary).decode()

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        text = self.text if len(self.text) <= 60 else f"{self.text[:57]}..."
        return (
            f"AgentResult({text!r}, stop_reason={self.stop_reason!r}, run_id={self.run_id!r}, steps={self.steps}, "
            f"tool_calls_count={self.tool_calls_count}, total_tokens={self.total_tokens})"
        )
