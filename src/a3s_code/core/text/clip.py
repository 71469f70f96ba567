"""Cuts long output in the middle. In: text or bytes and two sizes. Out: head, marker and tail as text.

One rule: a cut never falls inside a UTF-8 sequence, and the marker counts every byte that is missing.
Known weakness: bytes that are not UTF-8 may lose up to three more beside a cut.
"""

from __future__ import annotations

import msgspec


class Clipped(msgspec.Struct, frozen=True):
    """``total`` and ``omitted`` are bytes; ``lossy`` says that undecodable bytes became U+FFFD."""

    text: str
    total: int
    omitted: int = 0
    lossy: bool = False


def clip_head_tail(data: str | bytes, head: int, tail: int, note: str = "") -> Clipped:
    """All of ``data`` when it has at most ``head + tail`` bytes, else its ends around the marker
    ``[… <n> bytes omitted …]`` (``; <note>`` goes before the last sign), which stands on a line of its own."""
    raw = data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data
    if len(raw) <= head + tail:
        return _whole(raw)
    return join_head_tail(raw[:head], raw[len(raw) - tail :], len(raw), note)


def join_head_tail(head: bytes, tail: bytes, total: int, note: str = "") -> Clipped:
    """The same for one who kept only the two ends of ``total`` bytes."""
    if total <= len(head) + len(tail):
        return _whole(head + tail)
    head, tail = utf8_head(head), utf8_tail(tail)
    omitted = total - len(head) - len(tail)
    first, second = head.decode("utf-8", "replace"), tail.decode("utf-8", "replace")
    before = "\n" if first and not first.endswith("\n") else ""
    after = "\n" if second else ""
    text = f"{first}{before}{marker(omitted, note)}{after}{second}"
    return Clipped(text, total, omitted, _lossy(head) or _lossy(tail))


def marker(omitted: int, note: str = "") -> str:
    return f"[… {omitted} bytes omitted{'; ' + note if note else ''} …]"


def clip_chars(line: str, limit: int) -> str:
    """A line of at most ``limit`` characters; what was cut is counted at its end."""
    return line if len(line) <= limit else f"{line[:limit]}… [+{len(line) - limit} chars]"


def utf8_head(data: bytes) -> bytes:
    """``data`` without a sequence that its end cuts."""
    for back in range(1, min(3, len(data)) + 1):
        byte = data[-back]
        if byte >= 0xC0:
            length = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return data[:-back] if length > back else data
        if byte < 0x80:
            break
    return data


def utf8_tail(data: bytes) -> bytes:
    """``data`` without the remains of a sequence that its start cuts."""
    start = 0
    while start < min(3, len(data)) and 0x80 <= data[start] < 0xC0:
        start += 1
    return data[start:]


def _whole(raw: bytes) -> Clipped:
    return Clipped(raw.decode("utf-8", "replace"), len(raw), 0, _lossy(raw))


def _lossy(raw: bytes) -> bool:
    try:
        raw.decode("utf-8")
    except UnicodeDecodeError:
        return True
    return False
