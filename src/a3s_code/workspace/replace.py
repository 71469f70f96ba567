"""Writing a whole file at once (tools.md §4.6). In: a real path below the root and the new bytes. Out: the old file
or the new one, never a mixture.

One rule: the content is complete and on the disk in a temporary file of the same directory before its name changes;
until then every failure removes what was made.
Known weakness: between the last look at the old file and the rename another process may still change it. A process
that is killed in between leaves a file ``.a3s-tmp-<pid>-<n>``.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
import stat

from a3s_code.ports.tool import ToolFailure
from a3s_code.ports.workspace import Place, Stat
from a3s_code.workspace.directory import CREATE, READ, Directory, descend

_numbers = itertools.count()
_CHUNK = 1 << 20


def replace_file(root: str, place: Place, data: bytes, expect: Stat | None, expect_sha256: str | None) -> None:
    """Raises ``OSError`` or ``ToolFailure``; then nothing has changed."""
    if place.real == ".":
        raise is_directory(place)
    *parents, name = place.real.split("/")
    with contextlib.ExitStack() as handles, contextlib.ExitStack() as undo:
        if expect is None or expect.kind == "missing":
            directory = _make_parents(root, parents, place, undo, handles)
        else:
            directory = handles.enter_context(descend(root, parents))
        old = _open_old(directory, name, place)
        if old is not None:
            handles.callback(os.close, old)
        seen = None if old is None else os.fstat(old)
        _check_expected(seen, place, expect)
        temporary = _write_temporary(directory, data, old, undo)
        if not _is_unchanged(directory, name, seen) or not (old is None or _has_digest(old, expect_sha256)):
            raise changed(place)
        with descend(root, parents) as now:
            if not now.is_same(directory):
                raise changed(place)
        directory.rename(temporary, name)
        undo.pop_all()
        # The new content stands from here on: a directory that can't be synced is no reason to report a failure.
        with contextlib.suppress(OSError):
            directory.sync()


def is_directory(place: Place) -> ToolFailure:
    return ToolFailure("unsupported", f"{place.path} is a directory")


def changed(place: Place) -> ToolFailure:
    return ToolFailure("conflict", f"{place.path} changed since it was looked at; nothing was written")


def _make_parents(
    root: str, parents: list[str], place: Place, undo: contextlib.ExitStack, handles: contextlib.ExitStack
) -> Directory:
    here = handles.enter_context(Directory.root(root))
    for name in parents:
        try:
            below = here.child(name)
        except FileNotFoundError:
            with contextlib.suppress(FileExistsError):
                here.make(name)
                undo.callback(_remove_directory, here, name)
            below = here.child(name)
            with contextlib.suppress(OSError):  # as for the file's own directory below
                here.sync()
        except NotADirectoryError:
            raise ToolFailure("unsupported", f"A parent of {place.path} is not a directory: {name}") from None
        here = handles.enter_context(below)
    return here


def _open_old(directory: Directory, name: str, place: Place) -> int | None:
    """The file that stands there, opened for reading; ``None`` when there is none."""
    try:
        found = directory.stat(name)
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(found.st_mode):
        raise is_directory(place)
    if not (stat.S_ISREG(found.st_mode) or stat.S_ISLNK(found.st_mode)):
        raise ToolFailure("unsupported", f"{place.path} is not a regular file")
    fd = directory.open(name, READ)
    try:
        # The superuser may write any file; a file on which nobody may is still meant to be kept.
        if not (found.st_mode & 0o222 and directory.may_write(name)):
            raise ToolFailure("unsupported", f"{place.path} is read-only")
    except BaseException:
        os.close(fd)
        raise
    return fd


def _check_expected(seen: os.stat_result | None, place: Place, expect: Stat | None) -> None:
    if expect is None:
        return
    if seen is None:
        if expect.kind != "missing":
            raise changed(place)
        return
    before = (expect.kind, expect.device, expect.inode, expect.size, expect.mtime_ns)
    if before != ("file", seen.st_dev, seen.st_ino, seen.st_size, seen.st_mtime_ns):
        raise changed(place)


def _write_temporary(directory: Directory, data: bytes, old: int | None, undo: contextlib.ExitStack) -> str:
    """The name of a complete file; ``undo`` removes it."""
    while True:
        name = f".a3s-tmp-{os.getpid()}-{next(_numbers)}"
        try:
            # Nobody may read it before the old file's mode is copied; a new file has what the umask leaves.
            fd = directory.open(name, CREATE, 0o666 if old is None else 0o600)
            break
        except FileExistsError:
            continue  # left by a killed process that had our id
    undo.callback(_remove_file, directory, name)
    try:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(fd, rest) :]
        if old is not None:
            _copy_attributes(old, fd)
        os.fsync(fd)
    finally:
        os.close(fd)
    return name


def _copy_attributes(old: int, new: int) -> None:
    """Owner, mode bits and extended attributes; what the system doesn't permit is left out, but for the mode."""
    source, target = os.fstat(old), os.fstat(new)
    mode = stat.S_IMODE(source.st_mode)
    if (source.st_uid, source.st_gid) != (target.st_uid, target.st_gid):
        try:
            os.fchown(new, source.st_uid, source.st_gid)
        except OSError:
            mode &= 0o777  # a set-id bit would now speak for another owner
    if hasattr(os, "listxattr"):
        with contextlib.suppress(OSError):
            for attribute in os.listxattr(old):
                with contextlib.suppress(OSError):
                    os.setxattr(new, attribute, os.getxattr(old, attribute))
    os.fchmod(new, mode)


def _is_unchanged(directory: Directory, name: str, seen: os.stat_result | None) -> bool:
    try:
        now = directory.stat(name)
    except FileNotFoundError:
        return seen is None
    if seen is None:
        return False
    return os.path.samestat(now, seen) and (now.st_size, now.st_mtime_ns) == (seen.st_size, seen.st_mtime_ns)


def _has_digest(fd: int, sha256: str | None) -> bool:
    if sha256 is None:
        return True
    digest = hashlib.sha256()
    while chunk := os.read(fd, _CHUNK):
        digest.update(chunk)
    return digest.hexdigest() == sha256


def _remove_file(directory: Directory, name: str) -> None:
    with contextlib.suppress(OSError):  # the failure that brought us here is the one to report
        directory.unlink(name)


def _remove_directory(directory: Directory, name: str) -> None:
    with contextlib.suppress(OSError):
        directory.remove_directory(name)
