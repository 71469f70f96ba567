"""The second input of ``next_step`` (facts.md, *Rules*). In: a session's options. Out: one frozen value.

One rule: rules come from options only; the log holds what happened, never what was configured.
Known weakness: none known.
"""

from __future__ import annotations

from typing import Literal

import msgspec


class Rules(msgspec.Struct, frozen=True):
    """Defaults are the documents'. ``fixed_tokens`` is the estimate of system prompt and tool schemas, ``window`` the
    model's context in tokens, ``can_ask`` whether anybody can answer a confirmation."""

    step_limit: int = 32
    tool_budget: int | None = 8
    max_tool_rounds: int = 50
    continuation: bool = True
    max_continuations: int = 3
    max_parse_retries: int = 2
    duplicate_threshold: int = 3
    question_cap: int = 8
    auto_compact: bool = False
    compact_threshold: float = 0.80
    window: int = 200_000
    fixed_tokens: int = 0
    unknown_outcome: Literal["run", "ask", "report"] = "run"
    can_ask: bool = False
