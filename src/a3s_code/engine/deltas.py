"""What the model says on its way to the readers. In: pieces of text, reasoning and arguments. Out: events.

One rule: without a security provider every piece is an event at once; with one a piece waits for the end of its line,
and what waits goes out before anything of another kind.
Known weakness: with a provider the arguments of a call come in one piece, when they are complete.
"""

from __future__ import annotations

from collections.abc import Callable

from a3s_code.core import project
from a3s_code.core.held import Held
from a3s_code.core.project import Event
from a3s_code.engine.active import ActiveRun


class Deltas:
    """Of one attempt at a model turn."""

    def __init__(self, run: ActiveRun) -> None:
        self._emit = run.emit
        sanitizer = run.parts.governance.sanitizer
        self._held = Held(sanitizer.shown) if sanitizer is not None else None
        self._of = ""
        self._event: Callable[[str], Event] = project.text_delta

    def text(self, text: str) -> None:
        self._add("text", project.text_delta, text)

    def reasoning(self, text: str) -> None:
        self._add("reasoning", project.reasoning_delta, text)

    def arguments(self, call_id: str, name: str, text: str) -> None:
        self._add(call_id, lambda piece: project.call_input(call_id, name, piece), text)

    def begun(self, call_id: str, name: str) -> None:
        self.end()
        self._emit(project.call_begun(call_id, name))

    def _add(self, of: str, event: Callable[[str], Event], text: str) -> None:
        if self._held is None:
            self._emit(event(text))
            return
        if of != self._of:
            self.end()
            self._of, self._event = of, event
        self._out(self._held.add(text))

    def end(self) -> None:
        """Lets go what waits."""
        if self._held is not None:
            self._out(self._held.end())

    def _out(self, text: str) -> None:
        if text:
            self._emit(self._event(text))
