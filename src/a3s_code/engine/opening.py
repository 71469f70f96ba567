"""What comes before a run and around a session. In: a prompt that was admitted. Out: the facts that begin its run.

One rule: hooks are asked before anything is written; a denied prompt leaves the log as it was.
Known weakness: none known.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import msgspec
from msgspec.structs import replace

from a3s_code.core.content import AttachmentRef, Json
from a3s_code.core.facts import FactData, RunOpened, UserSaid
from a3s_code.core.facts.runs import Cause
from a3s_code.core.history import seed
from a3s_code.core.state import View
from a3s_code.engine import points, recovery
from a3s_code.engine.firing import Firing
from a3s_code.engine.parts import Parts
from a3s_code.engine.token import CancelToken, Interrupted
from a3s_code.engine.writer import Writer

Attach: TypeAlias = Callable[[], tuple[AttachmentRef, ...]]


def no_attachments() -> tuple[AttachmentRef, ...]:
    """What a prompt without attachments comes with."""
    return ()


class Prompt(msgspec.Struct, frozen=True):
    """``messages`` is an explicit history (api.md)."""

    text: str
    cause: Cause
    messages: Sequence[Mapping[str, Json]] | None
    attachments: tuple[AttachmentRef, ...] = ()
    run_id: str | None = None
    input_digest: str | None = None

    def said(self, writer: Writer) -> list[FactData]:
        """The facts after ``run.opened``; a run that was left open is settled first."""
        seeds = seed(self.messages) if self.messages is not None else []
        writer.acquire()
        left_open = recovery.settle_open(writer.view)
        if left_open is not None:
            writer.append(left_open[0], *left_open[1])
        fresh = writer.view.seq == 0
        return [*(seeds if fresh else []), UserSaid(self.text, "prompt", self.attachments)]

    def opened(self, parts: Parts) -> RunOpened:
        side = self.messages is not None
        run_id = self.run_id or parts.env.new_id()
        return RunOpened(run_id, self.cause, parts.context(), side=side, input_digest=self.input_digest)


def has_to_wait(firing: Firing) -> bool:
    """Whether a prompt can't begin before hooks have been called."""
    return firing.wants("pre_prompt") or (not firing.started and firing.wants("session_start"))


async def session_start(firing: Firing, parts: Parts) -> None:
    """Once, before a session's first operation."""
    if firing.started:
        return
    firing.started = True
    if firing.wants("session_start"):
        where, resumed = parts.workspace.root, parts.log.exists()
        payload: dict[str, Json] = {"workspace": where, "model": parts.model_settings.name, "resumed": resumed}
        with firing.inside():
            await firing.tell_anyway("session_start", payload)


async def session_end(firing: Firing, reason: str) -> None:
    """Only of a session that did anything."""
    if firing.started and firing.wants("session_end"):
        payload: dict[str, Json] = {"reason": reason, "runs": firing.runs, "total_tokens": firing.tokens}
        with firing.inside():
            await firing.tell_anyway("session_end", payload)


async def asked(
    firing: Firing, parts: Parts, view: View, prompt: Prompt, token: CancelToken, run_id: str = ""
) -> Prompt:
    """The prompt as the hooks leave it; ``HookDenied`` when one refuses it. When ``token`` fires the run begins as it
    is, to end at once."""
    await session_start(firing, parts)
    length = len(view.messages if prompt.messages is None else prompt.messages)
    try:
        with firing.inside():
            text = await points.prompt(firing, token, prompt.text, len(prompt.attachments), length, run_id)
    except Interrupted:
        return prompt
    return replace(prompt, text=text)
