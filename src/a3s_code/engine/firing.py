"""Events on their way to hooks. In: what happens in a session. Out: its hooks told, or asked.

One rule: who fires asks ``wants`` first, so that without a hook nothing is put together.
Known weakness: what happens where nothing can be awaited is told a little later, at the next ``flush``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Final

from msgspec.structs import replace

from a3s_code.core.content import JsonObject
from a3s_code.engine.parts import Parts
from a3s_code.engine.token import CancelToken, Interrupted
from a3s_code.ports.hooks import About, Gated

LAST_PATIENCE_MS: Final = 5000
"""What a hook gets of its timeout once its run was cancelled or its session closed."""

_inside: ContextVar[frozenset[int]] = ContextVar("a3s_code_inside", default=frozenset())


class Firing:
    """One a session. ``consulted`` are the calls of the model that ``pre_tool_use`` was asked about, ``asked`` those
    (with their arguments) that ``permission_request`` was; ``started`` says that the session's first operation
    began."""

    def __init__(self, parts: Parts, token: CancelToken, trace: Callable[[JsonObject], None]) -> None:
        self._parts = parts
        self._token = token
        self._trace = trace
        self._labels = parts.labels.present()
        self._noted: list[tuple[str, About, JsonObject]] = []
        self.hooks = parts.hooks
        self.turn_of: Callable[[str], str | None] = _no_turn
        self.consulted: set[str] = set()
        self.asked: set[tuple[str, str]] = set()
        self.started = False
        self.runs = 0
        self.tokens = 0

    def wants(self, event: str) -> bool:
        return event in self.hooks.listening

    async def gate(
        self, event: str, payload: JsonObject, token: CancelToken, run_id: str = "", *, own_args: bool = False
    ) -> Gated:
        """What the hooks decide; ``Interrupted`` once ``token`` fires."""
        about = self._about(run_id, token)
        return await token.guard(self.hooks.gate(event, about, payload, own_args=own_args))

    async def tell(self, event: str, payload: JsonObject, token: CancelToken | None = None, run_id: str = "") -> None:
        """``Interrupted`` when ``token`` fires meanwhile; one that has fired only makes the hooks hurry."""
        token = token or self._token
        telling = self.hooks.tell(event, self._about(run_id, token), payload)
        await (telling if token.is_cancelled() else token.guard(telling))

    async def tell_anyway(
        self, event: str, payload: JsonObject, token: CancelToken | None = None, run_id: str = ""
    ) -> None:
        """The same at an end, where an interrupt has nothing left to stop but the hooks."""
        with suppress(Interrupted):
            await self.tell(event, payload, token, run_id)

    def note(self, event: str, payload: JsonObject, run_id: str = "") -> None:
        """Keeps an event for the next ``flush``."""
        if event in self.hooks.listening:
            self._noted.append((event, self._about(run_id, self._token), payload))

    @property
    def noted(self) -> bool:
        return bool(self._noted)

    async def flush(self, token: CancelToken | None = None) -> None:
        """Tells what was noted, in its order; when ``token`` fires meanwhile, the rest in a hurry."""
        token = token or self._token
        while self._noted:
            event, about, payload = self._noted.pop(0)
            if token.is_cancelled():
                await self.hooks.tell(event, replace(about, patience_ms=LAST_PATIENCE_MS), payload)
                continue
            with suppress(Interrupted):
                await token.guard(self.hooks.tell(event, about, payload))

    def forget_calls(self) -> None:
        """A new prompt: every call before it has its result."""
        self.consulted.clear()
        self.asked.clear()

    def filled_in(self, tool: str, args: JsonObject) -> JsonObject:
        """The arguments with defaults, as every hook sees them."""
        registered = self._parts.toolbox.get(tool)
        checked = registered.check(args)[0] if registered is not None else None
        return args if checked is None else checked

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Around whatever calls the host back: a ``close()`` from there can't wait for its own caller."""
        before = _inside.set(_inside.get() | {id(self)})
        try:
            yield
        finally:
            _inside.reset(before)

    def is_inside(self) -> bool:
        return id(self) in _inside.get()

    def _about(self, run_id: str, token: CancelToken) -> About:
        parts = self._parts
        return About(
            session_id=parts.session_id,
            root=parts.workspace.root,
            timestamp_ms=parts.env.now_ms(),
            labels=self._labels,
            trace=self._trace,
            timed=not parts.env.fixed,
            run_id=run_id or None,
            turn_id=self.turn_of(run_id) if run_id else None,
            patience_ms=LAST_PATIENCE_MS if token.is_cancelled() or self._token.is_cancelled() else None,
        )


def _no_turn(run_id: str) -> str | None:
    return None
