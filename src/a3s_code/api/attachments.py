"""What a host attaches to a prompt. In: paths or bytes. Out: references to files kept beside the log.

One rule: everything is checked before a fact is written; bytes decide what an image is, not names.
Known weakness: a text file goes to the model whole, whatever that costs.
"""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Mapping, Sequence
from typing import Any, Final

from a3s_code.core.content import AttachmentRef
from a3s_code.engine.parts import Parts
from a3s_code.errors import CodeError
from a3s_code.ports.tool import ToolFailure

MAX_BYTES: Final = 5 * 1024 * 1024
_MAGIC: Final = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)


def keep(parts: Parts, attachments: Sequence[Mapping[str, Any]]) -> tuple[AttachmentRef, ...]:
    """Checks and keeps them all, or raises ``INVALID_REQUEST`` naming the first that can't be taken. Blocks."""
    if isinstance(attachments, (str, bytes, Mapping)) or not isinstance(attachments, Sequence):
        raise _bad("attachments", "expected a list of mappings")
    loaded = [_load(parts, given, f"attachments[{at}]") for at, given in enumerate(attachments)]
    return tuple(_put(parts, *item) for item in loaded)


def _load(parts: Parts, given: Mapping[str, Any], where: str) -> tuple[bytes, str, str]:
    if not isinstance(given, Mapping) or not set(given) <= {"path", "data", "media_type"}:
        raise _bad(where, "expected a mapping with 'path', or with 'data' and 'media_type'")
    if ("path" in given) == ("data" in given):
        raise _bad(where, "expected exactly one of 'path' and 'data'")
    if "path" in given:
        data, name = _read(parts, given["path"], where), os.path.basename(str(given["path"]))
    else:
        data, name = _decoded(given["data"], where), ""
    if len(data) > MAX_BYTES:
        raise _bad(where, f"{len(data)} bytes, more than the {MAX_BYTES} that fit")
    media_type = _image_type(data) or _text_type(data, given.get("media_type"), where)
    return data, media_type, name


def _read(parts: Parts, path: object, where: str) -> bytes:
    if not isinstance(path, (str, os.PathLike)):
        raise _bad(where, f"'path' must be a path, not {type(path).__name__}")
    name = os.fspath(path)
    try:
        if os.path.isabs(name):
            with open(name, "rb") as file:
                return file.read(MAX_BYTES + 1)
        with parts.workspace.open(parts.workspace.locate(name)) as file:
            return file.read(MAX_BYTES + 1)
    except ToolFailure as failure:
        raise _bad(where, failure.message) from None
    except OSError as error:
        raise _bad(where, f"{name}: {error.strerror}") from None


def _decoded(data: object, where: str) -> bytes:
    if isinstance(data, (bytes, bytearray, memoryview)):
        return bytes(data)
    if not isinstance(data, str):
        raise _bad(where, f"'data' must be bytes or base64 text, not {type(data).__name__}")
    try:
        return base64.b64decode(data, validate=True)
    except binascii.Error as error:
        raise _bad(where, f"'data' is not base64: {error}") from None


def _image_type(data: bytes) -> str | None:
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((media_type for magic, media_type in _MAGIC if data.startswith(magic)), None)


def _text_type(data: bytes, said: object, where: str) -> str:
    if isinstance(said, str) and said.startswith("image/"):
        raise _bad(where, f"said to be {said}, but its first bytes are those of no PNG, JPEG, GIF or WebP image")
    try:
        data.decode()
    except UnicodeDecodeError:
        raise _bad(where, "neither a PNG, JPEG, GIF or WebP image nor UTF-8 text") from None
    return said if isinstance(said, str) and said else "text/plain"


def _put(parts: Parts, data: bytes, media_type: str, name: str) -> AttachmentRef:
    return parts.blobs.put(data, "image" if media_type.startswith("image/") else "text", media_type, name)


def _bad(where: str, fault: str) -> CodeError:
    return CodeError(f"{where}: {fault}", "INVALID_REQUEST")
