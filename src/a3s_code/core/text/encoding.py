"""A file's bytes as text and back (tools.md §4.7). In: bytes. Out: text, and what is needed to write it again.

One rule: ``encode(decoded.text, decoded) == data`` whenever ``decoded.exact``; nothing is ever replaced on the way.
Known weakness: UTF-16 without a BOM is taken for UTF-8 (and looks binary); UTF-32 with numbers beyond Unicode can be
shown but not written again (``exact`` is false).
"""

from __future__ import annotations

import codecs
import re
from typing import Literal

import msgspec

Newline = Literal["lf", "crlf", "mixed", "none"]

# UTF-32 stands first: its little-endian mark begins with the one of UTF-16.
_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32-le", 4),
    (codecs.BOM_UTF32_BE, "utf-32-be", 4),
    (codecs.BOM_UTF8, "utf-8", 1),
    (codecs.BOM_UTF16_LE, "utf-16-le", 2),
    (codecs.BOM_UTF16_BE, "utf-16-be", 2),
)
_SURROGATES = re.compile("[\ud800-\udfff]")


class Decoded(msgspec.Struct, frozen=True):
    """``text`` is without the BOM; undecodable bytes are lone surrogates in it. ``rest`` is a torn unit at the end
    of UTF-16 or UTF-32. ``lossy`` says that something can't be decoded."""

    text: str
    encoding: str = "utf-8"
    bom: bytes = b""
    rest: bytes = b""
    lossy: bool = False
    exact: bool = True


def decode(data: bytes) -> Decoded:
    for bom, encoding, width in _MARKS:
        if data.startswith(bom):
            return _utf8(data[len(bom) :], bom) if width == 1 else _wide(data, bom, encoding, width)
    return _utf8(data, b"")


def _utf8(body: bytes, bom: bytes) -> Decoded:
    try:
        return Decoded(body.decode("utf-8"), "utf-8", bom)
    except UnicodeDecodeError:
        return Decoded(body.decode("utf-8", "surrogateescape"), "utf-8", bom, lossy=True)


def _wide(data: bytes, bom: bytes, encoding: str, width: int) -> Decoded:
    end = len(data) - len(data) % width
    body, rest = data[len(bom) : end], data[end:]
    try:
        return Decoded(body.decode(encoding), encoding, bom, rest, lossy=bool(rest))
    except UnicodeDecodeError:
        pass  # unpaired surrogates or worse: the two ways below keep what can be kept
    try:
        return Decoded(body.decode(encoding, "surrogatepass"), encoding, bom, rest, lossy=True)
    except UnicodeDecodeError:
        return Decoded(body.decode(encoding, "replace"), encoding, bom, rest, lossy=True, exact=False)


def encode(text: str, like: Decoded) -> bytes:
    """``text`` in the encoding of ``like``, with its BOM and its torn end."""
    errors = "surrogateescape" if like.encoding == "utf-8" else "surrogatepass"
    return like.bom + text.encode(like.encoding, errors) + like.rest


def encodable(text: str) -> bool:
    """Whether every encoding here can hold ``text``: it has no lone surrogates."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def shown(text: str) -> str:
    """``text`` for people and models: each undecodable byte or unit is U+FFFD."""
    return _SURROGATES.sub("\ufffd", text)


def is_binary(data: bytes) -> bool:
    """A NUL in the first 8 KiB and no BOM of a wide encoding."""
    if b"\0" not in data[:8192]:
        return False
    return not any(data.startswith(bom) for bom, _, width in _MARKS if width > 1)


def newline_kind(text: str) -> Newline:
    ends = text.count("\n")
    if not ends:
        return "none"
    pairs = text.count("\r\n")
    if not pairs:
        return "lf"
    return "crlf" if pairs == ends else "mixed"


def count_lines(text: str) -> int:
    """A line ends at ``\\n`` only; text after the last one is a line too."""
    return text.count("\n") + (not text.endswith("\n") and bool(text))


def split_lines(text: str) -> list[str]:
    """The lines with their terminators; joined they are ``text``."""
    parts = text.split("\n")
    last = parts.pop()
    lines = [f"{part}\n" for part in parts]
    if last:
        lines.append(last)
    return lines
