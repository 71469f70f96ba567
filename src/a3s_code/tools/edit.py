"""The ``edit`` tool (tools.md §3.3). In: a path, the old text and the new. Out: the file with the old text replaced.

One rule: every byte outside the replaced regions stays, whatever the file's encoding and line ends; a failure writes
nothing.
Known weakness: UTF-32 with numbers beyond Unicode is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from a3s_code.core.content import Json, JsonObject
from a3s_code.core.text import edit
from a3s_code.core.text.change import Before, Change, file_change
from a3s_code.core.text.clip import clip_chars
from a3s_code.core.text.encoding import Decoded, decode, encodable, encode, shown
from a3s_code.ports.tool import ToolCapabilities, ToolContext, ToolFailure, ToolOutput
from a3s_code.ports.workspace import Place, Workspace
from a3s_code.tools.args import flag, optional_integer, text
from a3s_code.tools.files import MIB, read_bytes
from a3s_code.tools.specs import EDIT

_LIMIT: Final = 10 * MIB
_DIFF_LINES: Final = 200
_DIFF_BYTES: Final = 64 * 1024
_REGION_CHARS: Final = 300


class EditTool:
    name, description, parameters = EDIT.name, EDIT.description, EDIT.parameters

    def capabilities(self, args: Mapping[str, Json]) -> ToolCapabilities:
        if flag(args, "dry_run"):
            return ToolCapabilities(
                read_only=True, idempotent=True, cancellation_safe=True, max_parallelism=16, output_kind="diff"
            )
        return ToolCapabilities(output_kind="diff")

    def execute(self, args: JsonObject, ctx: ToolContext) -> ToolOutput:
        if text(args, "old_string") == text(args, "new_string"):
            raise ToolFailure("invalid_argument", "old_string and new_string are equal")
        place = ctx.workspace.locate(text(args, "file_path"))
        dry_run = flag(args, "dry_run")
        with ctx.workspace.exclusive(place):
            count, change = _edit(ctx.workspace, place, args, dry_run)
        done = "Dry run: would replace" if dry_run else "Replaced"
        diff = change.diff.text(_DIFF_LINES, _DIFF_BYTES)[0] if change.diff is not None else ""
        metadata: JsonObject = {
            "path": place.path,
            "replacements": count,
            "dry_run": dry_run,
            "file_change": change.metadata,
        }
        return ToolOutput(
            f"{done} {count} occurrence(s) in {place.path}\n{diff}".rstrip("\n"),
            metadata=metadata,
            artifacts=change.whole,
        )


def _edit(workspace: Workspace, place: Place, args: JsonObject, dry_run: bool) -> tuple[int, Change]:
    found = workspace.stat(place)
    data = read_bytes(workspace, place, _LIMIT)
    file = decode(data)
    old, new = text(args, "old_string"), text(args, "new_string")
    _check_encoding(place, file, new)
    matches = edit.find(file.text, old) if encodable(old) else edit.Found([])
    _check_count(place, file.text, old, matches, args)
    after = encode(edit.replace(file.text, old, new, matches), file)
    if after == data:
        raise ToolFailure("no_match", f"{place.path} has the new text already: only line ends differ in old_string")
    before = Before.of(data)
    if not dry_run:
        workspace.replace(place, after, found, before.sha256)
    return len(matches.regions), file_change(place.path, before, after)


def _check_encoding(place: Place, file: Decoded, new: str) -> None:
    if not file.exact:
        message = f"{place.path} is not valid {file.encoding.upper()}; it can't be edited without changing other bytes"
        raise ToolFailure("unsupported", message)
    if not encodable(new):
        raise ToolFailure("conflict", f"new_string has a lone surrogate, which {file.encoding.upper()} can't hold")


def _check_count(place: Place, content: str, old: str, matches: edit.Found, args: JsonObject) -> None:
    count = len(matches.regions)
    expected, most = optional_integer(args, "expected_replacements"), optional_integer(args, "max_replacements")
    if not count:
        raise ToolFailure("no_match", f"old_string was not found in {place.path}{_nearest(content, old)}")
    if count > 1 and expected is None and not flag(args, "replace_all"):
        lines = ", ".join(str(edit.line_number(content, start)) for start, _ in matches.regions[:5])
        more = ", …" if count > 5 else ""
        message = (
            f"old_string occurs {count} times in {place.path} (lines {lines}{more}); add surrounding lines to make it "
            "unique, or set replace_all or expected_replacements"
        )
        raise ToolFailure("ambiguous", message)
    if expected is not None and count != expected:
        message = f"old_string occurs {count} times in {place.path}, but expected_replacements is {expected}"
        raise ToolFailure("conflict", message)
    if most is not None and count > most:
        message = f"old_string occurs {count} times in {place.path}, but max_replacements is {most}"
        raise ToolFailure("conflict", message)


def _nearest(content: str, old: str) -> str:
    similar = edit.most_similar(content, old)
    if similar is None:
        return ""
    first, lines = similar
    numbered = [f"{number:>6}\t{clip_chars(shown(line), _REGION_CHARS)}" for number, line in enumerate(lines, first)]
    return "\n".join(["\nMost similar region:", *numbered])
