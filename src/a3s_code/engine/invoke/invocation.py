"""One invocation on its way through the kernel. In: a name and arguments. Out: a Finished.

One rule: only the kernel's steps change an invocation, each its own members.
Known weakness: none known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from typing import TypeAlias

import msgspec

from a3s_code.core.content import JsonObject
from a3s_code.core.project import Event
from a3s_code.engine.token import CancelToken
from a3s_code.ports.clock import HostEnv
from a3s_code.ports.tool import Origin, ToolContext, ToolOutput
from a3s_code.ports.toolbox import RegisteredTool

Instead: TypeAlias = Callable[[JsonObject, ToolContext], ToolOutput | str]


def unheard(event: Event) -> None:
    """Where the events of a call go that no run has: a host's direct call has no stream."""


def nothing_held(said: str | None = None) -> None:
    """What lets go of held-back output where none is held back."""


class Invocation(msgspec.Struct, eq=False):
    """``stack`` names the invocations it is nested in, outermost first; ``emit`` puts output on the event stream,
    ``flush`` lets go what waits there, or says something in its place. ``limit_ms`` is what led to ``deadline``, for
    the message when it passes. ``outer`` made this call; ``context`` is what its tool got once it runs; ``waiting``
    counts the calls inside it that wait for a person; ``approved`` says that somebody answered an ask about this call
    with yes, ``scope`` what the ask said it was for, ``consulted`` that a hook was asked about it, ``checked`` which
    arguments passed their schema; ``instead`` is what a host's helper does in the tool's place, under the tool's name
    and rules; ``numbers`` count the ids made inside the call, ``lines`` are its part of the trace so far."""

    id: str
    name: str
    args: JsonObject
    origin: Origin
    run_id: str
    token: CancelToken
    emit: Callable[[str], None]
    started_at_ms: int = 0
    announce: Callable[[Event], None] = unheard
    stack: tuple[str, ...] = ()
    deadline: float | None = None
    limit_ms: int | None = None
    tool: RegisteredTool | None = None
    outer: Invocation | None = None
    context: ToolContext | None = None
    waiting: int = 0
    approved: bool = False
    scope: str | None = None
    flush: Callable[[str | None], None] = nothing_held
    consulted: bool = False
    checked: JsonObject | None = None
    instead: Instead | None = None
    numbers: Iterator[int] = msgspec.field(default_factory=lambda: count(1))
    lines: list[JsonObject] = msgspec.field(default_factory=list)

    def new_id(self, env: HostEnv) -> str:
        """An id for something inside this call. Where ids are fixed each call counts its own: calls side by side would
        draw from one count in any order."""
        return f"{self.id}-{next(self.numbers)}" if env.fixed else env.new_id()

    @property
    def outermost(self) -> Invocation:
        """The call that this one is nested in, or itself."""
        return self if self.outer is None else self.outer.outermost

    @property
    def registered(self) -> RegisteredTool:
        if self.tool is None:
            raise LookupError(f"invocation of {self.name} has not been looked up")
        return self.tool


class Finished(msgspec.Struct, frozen=True):
    """How an invocation ended. ``whole`` is the output's text before it was shortened."""

    output: ToolOutput
    took_ms: int = 0
    whole: str = ""


def failed(kind: str, message: str, *, exit_code: int = 1, detail: JsonObject | None = None) -> ToolOutput:
    """A failed output of this error kind (tools.md §1.2)."""
    error: JsonObject = {"type": kind, "message": message, **(detail or {})}
    return ToolOutput(message, exit_code, {"error": error}, kind)
