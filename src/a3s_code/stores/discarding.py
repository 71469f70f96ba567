"""The end of a log. In: a workspace and a session's id. Out: nothing of the session's own under ``.a3s/effect-log``.

One rule: the log goes last and in one step, under its lock: a removal that was cut short left the whole log and can be
repeated.
Known weakness: attachments stay: they are named by their content, so another session's log may refer to them.
"""

from __future__ import annotations

import os
import re
from typing import Final

from a3s_code.core.codec import DamagedLine, decode_header, same_session
from a3s_code.errors import CodeError, StoreError
from a3s_code.stores.appender import failed
from a3s_code.stores.disk import Disk, disk, sync_directory
from a3s_code.stores.factlog import log_path
from a3s_code.stores.lock import leave, open_locked
from a3s_code.stores.scan import raw_lines

_BESIDE: Final = r"{stem}\.(lock|view(\.part-\d+)?|(torn|replaced|damaged)-\d+|jsonl\.(rebuilt|repaired|copy))"


def discard_log(workspace_root: str, session_id: str) -> bool:
    """Removes a session's log and all that was kept beside it; whether there was anything. ``SessionBusy`` names who
    writes the log, ``SESSION_MISMATCH`` a log that says it is another session's; a damaged one is removed."""
    where, path = disk(), log_path(workspace_root, session_id)
    try:
        if where.look(path) is None and not _beside(path):
            return False
        _discard(where, path, session_id)
    except OSError as error:
        raise failed(path, "could not be removed", error) from error
    return True


def _discard(where: Disk, path: str, session_id: str) -> None:
    holder = path.removesuffix(".jsonl") + ".lock"
    fd = open_locked(where, path, os.O_RDWR | os.O_CREAT, holder)  # made anew, it locks what an earlier one left
    try:
        _refuse_another(where, fd, path, session_id)
        for other in _beside(path):
            where.unlink(other)
        where.unlink(path)
        sync_directory(where, os.path.dirname(path))
    except BaseException:
        leave(where, fd, holder)
        raise
    finally:
        where.close(fd)


def _beside(path: str) -> list[str]:
    directory, name = os.path.split(path)
    mine = re.compile(_BESIDE.format(stem=re.escape(name.removesuffix(".jsonl"))))
    try:
        return sorted(os.path.join(directory, found) for found in os.listdir(directory) if mine.fullmatch(found))
    except (FileNotFoundError, NotADirectoryError):
        return []


def _refuse_another(where: Disk, fd: int, path: str, session_id: str) -> None:
    try:
        first = next((text for _, text, _ in raw_lines(where, fd, 0)), b"")
        header = decode_header(first)
    except (DamagedLine, StoreError):
        return  # the file's name alone says whose it is
    if not same_session(header, session_id):
        raise CodeError(f"{path} is the log of session {header.session_id!r}", "SESSION_MISMATCH")
