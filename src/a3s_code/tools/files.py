"""What the file tools share. In: a workspace and a path. Out: a file's bytes, or a failure that helps.

One rule: at most the limit is read, however long the file is or becomes.
Known weakness: similar names are looked for among the first 2,000 entries of the directory only.
"""

from __future__ import annotations

import difflib
import hashlib

from a3s_code.core.text.change import COMPARED_BYTES, Before
from a3s_code.core.text.encoding import shown
from a3s_code.ports.tool import ToolFailure
from a3s_code.ports.workspace import Place, Workspace

MIB = 1024 * 1024
_ENTRIES = 2000
_CHUNK = MIB


def read_bytes(workspace: Workspace, place: Place, limit: int) -> bytes:
    """The whole file; ``limit_exceeded`` when it has more than ``limit`` bytes."""
    try:
        with workspace.open(place) as stream:
            data = stream.read(limit + 1)
    except ToolFailure as error:
        raise helpful(workspace, place, error) from error
    except OSError as error:
        raise ToolFailure("internal", f"Reading {place.path} failed: {error.strerror}") from error
    if len(data) > limit:
        size = max(workspace.stat(place).size, len(data))
        raise ToolFailure("limit_exceeded", f"{place.path} has {size} bytes; the limit is {limit}")
    return data


def read_before(workspace: Workspace, place: Place) -> Before:
    """The file that a write is about to replace, of any size; only what is compared is kept in memory."""
    with workspace.open(place) as stream:
        data = stream.read(COMPARED_BYTES)
        digest, size = hashlib.sha256(data), len(data)
        while chunk := stream.read(_CHUNK):
            digest.update(chunk)
            size += len(chunk)
    return Before(data, size, digest.hexdigest())


def helpful(workspace: Workspace, place: Place, error: ToolFailure) -> ToolFailure:
    """The failure of an ``open`` with what the caller may do about it."""
    if error.kind == "not_found":
        names = similar(workspace, place)
        hint = f"; similar names: {', '.join(names)}" if names else ""
        return ToolFailure("not_found", f"File not found: {place.path}{hint}")
    if error.kind == "unsupported" and workspace.stat(place).kind == "dir":
        return ToolFailure("unsupported", f"{place.path} is a directory; list it with ls")
    return error


def similar(workspace: Workspace, place: Place) -> list[str]:
    """Up to three existing paths beside ``place`` that are spelt much like it."""
    parent, _, name = place.path.rpartition("/")
    real = place.real.rpartition("/")[0]
    try:
        entries = workspace.entries(Place(parent or ".", real or "."))[:_ENTRIES]
    except ToolFailure:
        return []
    by_fold: dict[str, str] = {}
    for entry in entries:
        by_fold.setdefault(entry.name.casefold(), entry.name)
    close = difflib.get_close_matches(name.casefold(), by_fold, n=3)
    return [one_line(f"{parent}/{by_fold[fold]}" if parent else by_fold[fold]) for fold in close]


def one_line(name: str) -> str:
    """A file name that stays on its line: control characters are escaped, undecodable bytes are U+FFFD."""
    name = shown(name)
    if name.isprintable():
        return name
    return "".join(c if c >= " " and c != "\x7f" else f"\\x{ord(c):02x}" for c in name)
