"""Talking to a session. In: prompts. Out: results and streams.

One rule: a prompt is a fact before anything else happens to it.
Known weakness: none known.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from a3s_code.api.attachments import keep
from a3s_code.api.blocking import blocking, bridged
from a3s_code.api.result import AgentResult
from a3s_code.api.session.core import SessionCore, outcome_of, result_of
from a3s_code.api.stream import EventStream
from a3s_code.core.content import Json, JsonObject
from a3s_code.core.facts.runs import Cause
from a3s_code.core.state import ClosedRun
from a3s_code.engine.active import ActiveRun
from a3s_code.engine.opening import Attach, no_attachments
from a3s_code.engine.resuming import Wanted
from a3s_code.errors import CodeError

History = Sequence[Mapping[str, Json]]
Prompt = str | Mapping[str, Any]


class Conversation(SessionCore):
    """``prompt`` is text, or a mapping of ``prompt``, ``history`` and ``attachments``. See api.md, *Session*."""

    @bridged
    async def send_async(
        self,
        prompt: Prompt,
        history: History | None = None,
        *,
        attachments: Sequence[Mapping[str, Any]] | None = None,
    ) -> AgentResult:
        """Sends a prompt and gives the answer once the run has settled.

        ``history`` is an explicit history (OpenAI-shaped messages) that leaves ``session.history()`` unchanged.
        Raises ``SessionBusy``, ``SessionClosed`` and ``INVALID_REQUEST`` before anything is written; what a run can
        fail with carries the partial result in ``.result``. Cancelling the wait interrupts the run.
        """
        run = await self._begin(prompt, history, attachments, "send")
        return await self._finish(run)

    send = blocking(send_async, on_interrupt=lambda self: self._engine.cancel())
    run_async = send_async
    run = send

    @bridged
    async def stream_async(
        self,
        prompt: Prompt,
        history: History | None = None,
        *,
        attachments: Sequence[Mapping[str, Any]] | None = None,
    ) -> EventStream:
        """Sends a prompt and gives its events as they happen. Only a refused admission raises; whatever happens
        later ends the stream with one ``error`` or ``agent_end``."""
        return self._stream_of(await self._begin(prompt, history, attachments, "stream"))

    def stream(
        self,
        prompt: Prompt,
        history: History | None = None,
        *,
        attachments: Sequence[Mapping[str, Any]] | None = None,
    ) -> EventStream:
        """The same for callers that don't await; on the agent's own loop the stream must be read with ``async for``."""
        if not self._home.here():
            return self._home.run(lambda: self.stream_async(prompt, history, attachments=attachments), name="stream")
        text, messages, given = unpack(prompt, history, attachments)
        run = self._engine.begin_now(text, cause="stream", messages=messages, attach=self._attach(given))
        return self._stream_of(run)

    def cancel(self) -> bool:
        """Interrupts the run at work; ``False`` when there is none. Doesn't wait for it to settle."""
        return self._interrupt(None)

    def cancel_run(self, run_id: str) -> bool:
        """The same for the run of this id."""
        return self._interrupt(run_id)

    def _interrupt(self, run_id: str | None) -> bool:
        """From any thread: on the loop the interrupt itself happens, the answer is known at once."""
        run = self._engine.active
        if run is None or (run_id is not None and run.id != run_id) or run.token.is_cancelled():
            return False
        if self._home.here():
            return self._engine.cancel(run.id)
        self._home.later(lambda: self._engine.cancel(run.id))
        return True

    def history(self) -> list[JsonObject]:
        """A copy of the conversation, as OpenAI-shaped messages; runs with explicit history are left out."""
        return self._engine.history()

    async def _begin(
        self,
        prompt: Prompt,
        history: History | None,
        attachments: Sequence[Mapping[str, Any]] | None,
        cause: Cause,
    ) -> ActiveRun:
        text, messages, given = unpack(prompt, history, attachments)
        return await self._engine.begin(text, cause=cause, messages=messages, attach=self._attach(given))

    def _attach(self, given: Sequence[Mapping[str, Any]] | None) -> Attach:
        return partial(keep, self._engine.parts, given) if given else no_attachments

    def _stream_of(self, run: ActiveRun) -> EventStream:
        subscription = run.fanout.subscribe(after=0)
        return EventStream(self._home, subscription, lambda: run.token.cancel("its reader went away"), run.finished)

    async def _finish(self, started: ActiveRun | ClosedRun) -> AgentResult:
        if isinstance(started, ClosedRun):
            return result_of(started)
        try:
            await asyncio.shield(started.finished)
        except asyncio.CancelledError:
            started.token.cancel("its caller was cancelled")
            await asyncio.wait([started.finished])
            raise
        return outcome_of(started)

    @bridged
    async def resume_run_async(self, run_id: str, *, accept_changes: bool = False) -> AgentResult:
        """Goes on with what was left open (facts.md, *Resume*), as a new run: from the run's checkpoint where the log
        is behind it; a log with nothing open takes no step and gives the last result. ``CONTEXT_ERROR`` names what
        changed behind the run unless ``accept_changes``."""
        return await self._finish(await self._engine.resume(Wanted(run_id, accept_changes)))

    resume_run = blocking(resume_run_async, on_interrupt=lambda self: self._engine.cancel())

    @bridged
    async def resume_stream_async(self, run_id: str, *, accept_changes: bool = False) -> EventStream | AgentResult:
        """``resume_run`` for who wants to watch: the events of the new run, or the last result when the log had nothing
        open."""
        started = await self._engine.resume(Wanted(run_id, accept_changes))
        return result_of(started) if isinstance(started, ClosedRun) else self._stream_of(started)


def unpack(
    prompt: Prompt, history: History | None, attachments: Sequence[Mapping[str, Any]] | None
) -> tuple[str, History | None, Sequence[Mapping[str, Any]] | None]:
    """The three arguments, whichever form they came in; ``INVALID_REQUEST`` for anything else."""
    if isinstance(prompt, Mapping):
        unknown = set(prompt) - {"prompt", "history", "attachments"}
        if unknown or history is not None or attachments is not None:
            what = f"unknown key '{min(unknown)}'" if unknown else "given beside other arguments"
            raise CodeError(f"a request mapping has prompt, history and attachments: {what}", "INVALID_REQUEST")
        history, attachments = prompt.get("history"), prompt.get("attachments")
        prompt = prompt.get("prompt", "")
    if not isinstance(prompt, str) or not prompt.strip():
        raise CodeError(f"prompt: expected text that is not blank, got {prompt!r:.60}", "INVALID_REQUEST")
    given: object = history
    if given is not None and not isinstance(given, (list, tuple)):
        raise CodeError(f"history: expected a list of messages, got {type(given).__name__}", "INVALID_REQUEST")
    return prompt, history, attachments
