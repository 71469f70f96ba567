"""Attachments beside the log. In: bytes. Out: a reference by digest, and the bytes again.

One rule: content-addressed: the same bytes are one file, and a file is never changed.
Known weakness: nothing removes a file that no fact names any more.
"""

from __future__ import annotations

from typing import Literal, Protocol

from a3s_code.core.content import AttachmentRef


class Blobs(Protocol):
    """Both methods block: call them in a worker thread. ``StoreError`` (``IO_ERROR``) when the disk fails."""

    def put(self, data: bytes, kind: Literal["image", "text"], media_type: str, name: str = "") -> AttachmentRef: ...

    def load(self, ref: AttachmentRef) -> bytes: ...
