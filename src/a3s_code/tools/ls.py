"""The ``ls`` tool (tools.md §3.5). In: a directory. Out: its entries, one a line, by pages.

One rule: entries come in byte order of their names, so a cursor (the last name, percent-encoded) stays right while
the directory changes.
Known weakness: a name that is not UTF-8 is shown with U+FFFD and can't be asked for by that name.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final
from urllib.parse import quote, unquote_to_bytes

from a3s_code.core.content import Json, JsonObject
from a3s_code.core.text.encoding import shown
from a3s_code.ports.tool import ToolCapabilities, ToolContext, ToolFailure, ToolOutput
from a3s_code.ports.workspace import Entry, Place, Workspace
from a3s_code.tools.args import integer, text
from a3s_code.tools.files import one_line, similar
from a3s_code.tools.specs import LS, LS_ENTRIES

_MARKS: Final = {"dir": "/", "symlink": "@"}


class LsTool:
    name, description, parameters = LS.name, LS.description, LS.parameters

    def capabilities(self, args: Mapping[str, Json]) -> ToolCapabilities:
        return ToolCapabilities(
            read_only=True, idempotent=True, cancellation_safe=True, pagination=True, max_parallelism=16
        )

    def execute(self, args: JsonObject, ctx: ToolContext) -> ToolOutput:
        place = ctx.workspace.locate(text(args, "path", "."))
        entries = _entries(ctx.workspace, place)
        after = unquote_to_bytes(text(args, "cursor", ""))
        rest = [entry for entry in entries if os.fsencode(entry.name) > after] if after else entries
        page = rest[: integer(args, "limit", LS_ENTRIES)]
        truncated = len(page) < len(rest)
        cursor = quote(os.fsencode(page[-1].name), safe="") if truncated else None
        lines = [one_line(entry.name) + _MARKS.get(entry.kind, "") for entry in page]
        if truncated:
            lines.append(f"[{len(page)} of {len(entries)} entries; continue with cursor {cursor}]")
        else:
            lines.append(f"{len(entries)} entries")
        listed: list[Json] = [{"name": shown(entry.name), "kind": entry.kind, "size": entry.size} for entry in page]
        metadata: JsonObject = {
            "path": place.path,
            "entries": listed,
            "total": len(entries),
            "truncated": truncated,
            "next_cursor": cursor,
        }
        return ToolOutput("\n".join(lines), metadata=metadata)


def _entries(workspace: Workspace, place: Place) -> list[Entry]:
    try:
        return workspace.entries(place)
    except ToolFailure as error:
        if error.kind != "not_found":
            raise
        names = similar(workspace, place)
        hint = f"; similar names: {', '.join(names)}" if names else ""
        raise ToolFailure("not_found", f"Directory not found: {place.path}{hint}") from None
