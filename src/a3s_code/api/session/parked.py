"""Answering what waits. In: call ids and answers. Out: whether the answer counted.

One rule: an answer is reported as accepted once it is durable; a second one, or one for nothing, is ``False``.
Known weakness: the log must be free: a run of another process keeps it until that process ends.
"""

from __future__ import annotations

from copy import deepcopy
from types import UnionType

from a3s_code.api.blocking import blocking, bridged
from a3s_code.api.session.runs import Runs
from a3s_code.core.content import JsonObject
from a3s_code.engine.approvals import pending_confirmations, pending_questions
from a3s_code.errors import CodeError


class Parked(Runs):
    def pending_confirmations(self) -> list[JsonObject]:
        """Calls that ask: ``tool_id``, ``tool_name``, ``args``, ``reason``, ``run_id``, ``since_ms``, and ``scope`` and
        ``risk`` where the tool itself asks. First those parked in the log, then those that can't park and wait a
        limited time: nested calls, and ``governed_tool`` (without a ``run_id``)."""
        parked = pending_confirmations(self._engine.view(), self._engine.parts.rules, self._engine.begun)
        return deepcopy(parked + self._engine.kernel.confirmations.pending())

    def pending_questions(self) -> list[JsonObject]:
        """Questions of the model: ``tool_id``, ``question``, ``options``, ``multi_select``, ``run_id``,
        ``since_ms``."""
        return deepcopy(pending_questions(self._engine.view()))

    @bridged
    async def confirm_tool_use_async(self, tool_id: str, approved: bool, reason: str | None = None) -> bool:
        """Approves or rejects a call that asks; ``False`` when it doesn't wait (any more)."""
        _check("tool_id", tool_id, str)
        _check("approved", approved, bool)
        _check("reason", reason, str | None)
        return await self._engine.confirm(tool_id, approved, reason)

    confirm_tool_use = blocking(confirm_tool_use_async)

    @bridged
    async def answer_question_async(self, tool_id: str, answer: str) -> bool:
        """Answers an ``ask_user`` call; ``False`` when it doesn't wait (any more)."""
        _check("tool_id", tool_id, str)
        _check("answer", answer, str)
        return await self._engine.answer(tool_id, answer)

    answer_question = blocking(answer_question_async)


def _check(name: str, value: object, kind: type | UnionType) -> None:
    """A decision is what it says: text that happens to be true approves nothing."""
    if not isinstance(value, kind):
        wanted = getattr(kind, "__name__", str(kind))
        raise CodeError(f"{name}: expected {wanted}, got {value!r:.60}", "INVALID_REQUEST")
