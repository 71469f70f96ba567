"""How deep a JSON value goes. In: a value. Out: whether it is nested deeper than a bound.

One rule: nothing here recurses, so that it can be asked of anything before something that does is let near it.
Known weakness: a value that contains itself is deeper than any bound, and takes as long as the bound is large.
"""

from __future__ import annotations

from typing import Any


def is_deeper(value: Any, than: int) -> bool:
    """Whether arrays and objects in ``value``, itself included, are nested more than ``than`` deep."""
    level = [value] if isinstance(value, (dict, list, tuple)) else []
    for _ in range(than):
        if not level:
            return False
        level = [
            member
            for each in level
            for member in (each.values() if isinstance(each, dict) else each)
            if isinstance(member, (dict, list, tuple))
        ]
    return bool(level)
