"""Operating system errors as tool failures. In: an OSError and the path asked for. Out: a ToolFailure.

One rule: a message names the path as the caller gave it, never a place outside the workspace.
Known weakness: none known.
"""

from __future__ import annotations

import errno
import os

from a3s_code.ports.tool import ToolFailure

_KINDS = {
    errno.EISDIR: "unsupported",
    errno.EACCES: "unsupported",
    errno.EPERM: "unsupported",
    errno.EROFS: "unsupported",
    errno.ENXIO: "unsupported",  # a socket, or a FIFO nobody reads
    errno.ENAMETOOLONG: "invalid_argument",
    errno.EFBIG: "limit_exceeded",
    errno.EDQUOT: "limit_exceeded",
}


def failure(error: OSError, path: str) -> ToolFailure:
    if error.errno == errno.ELOOP:
        return ToolFailure("path_denied", f"Path leads through a link that can't be followed: {path}")
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        return ToolFailure("not_found", f"No such file or directory: {path}")
    reason = os.strerror(error.errno) if error.errno is not None else type(error).__name__
    return ToolFailure(_KINDS.get(error.errno or 0, "internal"), f"{reason}: {path}")
