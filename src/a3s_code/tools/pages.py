"""Text files by pages of numbered lines (tools.md §3.1). In: a file's bytes, a range, a byte budget. Out: lines.

One rule: a page depends on the content and the range only, has at least one line when there is one, and never
exceeds its budget.
Known weakness: the whole file is decoded for each page.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import msgspec

from a3s_code.core.text.clip import clip_chars, utf8_head
from a3s_code.core.text.encoding import Decoded, Newline, count_lines, decode, is_binary, newline_kind, shown
from a3s_code.ports.tool import ToolFailure

_LINE_CHARS = 2000
# What "… [+<n> chars]" may take; no file that is read has more than eight digits of characters.
_CUT_BYTES = 24

_IMAGES = (
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)
_IMAGE_NAMES = (".jpg", ".jpeg", ".png", ".gif", ".webp")
_BINARIES = (
    (b"\x7fELF", "application/x-executable"),
    (b"%PDF-", "application/pdf"),
    (b"PK\x03\x04", "application/zip"),
    (b"\x1f\x8b", "application/gzip"),
    (b"SQLite format 3\0", "application/vnd.sqlite3"),
    (b"\0asm", "application/wasm"),
    (b"\xca\xfe\xba\xbe", "application/java-vm"),
    (b"MZ", "application/vnd.microsoft.portable-executable"),
)


class TextFile(msgspec.Struct, frozen=True):
    """``text`` is for showing: undecodable bytes are U+FFFD."""

    path: str
    text: str
    total: int
    newline: Newline
    decoded: Decoded
    bytes: int
    sha256: str


class Page(msgspec.Struct, frozen=True):
    """Numbered lines ``start`` (0-based) to ``end`` (exclusive); ``size`` is their length in bytes when joined."""

    lines: list[str]
    start: int
    end: int
    size: int


def image_type(path: str, data: bytes) -> str | None:
    """The media type of an image that models can see. The content decides; only a text that happens to begin like
    an image needs an image's name too."""
    kind = next((kind for magic, kind in _IMAGES if data.startswith(magic)), None)
    if data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        kind = "image/webp"
    if kind == "image/gif" and not is_binary(data) and not path.lower().endswith(_IMAGE_NAMES):
        return None
    return kind


def text_file(path: str, data: bytes) -> TextFile:
    """``unsupported`` for binary content."""
    if is_binary(data):
        kind = next((kind for magic, kind in _BINARIES if data.startswith(magic)), "application/octet-stream")
        raise ToolFailure("unsupported", f"{path} is a binary file ({len(data)} bytes, {kind})")
    decoded = decode(data)
    text = decoded.text
    if decoded.lossy:
        text = shown(text) + ("\ufffd" if decoded.rest else "")
    digest = hashlib.sha256(data).hexdigest()
    return TextFile(path, text, count_lines(text), newline_kind(text), decoded, len(data), digest)


def check_offset(file: TextFile, offset: int) -> None:
    if offset > file.total:
        message = f"offset {offset} is past the end: {file.path} has {file.total} lines"
        raise ToolFailure("invalid_argument", message)


def page(file: TextFile, offset: int, limit: int, room: int, room_if_more: int, at_least_one: bool = True) -> Page:
    """Lines from ``offset`` on. They take at most ``room`` bytes when they end the file, else ``room_if_more``. With
    ``at_least_one`` a first line that doesn't fit is cut until it does."""
    end = min(offset + limit, file.total)
    lines: list[str] = []
    size = 0
    for number, text in enumerate(_lines_from(file.text, offset), offset + 1):
        if number > end:
            break
        line = f"{number:>6}\t{clip_chars(text, _LINE_CHARS)}"
        taken = size + len(line.encode()) + bool(lines)
        available = room if number == file.total else room_if_more
        if taken > available:
            if lines or not at_least_one:
                break
            line = _fitting(number, text, available)
            taken = len(line.encode())
        lines.append(line)
        size = taken
    return Page(lines, offset, offset + len(lines), size)


def _fitting(number: int, text: str, room: int) -> str:
    prefix = f"{number:>6}\t"
    head = text[:_LINE_CHARS].encode()[: max(0, room - len(prefix) - _CUT_BYTES)]
    return prefix + clip_chars(text, len(utf8_head(head).decode()))


def _lines_from(text: str, offset: int) -> Iterator[str]:
    """The lines without their terminators."""
    at = line_start(text, offset)
    while at < len(text):
        end = text.find("\n", at)
        if end < 0:
            yield text[at:]
            return
        yield text[at : end - 1 if end > at and text[end - 1] == "\r" else end]
        at = end + 1


def line_start(text: str, line: int) -> int:
    """Where the 0-based ``line`` begins; the end of the text when it has no such line."""
    at = 0
    for _ in range(line):
        at = text.find("\n", at) + 1
        if not at:
            return len(text)
    return at
