"""Text that comes in pieces, sanitised (tools.md §2.1, step 14). In: pieces. Out: pieces that were sanitised whole.

One rule: a piece goes out at the end of a line only, so that a secret that is cut between two pieces is seen whole; a
private key goes out when it is complete.
Known weakness: a line over 8 KiB is let go at a blank, one over 64 KiB wherever it is, and so is a key that never ends.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from a3s_code.core.secrets import KEY_BEGINS, KEY_ENDS

LONG_LINE: Final = 8 * 1024
MOST: Final = 64 * 1024
_KEPT_BACK: Final = 1024


class Held:
    def __init__(self, sanitize: Callable[[str], str]) -> None:
        self._sanitize = sanitize
        self._held = ""

    def add(self, text: str) -> str:
        """What can go out now; often nothing."""
        self._held += text
        if "\n" not in text and len(self._held) <= LONG_LINE:
            return ""
        cut = _cut(self._held)
        if not cut:
            return ""
        ready, self._held = self._held[:cut], self._held[cut:]
        return self._sanitize(ready)

    def end(self) -> str:
        """The rest."""
        ready, self._held = self._held, ""
        return self._sanitize(ready) if ready else ""


def _cut(text: str) -> int:
    """How much of ``text`` may go out."""
    cut = text.rfind("\n") + 1
    if len(text) - cut > LONG_LINE:
        blank = text.rfind(" ", cut, len(text) - _KEPT_BACK)
        cut = blank + 1 if blank > 0 else cut
    at = 0
    while (key := KEY_BEGINS.search(text, at, cut)) is not None:
        end = KEY_ENDS.search(text, key.end())
        if end is None or end.end() > cut:
            cut = key.start()
            break
        at = end.end()
    if not cut and len(text) > MOST:
        return len(text) - _KEPT_BACK
    return cut
