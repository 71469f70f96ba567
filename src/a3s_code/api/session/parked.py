"""Answering what waits. In: call ids and answers. Out: whether the answer counted.

One rule: an answer is reported as accepted once it is durable; a second one, or one for nothing, is ``False``.
Known weakness: the log must be free: a run of another process keeps it until that process ends.
"""

from __future__ import annotations

from a3s_code.api.blocking import blocking, bridged
from a3s_code.api.session.runs import Runs
from a3s_code.core.content import JsonObject
from a3s_code.engine.approvals import pending_confirmations, pending_questions


class Parked(Runs):
    def pending_confirmations(self) -> list[JsonObject]:
        """Calls that ask: ``tool_id``, ``tool_name``, ``args``, ``reason``, ``run_id``, ``since_ms``."""
        return pending_confirmations(self._engine.view(), self._engine.parts.rules)

    def pending_questions(self) -> list[JsonObject]:
        """Questions of the model: ``tool_id``, ``question``, ``options``, ``multi_select``, ``run_id``,
        ``since_ms``."""
        return pending_questions(self._engine.view())

    @bridged
    async def confirm_tool_use_async(self, tool_id: str, approved: bool, reason: str | None = None) -> bool:
        """Approves or rejects a call that asks; ``False`` when it doesn't wait (any more)."""
        return await self._engine.confirm(tool_id, approved, reason)

    confirm_tool_use = blocking(confirm_tool_use_async)

    @bridged
    async def answer_question_async(self, tool_id: str, answer: str) -> bool:
        """Answers an ``ask_user`` call; ``False`` when it doesn't wait (any more)."""
        return await self._engine.answer(tool_id, answer)

    answer_question = blocking(answer_question_async)
