"""The text of ``$'…'``. In: what stands between the quotes. Out: what the shell makes of it.

One rule: as bash does it, also where that looks odd (a NUL ends the text).
Known weakness: bytes that are no UTF-8 come out as surrogate escapes, like file names do.
"""

from __future__ import annotations

import re
from typing import Final

_ESCAPE: Final = re.compile(
    r"\\(?:x\{([0-9a-fA-F]*)\}?|x([0-9a-fA-F]{1,2})|([0-7]{1,3})|u([0-9a-fA-F]{1,4})|U([0-9a-fA-F]{1,8})|c(.)|(.))",
    re.DOTALL,
)
_NAMED: Final = dict(zip("abeEfnrtv\\'\"?", b"\a\b\x1b\x1b\f\n\r\t\v\\'\"?", strict=True))


def ansi_c(text: str) -> str:
    """The bytes are put together first: two escapes may make one character."""
    made, at = bytearray(), 0
    for found in _ESCAPE.finditer(text):
        made += _bytes(text[at : found.start()])
        at = found.end()
        made += _one(found)
    made += _bytes(text[at:])
    return bytes(made).split(b"\0", 1)[0].decode("utf-8", "surrogateescape")


def _one(found: re.Match[str]) -> bytes:
    braced, pair, octal, short, long, control, named = found.groups()
    if braced is not None or pair is not None:
        return bytes([int(braced or pair or "0", 16) & 0xFF])
    if octal is not None:
        return bytes([int(octal, 8) & 0xFF])
    if short is not None or long is not None:
        number = int(short or long, 16)
        return _bytes(chr(number)) if number < 0x110000 else b"?"
    if control is not None:
        return b"\x7f" if control == "?" else bytes([ord(control) & 0x1F]) if control.isascii() else _bytes(control)
    return bytes([_NAMED[named]]) if named in _NAMED else b"\\" + _bytes(named)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass" if any("\ud800" <= c <= "\udbff" for c in text) else "surrogateescape")
