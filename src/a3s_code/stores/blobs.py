"""Attachments on disk. In: bytes. Out: ports.Blobs over ``<workspace>/.a3s/attachments``.

One rule: a file is named by its content's digest, written whole and never changed.
Known weakness: files that no fact names any more stay.
"""

from __future__ import annotations

import hashlib
import os
from typing import Final, Literal

from a3s_code.core.content import AttachmentRef
from a3s_code.errors import StoreError
from a3s_code.stores.disk import disk, make_private_directory, write_new

DIRECTORY: Final = os.path.join(".a3s", "attachments")
_SUFFIX: Final = {"image/png": ".png", "image/jpeg": ".jpg", "image/gif": ".gif", "image/webp": ".webp"}


class FileBlobs:
    def __init__(self, workspace_root: str) -> None:
        self._root = workspace_root

    def put(self, data: bytes, kind: Literal["image", "text"], media_type: str, name: str = "") -> AttachmentRef:
        digest = hashlib.sha256(data).hexdigest()
        relative = os.path.join(DIRECTORY, digest + _SUFFIX.get(media_type, ".txt"))
        path = os.path.join(self._root, relative)
        where = disk()
        try:
            found = where.look(path)
            if found is None or found.st_size != len(data):
                make_private_directory(where, os.path.dirname(path), [])
                _write(path, data)
        except OSError as error:
            raise StoreError(f"{path}: can't keep an attachment: {error.strerror or error}") from error
        return AttachmentRef(kind, media_type, digest, relative.replace(os.sep, "/"), name)

    def load(self, ref: AttachmentRef) -> bytes:
        path = os.path.join(self._root, *ref.path.split("/"))
        try:
            with open(path, "rb") as file:
                data = file.read()
        except OSError as error:
            raise StoreError(f"{path}: an attachment of the conversation can't be read: {error.strerror}") from error
        if hashlib.sha256(data).hexdigest() != ref.sha256:
            raise StoreError(f"{path}: this attachment was changed since the conversation took it in")
        return data


def _write(path: str, data: bytes) -> None:
    """Under another name first, so that a file with this name is always whole."""
    where = disk()
    part = f"{path}.part-{os.getpid()}"
    if where.look(part) is not None:
        where.unlink(part)
    write_new(where, part, data, sync=True)
    where.rename(part, path)
