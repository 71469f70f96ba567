"""What is asked of a search. In: validated arguments. Out: the same with the defaults of the mode, and its cursor.

One rule: an argument that would have no effect in a mode is refused rather than ignored.
Known weakness: a cursor is a place in a list that is made again for each page, so changed files may shift it.
"""

from __future__ import annotations

import base64
from typing import Literal, cast

import msgspec

from a3s_code.core.content import Json, JsonObject
from a3s_code.core.digest import args_digest
from a3s_code.ports.tool import ToolFailure
from a3s_code.tools.search.glob import BadGlob, Glob

Mode = Literal["grep", "glob", "bm25"]
OutputMode = Literal["content", "files_with_matches", "count", "summary"]
_LIMITS = {"grep": (200, 2000), "glob": (500, 5000), "bm25": (8, 50)}  # default, maximum
_CONTEXT = {"grep": 0, "glob": 0, "bm25": 2}


class Request(msgspec.Struct, frozen=True):
    """``after`` is the last path of the page before and, for matching lines, its last line's index."""

    mode: Mode
    query: str
    path: str
    include: Glob | None
    output_mode: OutputMode
    context: int
    limit: int
    by_path: bool
    ignore_case: bool
    digest: str
    after: tuple[str, int] | None

    def cursor(self, path: str, line: int = 0) -> str:
        raw = msgspec.json.encode([self.digest, path.encode("utf-8", "surrogatepass"), line])
        return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def invalid(problem: str) -> ToolFailure:
    return ToolFailure("invalid_argument", f"Invalid arguments for tool 'search':\n- {problem}")


def request_of(args: JsonObject) -> Request:
    """Raises ``invalid_argument`` for what the schema can't say."""
    mode = cast("Mode", args["mode"])
    _refuse_idle(mode, args)
    default, most = _LIMITS[mode]
    limit = cast("int", args.get("limit", default))
    if limit > most:
        raise invalid(f"limit: {limit} is greater than the maximum of {most} for mode '{mode}'")
    include = args.get("include")
    given: JsonObject = {name: value for name, value in args.items() if name != "cursor" and value is not None}
    digest = args_digest(given)
    return Request(
        mode=mode,
        query=cast("str", args["query"]),
        path=cast("str", args.get("path", ".")),
        include=None if include is None else glob_of("include", cast("str", include), by_name=True),
        output_mode=cast("OutputMode", args.get("output_mode", "content")),
        context=cast("int", args.get("context", _CONTEXT[mode])),
        limit=limit,
        by_path=args.get("sort") == "path",
        ignore_case=bool(args.get("ignore_case", False)),
        digest=digest,
        after=_position(args.get("cursor"), digest),
    )


def glob_of(argument: str, pattern: str, *, by_name: bool = False, ignore_case: bool = False) -> Glob:
    try:
        return Glob(pattern, by_name=by_name, ignore_case=ignore_case)
    except BadGlob as problem:
        raise invalid(f"{argument}: {problem}") from None


def _refuse_idle(mode: Mode, args: JsonObject) -> None:
    allowed = {
        "include": mode != "glob",
        "context": mode == "bm25" or (mode == "grep" and args.get("output_mode", "content") == "content"),
        "sort": mode == "glob",
        "cursor": mode != "bm25" and args.get("output_mode") != "summary",
        "output_mode": mode == "grep" or args.get("output_mode") == "content",
    }
    for name, has_effect in allowed.items():
        if args.get(name) is not None and not has_effect:
            raise invalid(f"{name}: has no effect with mode '{mode}'{_because(name, args)}")
    if mode == "glob" and args.get("cursor") is not None and args.get("sort") != "path":
        raise invalid("cursor: needs sort 'path' with mode 'glob'")


def _because(name: str, args: JsonObject) -> str:
    asked = args.get("output_mode", "content")
    return f" and output_mode '{asked}'" if name in ("context", "cursor") and asked != "content" else ""


def _position(cursor: Json, digest: str) -> tuple[str, int] | None:
    if cursor is None:
        return None
    try:
        raw = base64.urlsafe_b64decode(str(cursor) + "=" * (-len(str(cursor)) % 4))
        bound, path, line = msgspec.json.decode(raw, type=tuple[str, bytes, int])
    except (ValueError, msgspec.DecodeError):
        bound, path, line = "", b"", 0
    if bound != digest:
        raise invalid("cursor: is not from a search with these arguments; repeat them exactly, or leave it out")
    return path.decode("utf-8", "surrogatepass"), line
