"""The ``read`` tool and raw reading (tools.md §3.1). In: a path and a range, or several. Out: numbered lines.

One rule: the output depends on the content of the files and the arguments only.
Known weakness: none known.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Final

from a3s_code.core.content import Json, JsonObject
from a3s_code.ports.tool import Attachment, ToolCapabilities, ToolContext, ToolFailure, ToolOutput
from a3s_code.ports.workspace import Place, Workspace
from a3s_code.tools.args import integer, text
from a3s_code.tools.files import MIB, read_bytes
from a3s_code.tools.pages import TextFile, check_offset, image_type, line_start, page, text_file
from a3s_code.tools.read_many import READ_LIMIT, Member, read_many
from a3s_code.tools.specs import READ, READ_BYTES, READ_LINES

_IMAGE_LIMIT: Final = 5 * MIB
_MANY_BUDGET: Final = 65_536


class ReadTool:
    name, description, parameters = READ.name, READ.description, READ.parameters

    def capabilities(self, args: Mapping[str, Json]) -> ToolCapabilities:
        return ToolCapabilities(
            read_only=True, idempotent=True, cancellation_safe=True, pagination=True, max_parallelism=16
        )

    def execute(self, args: JsonObject, ctx: ToolContext) -> ToolOutput:
        named = [key for key in ("file_path", "path", "files") if args.get(key) is not None]
        if len(named) != 1:
            given = f" ({', '.join(named)} were given)" if named else ""
            raise ToolFailure("invalid_argument", f"Give exactly one of file_path and files{given}")
        files = args.get("files")
        if isinstance(files, list):
            members = [Member.of(item) for item in files if isinstance(item, dict)]
            return read_many(ctx.workspace, members, integer(args, "max_output_bytes", _MANY_BUDGET))
        place = ctx.workspace.locate(text(args, named[0]))
        data = read_bytes(ctx.workspace, place, READ_LIMIT)
        if (media_type := image_type(place.path, data)) is not None:
            return _image(place, media_type, data)
        offset, limit = integer(args, "offset", 0), integer(args, "limit", READ_LINES)
        return _one(text_file(place.path, data), offset, limit, integer(args, "max_output_bytes", READ_BYTES))


def read_raw(workspace: Workspace, path: str, offset: int = 0, limit: int | None = None) -> str:
    """The exact text of the selected lines, terminators included and without a BOM; the rest of the file when there
    is no ``limit``. Undecodable bytes are U+FFFD. Images are ``unsupported``; else the failures of ``read``."""
    if offset < 0 or (limit is not None and limit < 0):
        raise ToolFailure("invalid_argument", "offset and limit must not be negative")
    place = workspace.locate(path)
    data = read_bytes(workspace, place, READ_LIMIT)
    if (media_type := image_type(place.path, data)) is not None:
        raise ToolFailure("unsupported", f"{place.path} is an image ({media_type}); use the read tool")
    file = text_file(place.path, data)
    check_offset(file, offset)
    start = line_start(file.text, offset)
    rest = file.text[start:]
    return rest if limit is None else rest[: line_start(rest, limit)]


def _image(place: Place, media_type: str, data: bytes) -> ToolOutput:
    if len(data) > _IMAGE_LIMIT:
        message = f"{place.path} is an image of {len(data)} bytes; the limit is {_IMAGE_LIMIT}"
        raise ToolFailure("limit_exceeded", message)
    metadata: JsonObject = {
        "path": place.path,
        "media_type": media_type,
        "bytes": len(data),
        "sha256": hashlib.sha256(data).hexdigest(),
    }
    output = f"[image {place.path}: {media_type}, {len(data)} bytes]"
    return ToolOutput(output, metadata=metadata, attachments=(Attachment(media_type, data),))


def _one(file: TextFile, offset: int, limit: int, budget: int) -> ToolOutput:
    check_offset(file, offset)
    longest = _footer(file.total, file.total, file.total)
    shown = page(file, offset, limit, budget, budget - len(longest) - 1)
    more = shown.end < file.total
    if shown.lines:
        output = "\n".join(shown.lines)
        if more:
            output += "\n" + _footer(shown.start + 1, shown.end, file.total)
    else:
        output = f"[end of file: {file.total} lines]" if file.total else "[empty file]"
    metadata: JsonObject = {
        "path": file.path,
        "encoding": file.decoded.encoding,
        "bom": bool(file.decoded.bom),
        "newline": file.newline,
        "lossy": file.decoded.lossy,
        "total_lines": file.total,
        "start_line": shown.start + 1 if shown.lines else None,
        "end_line": shown.end if shown.lines else None,
        "offset": offset,
        "limit": limit,
        "truncated": more,
        "next_offset": shown.end if more else None,
        "bytes": file.bytes,
        "sha256": file.sha256,
    }
    return ToolOutput(output, metadata=metadata)


def _footer(first: int, last: int, total: int) -> str:
    return f"[lines {first}-{last} of {total}; continue with offset {last}]"
