"""A session's workspace. In: paths as a model or host wrote them. Out: confined file access (tools.md §4).

One rule: a path is located once; every later step works on the located place through no-follow descriptors, so a
component swapped for a link in between fails and never escapes. Every method blocks: call it in a worker thread.
Known weakness: another process may still change a file's content between a read and the check before a write.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import BinaryIO, Literal, Protocol

import msgspec

Kind = Literal["file", "dir", "symlink", "other", "missing"]


class Stat(msgspec.Struct, frozen=True):
    kind: Kind
    size: int = 0
    mode: int = 0
    mtime_ns: int = 0
    inode: int = 0
    device: int = 0
    links: int = 1


class Place(msgspec.Struct, frozen=True):
    """A path inside the workspace. ``path`` is relative to the root, ``/``-separated, without ``.`` or ``..``
    (the root is ``"."``); ``real`` is the same with every existing link resolved."""

    path: str
    real: str


class Entry(msgspec.Struct, frozen=True):
    name: str
    kind: Kind
    size: int = 0
    mtime_ns: int = 0
    links: int = 1
    inode: int = 0
    device: int = 0


class Workspace(Protocol):
    """Every method raises ``ToolFailure`` with the error kinds of tools.md §1.2 and §4."""

    root: str

    def locate(self, path: str) -> Place:
        """The place that ``path`` names, existing or not. ``path_denied`` outside, ``invalid_argument`` malformed."""

    def stat(self, place: Place) -> Stat:
        """Follows links inside the root; ``kind`` is ``missing`` when nothing is there."""

    def open(self, place: Place) -> BinaryIO:
        """A regular file, opened for reading, never blocking on a FIFO or device (``unsupported``,
        ``not_found``)."""

    def entries(self, place: Place) -> list[Entry]:
        """A directory's entries in byte order of names; links are not followed (``unsupported``, ``not_found``)."""

    def exclusive(self, place: Place) -> AbstractContextManager[None]:
        """Held by a tool from its look at a file to the end of its ``replace``, so that mutations of one path within
        this process come one after another. Never hold two."""

    def replace(self, place: Place, data: bytes, expect: Stat | None, expect_sha256: str | None = None) -> None:
        """Writes the whole file as §4.6 says. ``expect`` is what ``stat`` said before (``kind="missing"`` for a
        new file, whose parents are made); another state now is ``conflict`` and nothing is written. With
        ``expect_sha256`` the present content must also have that digest."""

    def walk(self, place: Place) -> Iterator[tuple[str, list[Entry]]]:
        """``place`` and the directories below it, top-down, as (workspace-relative path, entries). A caller may
        remove entries from the list to keep the walk out of them. Never follows links."""

    def credential_inodes(self) -> frozenset[tuple[int, int]]:
        """Device and inode of every credential file below the root that has further names (tools.md §4.2). Walks the
        workspace, without package stores."""
