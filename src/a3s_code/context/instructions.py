"""The AGENTS.md chain (extensions.md §6.2). In: a workspace and limits. Out: one text, its sources and warnings.

One rule: later text is more local and wins; only regular UTF-8 files count, links never.
Known weakness: the chain is read when a session starts; later edits show in the next session.
"""

from __future__ import annotations

import codecs
import os
import stat
from collections.abc import Sequence

import msgspec

DEFAULT_MAX_BYTES = 32_768
HIGHEST_MAX_BYTES = 1024 * 1024
DEFAULT_USER_DIR = "~/.a3s"
_NAMES = ("AGENTS.override.md", "AGENTS.md")


class Instructions(msgspec.Struct, frozen=True):
    """``text`` is labelled and empty when there is nothing. ``sources`` are the labels, in order: no machine's own
    paths, so that the same project gives the same bytes everywhere."""

    text: str = ""
    sources: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def load_instructions(
    workspace: str,
    *,
    user_dir: str | os.PathLike[str] | None = None,
    max_bytes: int | None = None,
    fallback_names: Sequence[str] = (),
) -> Instructions:
    """Reads the personal document, then one document a directory from the Git root down to ``workspace``.

    ``user_dir`` defaults to ``~/.a3s``; ``max_bytes`` (32768, at most 1 MiB) is shared by all, 0 disables everything.
    """
    warnings: list[str] = []
    left = DEFAULT_MAX_BYTES if max_bytes is None else max_bytes
    if left > HIGHEST_MAX_BYTES:
        warnings.append(f"project_doc_max_bytes {left} is above the highest value; {HIGHEST_MAX_BYTES} is used")
        left = HIGHEST_MAX_BYTES
    names = (*_NAMES, *_usable(fallback_names, warnings))
    if left <= 0:
        return Instructions(warnings=tuple(warnings))
    places: list[tuple[str, str, tuple[str, ...]]] = [
        ("personal", os.path.expanduser(user_dir or DEFAULT_USER_DIR), _NAMES)
    ]
    places += [(label, directory, names) for label, directory in _project_directories(os.path.realpath(workspace))]
    parts: list[str] = []
    sources: list[str] = []
    for label, directory, candidates in places:
        if left <= 0:
            break
        found = _first_document(directory, candidates, left)
        if found is None:
            continue
        name, text, size, cut = found
        source = f"{label}/{name}" if label else name
        if cut:
            warnings.append(f"{source} does not fit into project_doc_max_bytes and was cut")
        left = 0 if cut else left - size
        parts.append(f"--- {source} ---\n{text.strip()}")
        sources.append(source)
    return Instructions("\n\n".join(parts), tuple(sources), tuple(warnings))


def _usable(names: Sequence[str], warnings: list[str]) -> list[str]:
    usable = []
    for name in names:
        if not name or name == "." or any(bad in name for bad in ("/", "\\", "..", "\0")):
            warnings.append(f"project_doc_fallback_filenames: {name!r} is not a plain file name and is ignored")
        else:
            usable.append(name)
    return usable


def _project_directories(workspace: str) -> list[tuple[str, str]]:
    """(label, directory) from the Git root down to the workspace; the label is relative to the root."""
    chain = [workspace]
    directory = workspace
    while not _is_git_root(directory):
        parent = os.path.dirname(directory)
        if parent == directory:
            return [("", workspace)]
        directory = parent
        chain.append(directory)
    root = chain[-1]
    return [("" if place == root else os.path.relpath(place, root), place) for place in reversed(chain)]


def _is_git_root(directory: str) -> bool:
    try:
        mode = os.lstat(os.path.join(directory, ".git")).st_mode
    except OSError:
        return False
    return stat.S_ISDIR(mode) or stat.S_ISREG(mode)


def _first_document(directory: str, names: Sequence[str], limit: int) -> tuple[str, str, int, bool] | None:
    """The first candidate that has text: (name, text, bytes, whether it was cut)."""
    for name in names:
        data = _read(os.path.join(directory, name), limit + 1)
        if data is None:
            continue
        cut = len(data) > limit
        decoder = codecs.getincrementaldecoder("utf-8")()
        try:
            text = decoder.decode(data[:limit], final=not cut).removeprefix("\ufeff")
        except UnicodeDecodeError:
            continue
        if text.strip():
            return name, text, len(data), cut
    return None


def _read(path: str, limit: int) -> bytes | None:
    """At most ``limit`` bytes of a regular file that is no link; ``None`` when it can't be read."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        return None
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        chunks = []
        while limit > 0 and (chunk := os.read(descriptor, limit)):
            chunks.append(chunk)
            limit -= len(chunk)
        return b"".join(chunks)
    except OSError:
        return None
    finally:
        os.close(descriptor)
