"""When the window is too full. In: a view and the rules. Out: Compact, or nothing.

One rule: a compaction is asked for only right before a model call, at most once a request and three times a run.
Known weakness: four characters are taken for a token until the provider reports its own count.
"""

from __future__ import annotations

from a3s_code.core.rules import Rules
from a3s_code.core.state import View
from a3s_code.core.steps import Compact, Step

MAX_COMPACTIONS_PER_RUN = 3
CHARS_PER_TOKEN = 4


def rule(view: View, rules: Rules) -> Step | None:
    if not rules.auto_compact or view.run is None or view.ends_with not in ("user", "results"):
        return None
    if view.run.compactions >= MAX_COMPACTIONS_PER_RUN or view.compacted:
        return None
    tokens = estimated_tokens(view, rules)
    return Compact(tokens) if tokens >= rules.window * rules.compact_threshold else None


def estimated_tokens(view: View, rules: Rules) -> int:
    """What the next request takes, never less than the provider said of the same transcript."""
    estimate = rules.fixed_tokens + -(-view.carried // CHARS_PER_TOKEN)
    return max(estimate, view.reported_tokens)
