"""A tool's output while it runs. In: text from any thread. Out: the same on the home loop, sanitised where there is a
security provider.

One rule: pieces keep their order, and the last is out before the result is.
Known weakness: with a provider a piece waits for the end of its line. Where ids or times are fixed all of a call's
pieces come as one right before its result, as how they are cut is chance; of more than 1 MiB the rest is left out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from a3s_code.core.held import Held
from a3s_code.engine.sanitizer import Sanitizer

_TOGETHER: Final = 1024 * 1024


class OutputStream:
    """With ``together`` nothing goes out before ``end``."""

    def __init__(
        self,
        out: Callable[[str], None],
        loop: asyncio.AbstractEventLoop,
        sanitizer: Sanitizer | None,
        *,
        together: bool = False,
    ) -> None:
        self._out = out
        self._loop = loop
        self._held = Held(sanitizer.shown) if sanitizer is not None else None
        self._together = together
        self._pieces: list[str] = []
        self._room = _TOGETHER

    def add(self, text: str) -> None:
        """Safe from any thread."""
        if self._together:
            self._pieces.append(text[: self._room])
            self._room -= len(self._pieces[-1])
            return
        self._loop.call_soon_threadsafe(self._out if self._held is None else self._hold, text)

    def _hold(self, text: str) -> None:
        if self._held is not None:
            self._out(self._held.add(text))

    def end(self, said: str | None = None) -> None:
        """Lets go what waits; ``said`` in the place of pieces whose order is chance. On the home loop."""
        pieces, self._pieces = "".join(self._pieces), []
        if pieces:
            whole = pieces if said is None else said
            self._out(whole if self._held is None else self._held.add(whole))
        if self._held is not None:
            self._out(self._held.end())
