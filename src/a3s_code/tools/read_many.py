"""Several files in one ``read`` (tools.md §3.1, ``files``). In: members and a byte budget. Out: one text, and what to
ask for next.

One rule: members come in request order; the first that has to be cut ends the page, and ``continuation`` names it and
all after it.
Known weakness: a continuation too long for the text (many long paths) stands in the metadata only.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from a3s_code.core.content import Json, JsonObject
from a3s_code.ports.tool import ToolFailure, ToolOutput
from a3s_code.ports.workspace import Workspace
from a3s_code.tools.args import integer, text
from a3s_code.tools.files import MIB, one_line, read_bytes
from a3s_code.tools.pages import Page, TextFile, check_offset, image_type, page, text_file
from a3s_code.tools.specs import READ_LINES

READ_LIMIT = 50 * MIB
_ANY_OFFSET = READ_LIMIT  # no file that is read has more lines


class Member(msgspec.Struct, frozen=True):
    path: str
    offset: int = 0
    limit: int = READ_LINES

    @classmethod
    def of(cls, item: JsonObject) -> Member:
        return cls(text(item, "path"), integer(item, "offset", 0), integer(item, "limit", READ_LINES))

    def as_json(self) -> JsonObject:
        return {"path": self.path, "offset": self.offset, "limit": self.limit}


class _Block(msgspec.Struct, frozen=True):
    """What one member adds; ``left`` is what remains of it when the budget cut it."""

    text: str
    entry: JsonObject
    left: Member | None = None


def read_many(workspace: Workspace, members: Sequence[Member], budget: int) -> ToolOutput:
    blocks: list[_Block] = []
    unfinished: list[Member] = []
    used = 0
    for at, member in enumerate(members):
        rest = members[at + 1 :]
        cut = msgspec.structs.replace(member, offset=_ANY_OFFSET)
        room = budget - used - _size(_tail(rest, len(members), budget))
        room_if_cut = budget - used - _size(_tail([cut, *rest], len(members), budget))
        block = _block(workspace, member, room, room_if_cut, first=not blocks)
        if block is None:
            unfinished = [member, *rest]
            break
        blocks.append(block)
        used += _size(block.text) + 1
        if block.left is not None:
            unfinished = [block.left, *rest]
            break
    return _output(blocks, unfinished, _tail(unfinished, len(members), budget))


def _output(blocks: Sequence[_Block], unfinished: Sequence[Member], tail: str) -> ToolOutput:
    output = "\n".join(block.text for block in blocks)
    if tail:
        output += f"\n{tail}"
    entries: list[Json] = [block.entry for block in blocks]
    continuation: list[Json] = [member.as_json() for member in unfinished]
    batch: JsonObject = {"files": entries, "truncated": bool(unfinished), "continuation": continuation}
    kinds = [kind for block in blocks if isinstance(kind := block.entry["error_kind"], str)]
    if len(kinds) == len(blocks) and not unfinished:
        return ToolOutput(output, 1, {"batch": batch}, error_kind=kinds[0])
    return ToolOutput(output, metadata={"batch": batch})


def _tail(unfinished: Sequence[Member], members: int, budget: int) -> str:
    """The continuation as text: it must leave most of the budget to the files."""
    if not unfinished:
        return ""
    ahead = f"[{len(unfinished)} of {members} files unfinished; continue with "
    full = f"{ahead}files {msgspec.json.encode([member.as_json() for member in unfinished]).decode()}]"
    return full if _size(full) <= budget // 3 else f"{ahead}the files above, from the last one shown]"


def _block(workspace: Workspace, member: Member, room: int, room_if_cut: int, first: bool) -> _Block | None:
    """``None`` when not even a header and a line fit; the first member always gets a line."""
    try:
        file = _load(workspace, member)
        block = _lines(file, member, room, room_if_cut, first)
    except ToolFailure as error:
        block = _failed(member, error)
    if block is not None and _size(block.text) + 1 > (room if block.left is None else room_if_cut):
        block = None
    if block is None and first:
        raise ToolFailure("limit_exceeded", f"max_output_bytes is too small for the path {member.path[:100]}")
    return block


def _load(workspace: Workspace, member: Member) -> TextFile:
    place = workspace.locate(member.path)
    data = read_bytes(workspace, place, READ_LIMIT)
    if image_type(place.path, data) is not None:
        raise ToolFailure("unsupported", f"{place.path} is an image; read it alone, with file_path")
    file = text_file(place.path, data)
    check_offset(file, member.offset)
    return file


def _lines(file: TextFile, member: Member, room: int, room_if_cut: int, first: bool) -> _Block | None:
    # Beside the lines: the header, its line end, the line end before the blank line and the one after it.
    frame = _size(_header(file, file.total, file.total)) + 3
    if room_if_cut < frame:
        return None
    shown = page(file, member.offset, member.limit, room - frame, room_if_cut - frame, at_least_one=first)
    wanted = min(member.limit, file.total - member.offset)
    got = len(shown.lines)
    left = None
    if got < wanted:
        if not got:
            return None
        left = Member(member.path, shown.end, member.limit - got)
    lines = shown.lines or [f"[end of file: {file.total} lines]" if file.total else "[empty file]"]
    header = _header(file, shown.start + 1 if got else 0, shown.end if got else 0)
    return _Block("\n".join([header, *lines, ""]), _entry(file, shown), left)


def _header(file: TextFile, first: int, last: int) -> str:
    return f"==> {one_line(file.path)} (lines {first}-{last} of {file.total}) <=="


def _entry(file: TextFile, shown: Page) -> JsonObject:
    return {
        "path": file.path,
        "ok": True,
        "error_kind": None,
        "start_line": shown.start + 1 if shown.lines else None,
        "end_line": shown.end if shown.lines else None,
        "total_lines": file.total,
        "next_offset": shown.end if shown.end < file.total else None,
    }


def _failed(member: Member, error: ToolFailure) -> _Block:
    entry: JsonObject = {
        "path": member.path,
        "ok": False,
        "error_kind": error.kind,
        "start_line": None,
        "end_line": None,
        "total_lines": None,
        "next_offset": None,
    }
    return _Block(f"==> {one_line(member.path)} <==\nerror: {one_line(error.message)}\n", entry)


def _size(text: str) -> int:
    return len(text.encode("utf-8", "replace"))
