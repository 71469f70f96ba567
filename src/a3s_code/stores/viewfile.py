"""The file of a shortcut. In: bytes. Out: the same bytes, or nothing.

One rule: replaced in whole, and never an error: whoever can't read or write it folds the log.
Known weakness: not synced; after a power cut the older one, or none, may be there.
"""

from __future__ import annotations

import logging
import os

from a3s_code.stores.disk import disk, write_new

_log = logging.getLogger("a3s_code")


def read_view(path: str) -> bytes | None:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return None


def write_view(path: str, data: bytes) -> None:
    where, part = disk(), f"{path}.part-{os.getpid()}"
    try:
        write_new(where, part, data, sync=False)
        where.rename(part, path)
    except OSError as error:
        _log.warning("%s: the shortcut could not be written: %s", path, error)
