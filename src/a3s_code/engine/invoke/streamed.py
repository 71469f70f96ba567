"""A tool's output while it runs. In: text from any thread. Out: the same on the home loop, sanitised where there is a
security provider.

One rule: pieces keep their order, and the last is out before the result is.
Known weakness: with a provider a piece waits for the end of its line.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from a3s_code.core.held import Held
from a3s_code.engine.sanitizer import Sanitizer


class OutputStream:
    def __init__(
        self, out: Callable[[str], None], loop: asyncio.AbstractEventLoop, sanitizer: Sanitizer | None
    ) -> None:
        self._out = out
        self._loop = loop
        self._held = Held(sanitizer.shown) if sanitizer is not None else None

    def add(self, text: str) -> None:
        """Safe from any thread."""
        self._loop.call_soon_threadsafe(self._out if self._held is None else self._hold, text)

    def _hold(self, text: str) -> None:
        if self._held is not None:
            self._out(self._held.add(text))

    def end(self) -> None:
        """Lets go what waits. On the home loop."""
        if self._held is not None:
            self._out(self._held.end())
