"""What a write did to a file (tools.md §6.4). In: the bytes before and after. Out: the ``file_change`` metadata.

One rule: its size is bounded, whatever the files' is.
Known weakness: contents over 10 MiB are not compared; ``before`` and ``after`` are then previews and the diff is empty.

``before`` and ``after`` are the whole text when both have at most 8 KiB, else the first 2 KiB of each
(``before_bytes`` and ``after_bytes`` tell). A binary side has no text, and then there is no diff.
"""

from __future__ import annotations

import hashlib

import msgspec

from a3s_code.core.content import JsonObject
from a3s_code.core.text.clip import utf8_head
from a3s_code.core.text.diff import Diff
from a3s_code.core.text.encoding import decode, is_binary, shown

COMPARED_BYTES = 10 * 1024 * 1024
_WHOLE = 8 * 1024
_PREVIEW = 2 * 1024
_DIFF_BYTES = 32 * 1024
_DIFF_LINES = 100_000


class Before(msgspec.Struct, frozen=True):
    """A file as it was: ``data`` is all of it, or its first ``COMPARED_BYTES`` when ``size`` is more."""

    data: bytes
    size: int
    sha256: str

    @classmethod
    def of(cls, data: bytes) -> Before:
        return cls(data, len(data), hashlib.sha256(data).hexdigest())


class Change(msgspec.Struct, frozen=True):
    """``metadata`` is the ``file_change`` object; ``diff`` is ``None`` when the two were not compared. ``whole`` are
    the texts that the metadata only has the beginning of."""

    metadata: JsonObject
    diff: Diff | None
    whole: dict[str, str] = {}


def file_change(path: str, before: Before | None, after: bytes) -> Change:
    old = _text(before.data) if before is not None else None
    new = _text(after)
    comparable = new is not None and (before is None or (old is not None and before.size == len(before.data)))
    diff = Diff(old, new, path) if comparable and new is not None and len(after) <= COMPARED_BYTES else None
    text, cut = diff.text(_DIFF_LINES, _DIFF_BYTES - 128) if diff is not None else ("", True)
    metadata: JsonObject = {
        "path": path,
        "operation": "create" if before is None else "update",
        "before_sha256": None if before is None else before.sha256,
        "after_sha256": hashlib.sha256(after).hexdigest(),
        "before_bytes": 0 if before is None else before.size,
        "after_bytes": len(after),
        "added": diff.added if diff is not None else 0,
        "removed": diff.removed if diff is not None else 0,
        "diff": text,
        "diff_truncated": cut,
    }
    whole = len(after) <= _WHOLE and (before is None or before.size <= _WHOLE)
    if old is not None:
        metadata["before"] = shown(old) if whole else _preview(old)
    if new is not None:
        metadata["after"] = shown(new) if whole else _preview(new)
    if whole or diff is None:
        return Change(metadata, diff)
    rest = {"after": shown(new or "")} if len(after) > _PREVIEW else {}
    if before is not None and before.size > _PREVIEW:
        rest["before"] = shown(old or "")
    if cut:
        rest["diff"] = diff.text(_DIFF_LINES, len(after) * 4 + COMPARED_BYTES)[0]
    return Change(metadata, diff, rest)


def _text(data: bytes) -> str | None:
    return None if is_binary(data) else decode(data).text


def _preview(text: str) -> str:
    return utf8_head(shown(text[:_PREVIEW]).encode()[:_PREVIEW]).decode()
