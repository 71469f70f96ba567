"""A host's direct use of tools (tools.md §8). In: names and arguments. Out: results, or plain values.

One rule: these calls pass the kernel as ``host``: no permission is asked, no history is touched, no gate is taken.
Known weakness: what this version has no tool for has no helper either.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Concatenate, ParamSpec, TypeVar

from a3s_code.api.blocking import blocking, bridged
from a3s_code.api.option_checks import nearest, snake
from a3s_code.api.session.parked import Parked
from a3s_code.core.content import Json, JsonObject
from a3s_code.engine.direct import call_tool
from a3s_code.engine.invoke.invocation import Instead
from a3s_code.errors import CodeError, ToolError, UnknownToolError
from a3s_code.ports.tool import Origin, ToolContext, ToolResult

S = TypeVar("S")
P = ParamSpec("P")
T = TypeVar("T")
Helper = Callable[Concatenate[S, str, P], Coroutine[Any, Any, T]]


def mapped(helper: Helper[S, P, T]) -> Helper[S, P, T]:
    """A mapping behind the first argument stands for the parameters (tools.md §8)."""
    name = helper.__name__.removesuffix("_async")
    known = list(inspect.signature(helper).parameters)[2:]

    @functools.wraps(helper)
    def call(self: S, first: str, /, *args: P.args, **named: P.kwargs) -> Coroutine[Any, Any, T]:
        given: Any = args[0] if len(args) == 1 else None
        if not isinstance(given, Mapping):
            return helper(self, first, *args, **named)
        options = {snake(str(key)): value for key, value in given.items()}
        for unknown in options.keys() - set(known):
            raise CodeError(f"{name}: unknown option '{unknown}'{nearest(unknown, known)}", "INVALID_REQUEST")
        whole: Callable[..., Coroutine[Any, Any, T]] = helper
        return whole(self, first, **{**options, **named})

    return call


class Tools(Parked):
    def tool_names(self) -> list[str]:
        """What can be called, in the order in which a model is offered it."""
        return self._engine.parts.toolbox.names()

    def tool_definitions(self) -> list[JsonObject]:
        """``name``, ``description`` and ``parameters`` of each, as copies."""
        return [
            {"name": spec.name, "description": spec.description, "parameters": _copy(spec.parameters)}
            for spec in self._engine.parts.toolbox.specs()
        ]

    @bridged
    async def tool_async(self, name: str, args: Mapping[str, Json] | None = None) -> ToolResult:
        """Calls a tool. A failed call is a failed result; an unknown name is ``UnknownToolError``."""
        return await self._call(name, args or {}, "host")

    tool = blocking(tool_async)

    @bridged
    async def governed_tool_async(self, name: str, args: Mapping[str, Json] | None = None) -> ToolResult:
        """The same under the session's permission policy. A call that asks waits for ``confirm_tool_use``, at most
        ``confirmation_policy.default_timeout_ms``."""
        return await self._call(name, args or {}, "governed_host")

    governed_tool = blocking(governed_tool_async)

    @bridged
    @mapped
    async def read_file_async(
        self,
        path: str,
        offset: int | Mapping[str, Any] = 0,
        limit: int | None = None,
        *,
        numbered: bool = False,
    ) -> str:
        """The exact text of the selected lines (0-based ``offset``), the whole file without ``limit``; with
        ``numbered`` the view that a model gets. ``ToolError`` when it can't be read."""
        if not isinstance(offset, int) or not isinstance(limit, int | None):
            raise CodeError(f"read_file: expected numbers, got {offset!r:.60} and {limit!r:.60}", "INVALID_REQUEST")
        start = offset
        if numbered:
            args: JsonObject = {"file_path": path, "offset": start, "limit": limit}
            return _text(await self._call("read", _given(args), "host", whole=True))

        def exact(args: JsonObject, ctx: ToolContext) -> str:
            from a3s_code.tools.read import read_raw  # with the tool, whose call this is

            return read_raw(ctx.workspace, str(args["file_path"]), start, limit)

        return _text(await self._call("read", {"file_path": path}, "host", whole=True, instead=exact))

    read_file = blocking(read_file_async)

    @bridged
    async def write_file_async(self, path: str, content: str) -> ToolResult:
        """Makes or replaces the file, its missing directories too; what could not be done is a failed result."""
        return await self._call("write", {"file_path": path, "content": content}, "host")

    write_file = blocking(write_file_async)

    @bridged
    async def ls_async(self, path: str = ".") -> ToolResult:
        """One entry a line; ``metadata["entries"]`` has name, kind and size of each."""
        return await self._call("ls", {"path": path}, "host")

    ls = blocking(ls_async)

    @bridged
    @mapped
    async def edit_file_async(
        self,
        path: str,
        old_string: str,
        new_string: str,
        replace_all: bool = False,
        *,
        dry_run: bool = False,
        expected_replacements: int | None = None,
        max_replacements: int | None = None,
    ) -> ToolResult:
        """Replaces ``old_string``, which must occur once unless ``replace_all`` or ``expected_replacements`` is given.
        Nothing is written when the result is a failed one."""
        args: JsonObject = {
            "file_path": path,
            "old_string": old_string,
            "new_string": new_string,
            "replace_all": replace_all,
            "dry_run": dry_run,
            "expected_replacements": expected_replacements,
            "max_replacements": max_replacements,
        }
        return await self._call("edit", _given(args), "host")

    edit_file = blocking(edit_file_async)

    @bridged
    @mapped
    async def bash_async(
        self,
        command: str,
        *,
        timeout_ms: int | None = None,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
    ) -> str:
        """The output text, also of a command that failed; ``ToolError`` only when it was refused, could not be started,
        timed out or was cancelled. For the exit code use ``tool("bash", …)``."""
        args: JsonObject = {"command": command, "timeout_ms": timeout_ms, "cwd": cwd}
        if env is not None:
            args["env"] = dict(env) if isinstance(env, Mapping) else env
        return _text(await self._call("bash", _given(args), "host", whole=True))

    bash = blocking(bash_async)

    @bridged
    @mapped
    async def glob_async(self, pattern: str, *, path: str | None = None) -> list[str]:
        """All matching files, workspace-relative, by path."""
        found: list[str] = []
        cursor: str | None = None
        while True:
            args: JsonObject = {"mode": "glob", "query": pattern, "path": path, "sort": "path", "cursor": cursor}
            result = _checked(await self._call("search", _given({**args, "limit": 5000}), "host", whole=True))
            search = result.metadata.get("search")
            details = search if isinstance(search, dict) else {}
            found += result.output.split("\n")[: int(str(details.get("files", 0)))]
            after = details.get("next_cursor")
            if not isinstance(after, str):
                return found
            cursor = after

    glob = blocking(glob_async)

    @bridged
    @mapped
    async def grep_async(
        self,
        pattern: str,
        *,
        path: str | None = None,
        include: str | None = None,
        context: int = 0,
        output_mode: str = "content",
        ignore_case: bool = False,
        limit: int | None = None,
    ) -> str:
        """What ``search`` prints; the last line is the summary. Without ``limit`` up to 2000 matches."""
        args: JsonObject = {
            "mode": "grep",
            "query": pattern,
            "path": path,
            "include": include,
            "context": context,
            "output_mode": output_mode,
            "ignore_case": ignore_case,
            "limit": 2000 if limit is None else limit,
        }
        return _text(await self._call("search", _given(args), "host", whole=True))

    grep = blocking(grep_async)

    def get_artifact(self, uri: str) -> JsonObject | None:
        """The whole output that a shortened one names as its ``content_ref``: ``uri``, ``tool``, ``media_type``,
        ``bytes``, ``sha256``, ``content``. ``None`` when it is unknown or was dropped for newer ones; they are kept in
        memory, up to ``artifact_store_limits``. ``INVALID_REQUEST`` for what is no such URI."""
        return self._engine.kernel.results.artifacts.get(uri)

    async def get_artifact_async(self, uri: str) -> JsonObject | None:
        """The same."""
        return self.get_artifact(uri)

    async def _call(
        self,
        name: str,
        args: Mapping[str, Json],
        origin: Origin,
        *,
        whole: bool = False,
        instead: Instead | None = None,
    ) -> ToolResult:
        """``whole`` for helpers that return plain values: they get the text before it is shortened."""
        if not isinstance(name, str) or not isinstance(args, Mapping):
            raise CodeError(
                f"tool: expected a name and a mapping, got {name!r:.60} and {args!r:.60}", "INVALID_REQUEST"
            )
        result = await call_tool(self._engine, name, dict(args), origin, whole=whole, instead=instead)
        if result.error_kind == "unknown_tool":
            raise UnknownToolError(result.output, result=result)
        return result


def _given(args: JsonObject) -> JsonObject:
    return {name: value for name, value in args.items() if value is not None}


def _checked(result: ToolResult) -> ToolResult:
    if result.error_kind is not None:
        raise ToolError(result.output, result=result)
    return result


def _text(result: ToolResult) -> str:
    return _checked(result).output


def _copy(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copy(member) for key, member in value.items()}
    return [_copy(member) for member in value] if isinstance(value, list) else value
