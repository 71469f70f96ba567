"""When a search must stop. In: the call's context and a limit. Out: a failure raised at the next check.

One rule: work in a thread checks often enough that no search outlives its call by more than a moment.
Known weakness: one expression on one line can't be interrupted; ``regex`` bounds what that may cost.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from a3s_code.ports.tool import ToolContext, ToolFailure


class Guard:
    """``matching_ms`` bounds the time spent in matching, reading not counted."""

    def __init__(self, ctx: ToolContext, matching_ms: int) -> None:
        self._ctx = ctx
        self._now = ctx.clock.monotonic
        self._started = self._now()
        self._matching_ms = matching_ms
        self._spent = 0.0
        self._since: float | None = None
        self.abandoned = False

    def check(self) -> None:
        if self.abandoned or self._ctx.cancelled.is_set():
            raise ToolFailure("cancelled", "Cancelled", exit_code=130)
        deadline = self._ctx.deadline
        if deadline is not None and self._now() >= deadline:
            raise timed_out(round((deadline - self._started) * 1000))
        if self._since is not None and self.matching_left_ms() <= 0:
            raise self.matching_failure()

    @contextmanager
    def matching(self) -> Iterator[None]:
        """Counts the time inside against the limit."""
        self._since = self._now()
        try:
            yield
        finally:
            self._spent += self._now() - self._since
            self._since = None

    def matching_left_ms(self) -> int:
        running = 0.0 if self._since is None else self._now() - self._since
        return self._matching_ms - round((self._spent + running) * 1000)

    def matching_failure(self) -> ToolFailure:
        return timed_out(self._matching_ms, "The pattern tries too many ways to match some line; use a simpler one.")


def timed_out(after_ms: int, hint: str = "") -> ToolFailure:
    return ToolFailure(
        "timeout", f"Timed out after {max(0, after_ms)} ms" + (f"\n{hint}" if hint else ""), exit_code=124
    )
