"""File contents as lines. In: a candidate. Out: its bytes or text, or nothing, counted under the reason.

One rule: what is no text, too large or not readable is skipped and counted, never an error of the search.
Known weakness: UTF-16 and UTF-32 are recognised by their byte order mark only.
"""

from __future__ import annotations

import codecs
import re

import msgspec

from a3s_code.ports.tool import ToolFailure
from a3s_code.ports.workspace import Place, Workspace
from a3s_code.tools.search.candidates import Candidate

MAX_FILE_BYTES = 10 * 1024 * 1024
_SHOWN_CHARACTERS = 500
_SNIFF_BYTES = 8192
_UNSHOWABLE = re.compile("[\x00-\x1f\x7f\ud800-\udfff]")
_MARKS = (  # UTF-32 first: its little-endian mark begins with that of UTF-16
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
    (codecs.BOM_UTF8, "utf-8-sig"),
)


class Skipped(msgspec.Struct):
    binary: int = 0
    large: int = 0
    protected: int = 0
    unreadable: int = 0


class Reader:
    def __init__(self, workspace: Workspace, max_bytes: int = MAX_FILE_BYTES) -> None:
        self._workspace = workspace
        self._max = max_bytes
        self.skipped = Skipped()
        self.scanned = 0

    def read(self, candidate: Candidate) -> bytes | None:
        """The whole file, if it is text."""
        if candidate.entry.size > self._max:
            self.skipped.large += 1
            return None
        try:
            with self._workspace.open(Place(candidate.path, candidate.real)) as file:
                data = file.read(self._max + 1)
        except (ToolFailure, OSError):
            self.skipped.unreadable += 1
            return None
        if len(data) > self._max:
            self.skipped.large += 1
            return None
        if encoding_of(data) is None:
            self.skipped.binary += 1
            return None
        self.scanned += 1
        return data


def encoding_of(data: bytes) -> str | None:
    """``None`` for binary data."""
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return encoding
    return None if b"\0" in data[:_SNIFF_BYTES] else "utf-8"


def text_of(data: bytes) -> str:
    return data.decode(encoding_of(data) or "utf-8", "replace")


def lines_of(data: bytes) -> list[str]:
    """The lines without their ends; a last line without an end counts."""
    lines = text_of(data).replace("\r\n", "\n").split("\n")
    if not lines[-1]:
        lines.pop()
    return lines


def cut(line: str) -> str:
    return line[:_SHOWN_CHARACTERS]


def shown(path: str) -> str:
    """A path that fits on one line of valid text: control characters and undecodable bytes become ``?``."""
    return _UNSHOWABLE.sub("?", path)
