"""The tool ``search`` (tools.md §3.6). In: an expression, a file pattern or words. Out: pages of matches or files.

One rule: whatever the page, its last line says how much is on it, and the line before how to go on.
Known weakness: binary and large files are listed by ``glob``, which opens no file, and skipped by the other modes.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Mapping
from contextlib import aclosing

import msgspec

from a3s_code.core.content import Json, JsonObject
from a3s_code.ports.process import Processes
from a3s_code.ports.tool import ToolCapabilities, ToolContext, ToolOutput
from a3s_code.tools.search import bm25
from a3s_code.tools.search.apart import Apart
from a3s_code.tools.search.candidates import Candidate, candidates
from a3s_code.tools.search.grep import FileHits, Scan, content_rows
from a3s_code.tools.search.guard import Guard
from a3s_code.tools.search.regex import Expression
from a3s_code.tools.search.request import Request, glob_of, request_of
from a3s_code.tools.search.text import Reader, cut, shown
from a3s_code.tools.specs import SEARCH

_MAX_ANCHORS = 100


class SearchTool:
    """``python`` is the interpreter for expressions that may never end; ``matching_ms`` is what they get."""

    name, description, parameters = SEARCH.name, SEARCH.description, SEARCH.parameters

    def __init__(self, processes: Processes, python: str = sys.executable, *, matching_ms: int = 9_000) -> None:
        self._apart = Apart(processes, python)
        self._matching_ms = matching_ms

    def capabilities(self, args: Mapping[str, Json]) -> ToolCapabilities:
        return ToolCapabilities(
            read_only=True, idempotent=True, cancellation_safe=True, pagination=True, max_parallelism=16
        )

    async def execute(self, args: JsonObject, ctx: ToolContext) -> ToolOutput:
        request = request_of(args)
        guard = Guard(ctx, self._matching_ms)
        try:
            if request.mode == "grep":
                return await self._grep(request, ctx, guard)
            return await asyncio.to_thread(_glob if request.mode == "glob" else _bm25, request, ctx, guard)
        finally:
            guard.abandoned = True  # a thread may still be at work when the caller was cancelled

    async def _grep(self, request: Request, ctx: ToolContext, guard: Guard) -> ToolOutput:
        expression = Expression(request.query, request.ignore_case)
        reader = Reader(ctx.workspace)
        files = await asyncio.to_thread(_candidates, request, ctx, guard, reader)
        page = _Page(request)
        async with aclosing(Scan(expression, reader, self._apart, ctx, guard).hits(files)) as found:
            async for file in found:
                if not page.take(file):
                    break
        return page.output(reader)


def _candidates(request: Request, ctx: ToolContext, guard: Guard, reader: Reader) -> list[Candidate]:
    files, reader.skipped.protected = candidates(ctx.workspace, request.path, request.include, guard.check, ctx.hidden)
    if request.after is None:
        return files
    path, _ = request.after
    start = next((i for i, file in enumerate(files) if file.path == path), None)
    if start is None:  # the file is gone: go on behind its place
        return [file for file in files if os.fsencode(file.path) > os.fsencode(path)]
    return files[start if request.mode == "grep" and request.output_mode == "content" else start + 1 :]


class _Page:
    """What of a grep fits on one page."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self._rows: list[str] = []
        self._anchors: list[Json] = []
        self._matches = self._files = 0
        self._last: tuple[str, int] = ("", 0)
        self._more = False

    def take(self, file: FileHits) -> bool:
        """Adds a file's hits; ``False`` when the page is full and there is more."""
        mode = self._request.output_mode
        if mode == "content":
            self._take_lines(file)
        elif mode != "summary" and self._files == self._request.limit:
            self._more = True
        else:
            self._count(file, file.hits[:1], len(file.hits))
            if mode == "count":
                self._rows.append(f"{shown(file.path)}:{len(file.hits)}")
            elif mode == "files_with_matches":
                self._rows.append(shown(file.path))
        return not self._more

    def _take_lines(self, file: FileHits) -> None:
        hits, start, end = file.hits, 0, len(file.lines)
        after = self._request.after
        if after is not None and after[0] == file.path:
            start = after[1] + 1
            hits = [hit for hit in hits if hit >= start]
        room = self._request.limit - self._matches
        if len(hits) > room:
            self._more = True
            end = hits[room]
            hits = hits[:room]
        if hits:
            if self._rows and self._request.context:
                self._rows.append("--")
            self._rows += content_rows(file, hits, start, end, self._request.context)
            self._count(file, hits, len(hits))

    def _count(self, file: FileHits, anchors: list[int], matches: int) -> None:
        self._matches += matches
        self._files += 1
        self._last = (file.path, anchors[-1])
        if len(self._anchors) < _MAX_ANCHORS:
            self._anchors += [_anchor(file.path, hit + 1, hit + 1) for hit in anchors]

    def output(self, reader: Reader) -> ToolOutput:
        rows, request = self._rows, self._request
        cursor = request.cursor(*self._last) if self._more else None
        if not self._matches and request.after is None:
            rows.append(f"No matches found for pattern: {request.query}")
        else:
            if cursor is not None:
                rows.append(f"[more matches; continue with cursor {cursor}]")
            rows.append(f"{self._matches} match(es) in {self._files} file(s)")
        return _output(rows, request, reader, self._matches, self._files, self._anchors, cursor, cursor is not None)


def _glob(request: Request, ctx: ToolContext, guard: Guard) -> ToolOutput:
    pattern = glob_of("query", request.query, ignore_case=request.ignore_case)
    reader = Reader(ctx.workspace)
    files = _candidates(request, ctx, guard, reader)
    reader.scanned = len(files)
    found = [file for file in files if pattern.matches(file.below)]
    if not request.by_path:
        found.sort(key=lambda file: -file.entry.mtime_ns)  # stable: equal times stay in the order of their paths
    page = found[: request.limit]
    more = len(found) > len(page)
    cursor = request.cursor(page[-1].path) if more and request.by_path else None
    rows = [shown(file.path) for file in page]
    if not rows and request.after is None:
        rows.append(f"No files found matching: {request.query}")
    else:
        if cursor is not None:
            rows.append(f"[more files; continue with cursor {cursor}]")
        elif more:
            rows.append(f"[{len(found) - len(page)} more files; a cursor needs sort 'path']")
        rows.append(f"{len(page)} file(s)")
    return _output(rows, request, reader, len(page), len(page), [], cursor, more)


def _bm25(request: Request, ctx: ToolContext, guard: Guard) -> ToolOutput:
    reader = Reader(ctx.workspace, bm25.MAX_FILE_BYTES)
    files = _candidates(request, ctx, guard, reader)
    hits, left_out = bm25.rank(request.query, files, reader, request.limit, guard.check)
    rows: list[str] = []
    anchors: list[Json] = []
    for hit in hits:
        first, last = hit.start + 1, hit.start + len(hit.lines)
        score = round(hit.score, 3)
        rows.append(f"{shown(hit.path)}:{first}-{last} (score {score:.3f})")
        begin = max(0, hit.best - request.context)
        snippet = hit.lines[begin : hit.best + request.context + 1]
        rows += [f"{number:>6}\t{cut(line)}" for number, line in enumerate(snippet, first + begin)]
        rows.append("")
        anchors.append({**_anchor(hit.path, first, last), "score": score})
    if left_out:
        rows.append(f"[{left_out} more files mention these words; narrow path or include]")
    rows.append(f"{len(hits)} result(s)")
    return _output(rows, request, reader, len(hits), len({hit.path for hit in hits}), anchors, None, left_out > 0)


def _anchor(path: str, start: int, end: int) -> dict[str, Json]:
    return {"path": shown(path), "start_line": start, "end_line": end}


def _output(
    rows: list[str],
    request: Request,
    reader: Reader,
    matches: int,
    files: int,
    anchors: list[Json],
    cursor: str | None,
    truncated: bool,
) -> ToolOutput:
    found: JsonObject = {
        "mode": request.mode,
        "output_mode": request.output_mode if request.mode == "grep" else None,
        "matches": matches,
        "files": files,
        "scanned_files": reader.scanned,
        "skipped": msgspec.to_builtins(reader.skipped),
        "truncated": truncated,
        "next_cursor": cursor,
    }
    return ToolOutput("\n".join(rows), metadata={"search": found, "source_anchors": anchors[:_MAX_ANCHORS]})
