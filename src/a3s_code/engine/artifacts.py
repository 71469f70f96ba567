"""Whole outputs of which only a part is shown (tools.md §6.3). In: a text and its URI. Out: the text again, while it is
kept.

One rule: what is kept is found by its content's digest and never changes; the oldest goes first.
Known weakness: it is memory only. After a restart a URI that an earlier result names leads nowhere, unless a session
store has a snapshot of the session.
"""

from __future__ import annotations

import hashlib
from threading import Lock
from typing import Annotated

import msgspec

from a3s_code.core.content import JsonObject
from a3s_code.core.digest import valid_text
from a3s_code.core.evidence import artifact_uri, is_artifact_uri
from a3s_code.errors import CodeError


class ArtifactStoreLimits(msgspec.Struct, frozen=True):
    """How many artifacts a session keeps, and how many bytes of them; past either the oldest go. 0 keeps none."""

    max_artifacts: Annotated[int, msgspec.Meta(ge=0)] = 256
    max_bytes: Annotated[int, msgspec.Meta(ge=0)] = 64 * 1024 * 1024


class _Artifact(msgspec.Struct, frozen=True):
    tool: str
    data: bytes


class Artifacts:
    """Safe from any thread."""

    def __init__(self, limits: ArtifactStoreLimits) -> None:
        self._limits = limits
        self._kept: dict[str, _Artifact] = {}
        self._size = 0
        self._lock = Lock()
        self.keep_bytes = limits.max_bytes if limits.max_artifacts else -1

    def keep(self, tool: str, text: str) -> str | None:
        """Keeps ``text`` and gives its URI; ``None`` when it is too large to keep."""
        text = str(valid_text(text))
        data = text.encode()
        if len(data) > self.keep_bytes:
            return None
        uri = artifact_uri(tool, data)
        self.put(uri, tool, text)
        return uri

    def put(self, uri: str, tool: str, text: str) -> None:
        """Keeps ``text``, unless it is larger than everything together may be."""
        data = text.encode()
        if len(data) > self.keep_bytes:
            return
        with self._lock:
            if uri in self._kept:
                return
            self._kept[uri] = _Artifact(tool, data)
            self._size += len(data)
            while len(self._kept) > self._limits.max_artifacts or self._size > self._limits.max_bytes:
                oldest = self._kept.pop(next(iter(self._kept)))
                self._size -= len(oldest.data)

    def all(self) -> list[JsonObject]:
        """What is kept, oldest first: ``uri``, ``tool``, ``content``."""
        with self._lock:
            kept = list(self._kept.items())
        return [{"uri": uri, "tool": each.tool, "content": each.data.decode()} for uri, each in kept]

    def get(self, uri: str) -> JsonObject | None:
        """``uri``, ``tool``, ``media_type``, ``bytes``, ``sha256``, ``content``; ``None`` when it is unknown or gone.
        ``INVALID_REQUEST`` for what is no URI of an artifact."""
        if not isinstance(uri, str) or not is_artifact_uri(uri):
            raise CodeError(f"not the URI of an artifact: {uri!r:.200}", "INVALID_REQUEST")
        with self._lock:
            found = self._kept.get(uri)
        if found is None:
            return None
        return {
            "uri": uri,
            "tool": found.tool,
            "media_type": "text/plain; charset=utf-8",
            "bytes": len(found.data),
            "sha256": hashlib.sha256(found.data).hexdigest(),
            "content": found.data.decode(),
        }
