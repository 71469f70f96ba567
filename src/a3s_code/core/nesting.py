"""How deep JSON goes. In: encoded JSON. Out: whether it is nested deeper than a bound.

One rule: nothing here recurses, so that it can be asked of anything before something that does is let near it.
Known weakness: of text that is no JSON the answer means nothing.
"""

from __future__ import annotations

import re
from typing import Final

_TEXTS: Final = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_ALIKE: Final = bytes.maketrans(b"[]{}", b"()()")
_OTHER: Final = bytes(set(range(256)) - set(b"[]{}"))


def is_deeper(data: bytes, than: int) -> bool:
    """Whether arrays and objects in ``data`` are nested more than ``than`` deep."""
    if data.count(b"[") + data.count(b"{") <= than:
        return False
    brackets = re.sub(_TEXTS, b"", data, flags=re.DOTALL).translate(_ALIKE, _OTHER)
    for _ in range(than):
        if not brackets:
            return False
        brackets = brackets.replace(b"()", b"")
    return bool(brackets)
