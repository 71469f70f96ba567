"""Another log in the place of a session's (facts.md, *Resume*). In: a header and raw lines. Out: the new file.

One rule: the old file is kept beside the new one, and no moment is without a whole log.
Known weakness: none known.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence

from a3s_code.core.codec import Header, encode_header
from a3s_code.stores.appender import failed
from a3s_code.stores.disk import Disk, disk, make_private_directory, sync_directory, write_all
from a3s_code.stores.lock import leave, open_locked
from a3s_code.stores.scan import next_free


def replace_log(path: str, header: Header, lines: Sequence[bytes]) -> str | None:
    """Begins the log at ``path`` anew with ``lines``, which have no line ends. Gives the name under which the file
    that was there is kept (``<thread>.replaced-<n>``). ``SessionBusy`` while a session writes it."""
    where = disk()
    holder = path.removesuffix(".jsonl") + ".lock"
    entries: list[str] = []
    try:
        make_private_directory(where, os.path.dirname(path), entries)
        fd = open_locked(where, path, os.O_RDWR | os.O_CREAT, holder)
        try:
            kept_as = _replace(where, path, header, lines, was_empty=where.stat(fd).st_size == 0)
            for directory in (os.path.dirname(path), *entries):
                sync_directory(where, directory)
        finally:
            leave(where, fd, holder)
            where.close(fd)
    except OSError as error:
        raise failed(path, "could not be replaced", error) from error
    return kept_as


def _replace(where: Disk, path: str, header: Header, lines: Sequence[bytes], *, was_empty: bool) -> str | None:
    new = path + ".rebuilt"
    with contextlib.suppress(FileNotFoundError):
        where.unlink(new)  # left by a process that was killed
    out = where.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND)
    try:
        write_all(where, out, encode_header(header) + b"".join(line + b"\n" for line in lines))
        where.fdatasync(out)
    finally:
        where.close(out)
    kept_as = None if was_empty else next_free(path, "replaced")
    if kept_as is not None:
        where.link(path, kept_as)
    where.rename(new, path)
    return kept_as
