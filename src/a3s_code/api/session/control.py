"""Run control and the budget guard (api.md). In: directions for a run at work. Out: receipts.

One rule: nothing here changes model, permissions, sandbox, budgets or approvals of the run it steers.
Known weakness: requests from other processes come with the stores' control inbox.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from a3s_code.api.blocking import blocking, bridged
from a3s_code.api.option_checks import check_field
from a3s_code.api.session.tools import Tools
from a3s_code.core.content import JsonObject
from a3s_code.engine.control import options_of, snapshot
from a3s_code.errors import CodeError


class RunControl(Tools):
    @bridged
    async def run_control_snapshot_async(self) -> JsonObject | None:
        """``run_id``, ``turn_id`` (``None`` before the first), ``turn_revision``, ``phase``, ``pending``; ``None`` when
        no run is at work."""
        run = self._engine.active
        return snapshot(run, self._engine.control.pending()) if run is not None else None

    run_control_snapshot = blocking(run_control_snapshot_async)

    @bridged
    async def steer_async(self, text: str, options: Mapping[str, Any] | None = None) -> JsonObject:
        """Gives the run at work a newer direction: a ``user.message`` right before its next provider call.

        ``options``: ``request_id``, ``run_id``, ``expected_turn_id``, ``expected_turn_revision``, ``deadline_ms`` (Unix
        time), ``reason``. The receipt says ``accepted``; later ``applied``, ``settled`` or ``rejected``. Raises with
        ``NO_ACTIVE_RUN``, ``RUN_MISMATCH``, ``STALE_TURN``, ``DEADLINE_EXCEEDED``, ``DUPLICATE_REQUEST``,
        ``QUEUE_FULL`` or ``CLOSED``.
        """
        if not isinstance(text, str) or not text.strip():
            raise CodeError("steer: expected text that is not blank", "INVALID_REQUEST")
        self._check_control_open()
        return (await self._engine.control_run("steer", text, options_of(options))).public()

    steer = blocking(steer_async)

    @bridged
    async def interrupt_async(self, options: Mapping[str, Any] | None = None) -> JsonObject:
        """Cancels the work of the run cooperatively; it then ends as ``cancelled``. Options and errors as ``steer``."""
        self._check_control_open()
        return (await self._engine.control_run("interrupt", "", options_of(options))).public()

    interrupt = blocking(interrupt_async)

    def set_budget_guard(self, guard: object | None, timeout_ms: int = 5000) -> None:
        """Replaces or clears the budget guard; it counts from the next operation. Never waits."""
        if isinstance(timeout_ms, bool) or not isinstance(timeout_ms, int) or timeout_ms < 1:
            raise CodeError(f"timeout_ms: expected 1 or more, got {timeout_ms!r}", "INVALID_REQUEST")
        self._engine.check_open()
        if check_field("budget_guard", guard) is not None:
            self._home.adopt(guard)
        self._engine.guard.set(guard, timeout_ms)

    async def set_budget_guard_async(self, guard: object | None, timeout_ms: int = 5000) -> None:
        """The same."""
        self.set_budget_guard(guard, timeout_ms)

    def _check_control_open(self) -> None:
        if self._engine.closed:
            raise CodeError(f"Session '{self.session_id}' is closed", "CLOSED")
