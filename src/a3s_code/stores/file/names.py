"""Where a file store keeps what. In: kinds and ids. Out: paths.

One rule: an id decides its file's name alone, and no id leads out of the directory.
Known weakness: names differ in case, so a file system that ignores case can't tell some ids apart: reading one that
another id wrote over is an error.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
from typing import Final

from a3s_code.stores.transaction import Kind

LONGEST: Final = 200
"""Bytes of a name, without its suffix, before its digest is taken instead."""

STRIPES: Final = 64

DIRECTORIES: Final[dict[Kind, str]] = {
    "session": "sessions",
    "checkpoint": "loop_checkpoints",
    "run": "runs",
    "workflow": "workflows",
    "lease": "leases",
    "inbox": "control",
}


def name_of(key: str) -> str:
    name = "id_" + base64.urlsafe_b64encode(key.encode()).decode().rstrip("=")
    return name if len(name) <= LONGEST else "h_" + hashlib.sha256(key.encode()).hexdigest()


def key_of(name: str) -> str | None:
    """The id that a file's name tells; ``None`` for a digest, and for a name that no id has."""
    if not name.startswith("id_"):
        return None
    text = name[3:]
    try:
        key = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode()
    except (binascii.Error, ValueError):
        return None
    return key if name_of(key) == name else None


class Layout:
    def __init__(self, root: str) -> None:
        self.root = os.path.join(root, "v1")
        self.of_session = os.path.join(self.root, "of_session")
        self._top = root

    def owns(self, path: str) -> bool:
        """Whether it is the store's directory, or in it."""
        return os.path.commonpath([self._top, path]) == self._top

    def directory(self, kind: Kind) -> str:
        return os.path.join(self.root, DIRECTORIES[kind])

    def document(self, kind: Kind, key: str) -> str:
        return os.path.join(self.directory(kind), name_of(key) + ".json")

    def facts(self, session_id: str) -> str:
        return os.path.join(self.root, "loop_checkpoints", "facts", name_of(session_id) + ".facts")

    def marks(self, session_id: str) -> str:
        """A directory with an empty file for each run document of a session."""
        return os.path.join(self.of_session, name_of(session_id))

    def mark(self, kind: Kind, key: str, session_id: str) -> str:
        return os.path.join(self.marks(session_id), f"{kind}-{name_of(key)}")

    def stripe(self, lock: str) -> str:
        """The lock file of a lock: locks share a few files, which are never removed."""
        number = hashlib.sha256(lock.encode()).digest()[0] % STRIPES
        return os.path.join(self.root, "locks", f"{number:02x}")
