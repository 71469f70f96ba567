"""What a path names (tools.md §4.1). In: the workspace's root and a path as a model or host wrote it. Out: the
lexical and the real path below the root.

One rule: a path is accepted or refused, never rewritten into another one.
Known weakness: what a link points to may change after it was looked at; whoever opens the real path follows no link.

Names that mean something else on Windows (``a:b``, a trailing dot or blank, drives, ``\\\\host``) are refused on every
system, but where this one has a file of just that name, which then is an ordinary one.
"""

from __future__ import annotations

import os
import re
import stat
import unicodedata

from a3s_code.ports.tool import ToolFailure
from a3s_code.ports.workspace import Place

_MAX_PATH = 4096
_MAX_NAME = 255
# A drive, a stream, a rooted or UNC form, a name that Windows would shorten. `file:` alone (of `file://`) is a name.
_WINDOWS = re.compile(r"[A-Za-z]:|\\|[^/]*:[^/]|.*[. ]\Z", re.DOTALL)
_DEVICES = r"(?i)(con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?\Z"


def locate(root: str, path: str) -> Place:
    """The place of ``path``; ``root`` is a real path."""
    _check_form(path)
    if os.path.isabs(path):
        relative = None if path.startswith("//") else relative_to(root, os.path.normpath(path))
        names = relative
    else:
        relative = relative_to(root, os.path.normpath(f"{root}/{path}"))
        names = path
    if relative is None or names is None:
        raise outside(path)
    if any(map(_is_windows_form, names.split("/"))) and (os.name == "nt" or not os.path.lexists(f"{root}/{relative}")):
        raise ToolFailure("path_denied", f"Path has a form that Windows reads differently: {path}")
    real = _real(root, relative)
    if real is None:
        raise outside(path)
    return Place(relative, real)


def outside(path: str) -> ToolFailure:
    return ToolFailure("path_denied", f"Path is outside the workspace: {path}")


def _check_form(path: str) -> None:
    if not path:
        raise ToolFailure("invalid_argument", "The path is empty")
    if "\0" in path:
        raise ToolFailure("invalid_argument", "The path contains a NUL character")
    try:
        size = len(path.encode("utf-8"))
    except UnicodeEncodeError:
        raise ToolFailure("invalid_argument", "The path contains a lone surrogate") from None
    if size > _MAX_PATH:
        raise ToolFailure("invalid_argument", f"The path has {size} bytes; at most {_MAX_PATH} are allowed")
    if size > _MAX_NAME and any(len(name.encode("utf-8")) > _MAX_NAME for name in path.split("/")):
        raise ToolFailure("invalid_argument", f"A name in the path has more than {_MAX_NAME} bytes")


def _is_windows_form(name: str) -> bool:
    if name in (".", ".."):
        return False
    return _WINDOWS.match(name) is not None or (os.name == "nt" and re.match(_DEVICES, name) is not None)


def relative_to(root: str, path: str) -> str | None:
    """The part of the normalised ``path`` below ``root`` (``.`` for the root), or ``None`` outside. Another spelling
    of the root counts when it is the same directory: a link to it, or other case where case does not matter."""
    if os.sep != "/":
        path = path.replace(os.sep, "/")
    if path == root:
        return "."
    prefix = root if root.endswith("/") else f"{root}/"
    if path.startswith(prefix):
        return path[len(prefix) :]
    return _below_another_spelling(root, path)


def _below_another_spelling(root: str, path: str) -> str | None:
    try:
        wanted = os.stat(root)
    except OSError:
        return None
    names = path.split("/")
    for length in range(len(names), 0, -1):
        prefix = "/".join(names[:length]) or "/"
        try:
            same = os.path.samestat(os.stat(prefix), wanted)
        except (OSError, ValueError):
            same = unicodedata.normalize("NFC", prefix) == unicodedata.normalize("NFC", root)
        if same:
            return "/".join(names[length:]) or "."
    return None


def _real(root: str, relative: str) -> str | None:
    """``relative`` with every existing link resolved; ``None`` when that leads out."""
    if relative == ".":
        return relative
    current = root
    for name in relative.split("/"):
        current = f"{current}/{name}"
        try:
            mode = os.lstat(current).st_mode
        except OSError:
            return relative  # nothing there (or nothing to be seen): the walk without links has the last word
        if stat.S_ISLNK(mode):
            return relative_to(root, os.path.realpath(f"{root}/{relative}"))
    return relative
