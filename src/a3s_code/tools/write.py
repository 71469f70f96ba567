"""The ``write`` tool (tools.md §3.2). In: a path and the whole content. Out: a file with exactly these bytes.

One rule: nothing is converted, and a file that has the content already is not touched.
Known weakness: the diff in ``file_change`` is made even when nobody looks at it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from a3s_code.core.content import Json, JsonObject
from a3s_code.core.text.change import file_change
from a3s_code.core.text.encoding import count_lines
from a3s_code.ports.tool import ToolCapabilities, ToolContext, ToolFailure, ToolOutput
from a3s_code.tools.args import text
from a3s_code.tools.files import MIB, read_before
from a3s_code.tools.specs import WRITE

_LIMIT: Final = 10 * MIB


class WriteTool:
    name, description, parameters = WRITE.name, WRITE.description, WRITE.parameters

    def capabilities(self, args: Mapping[str, Json]) -> ToolCapabilities:
        return ToolCapabilities()

    def execute(self, args: JsonObject, ctx: ToolContext) -> ToolOutput:
        content = text(args, "content")
        try:
            data = content.encode("utf-8")
        except UnicodeEncodeError as error:
            message = f"content has a lone surrogate at character {error.start}; it can't be written as UTF-8"
            raise ToolFailure("invalid_argument", message) from None
        if len(data) > _LIMIT:
            raise ToolFailure("limit_exceeded", f"content has {len(data)} bytes; the limit is {_LIMIT}")
        workspace = ctx.workspace
        place = workspace.locate(text(args, "file_path"))
        with workspace.exclusive(place):
            found = workspace.stat(place)
            before = None if found.kind == "missing" else read_before(workspace, place)
            unchanged = before is not None and before.size == len(data) and before.data == data
            if not unchanged:
                workspace.replace(place, data, found, None if before is None else before.sha256)
        lines = count_lines(content)
        done = "Unchanged" if unchanged else "Created" if before is None else "Updated"
        change = file_change(place.path, before, data)
        metadata: JsonObject = {
            "path": place.path,
            "created": before is None,
            "unchanged": unchanged,
            "lines": lines,
            "bytes": len(data),
            "file_change": change.metadata,
        }
        return ToolOutput(
            f"{done} {place.path} ({lines} lines, {len(data)} bytes)", metadata=metadata, artifacts=change.whole
        )
