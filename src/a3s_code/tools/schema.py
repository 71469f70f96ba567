"""Functions as tools (api.md, ``opts.tools``). In: a function, or an object that is a tool already. Out: a Tool.

One rule: the schema is made once, when the tool is; a call only converts and runs.
Known weakness: a plain function can't be stopped while it runs, only its result can be dropped.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Generic, ParamSpec, TypeVar, cast, overload

import msgspec

from a3s_code.core.content import JsonObject
from a3s_code.errors import CodeError
from a3s_code.ports.tool import Tool, ToolCapabilities, ToolContext, ToolOutput
from a3s_code.tools.docstring import parse
from a3s_code.tools.signature import read_signature

P = ParamSpec("P")
R = TypeVar("R")
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")


class FunctionTool(Generic[P, R]):
    """A function that is a tool, and can still be called as the function it is.

    ``execute`` is a coroutine function for an ``async def``; else a plain one, which the runtime runs in a worker
    thread. ``timeout_ms`` is the tool's own deadline, ``None`` for none.
    """

    name: str
    description: str
    parameters: JsonObject
    timeout_ms: int | None
    execute: Callable[[JsonObject, ToolContext], ToolOutput | str | Awaitable[ToolOutput | str]]

    def __init__(
        self,
        fn: Callable[P, R],
        *,
        name: str | None = None,
        description: str | None = None,
        capabilities: ToolCapabilities = ToolCapabilities(),  # noqa: B008  frozen
        timeout_ms: int | None = None,
    ) -> None:
        called = getattr(fn, "__name__", "")
        self.name = name if name is not None else called
        check_name(self.name)
        about, members = parse(fn.__doc__)
        self.description = description if description is not None else about
        self._signature = read_signature(self.name, fn, members)
        self.parameters = self._signature.parameters
        self.timeout_ms = timeout_ms
        self._capabilities = capabilities
        self._fn = fn
        self.__wrapped__ = fn
        self.__doc__ = fn.__doc__
        self.execute = self._await if inspect.iscoroutinefunction(fn) else self._run

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self._fn(*args, **kwargs)

    def __repr__(self) -> str:
        return f"FunctionTool({self.name!r})"

    def capabilities(self, args: Mapping[str, Any]) -> ToolCapabilities:
        return self._capabilities

    def _run(self, args: JsonObject, ctx: ToolContext) -> ToolOutput | str | Awaitable[ToolOutput | str]:
        call = cast(Callable[..., Any], self._fn)
        result = call(**self._signature.bind(args, ctx))
        return self._later(result) if inspect.isawaitable(result) else self._rendered(result)

    async def _await(self, args: JsonObject, ctx: ToolContext) -> ToolOutput | str:
        call = cast(Callable[..., Awaitable[Any]], self._fn)
        return self._rendered(await call(**self._signature.bind(args, ctx)))

    async def _later(self, result: Awaitable[Any]) -> ToolOutput | str:
        return self._rendered(await result)

    def _rendered(self, result: object) -> ToolOutput | str:
        """A string and a ToolOutput as they are, nothing as empty text, any other value as JSON text."""
        if isinstance(result, (str, ToolOutput)):
            return result
        if result is None:
            return ""
        try:
            return msgspec.json.encode(result).decode()
        except (TypeError, ValueError) as error:
            raise TypeError(f"tool '{self.name}' returned what is no JSON value: {error}") from None


@overload
def tool(fn: Callable[P, R], /) -> FunctionTool[P, R]: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    read_only: bool = False,
    idempotent: bool = False,
    max_parallelism: int = 1,
    timeout_ms: int | None = None,
) -> Callable[[Callable[P, R]], FunctionTool[P, R]]: ...
def tool(
    fn: Callable[P, R] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    read_only: bool = False,
    idempotent: bool = False,
    max_parallelism: int = 1,
    timeout_ms: int | None = None,
) -> FunctionTool[P, R] | Callable[[Callable[P, R]], FunctionTool[P, R]]:
    """Makes a function a tool: ``@tool`` or ``@tool(name="…", read_only=True)``.

    The parameters' annotations become the JSON Schema (str, int, float, bool, None, Literal, Enum, list, tuple, set,
    dict, TypedDict, dataclass, msgspec Struct, unions of them, ``Annotated[T, "description"]``); a parameter without
    one takes any JSON value. A parameter called ``ctx`` or annotated ``ToolContext`` receives the context. The
    docstring is the description; its Google, NumPy or Sphinx sections describe the parameters. The function may be
    plain (it then runs in a worker thread) or ``async``, and return text, a ``ToolOutput``, or any JSON value.

    ``read_only``, ``idempotent`` and ``max_parallelism`` are what the runtime may rely on; left out, the worst is
    assumed: one at a time, and unsafe to repeat (``opts.unknown_outcome``). ``timeout_ms`` bounds one call. Raises
    ``CodeError`` (``INVALID_REQUEST``) for a bad name or a parameter that no model can give.
    """
    if max_parallelism < 1:
        raise CodeError(f"max_parallelism must be at least 1, got {max_parallelism}", "INVALID_REQUEST")
    if timeout_ms is not None and timeout_ms < 1:
        raise CodeError(f"timeout_ms must be at least 1, got {timeout_ms}", "INVALID_REQUEST")
    known = ToolCapabilities(read_only=read_only, idempotent=idempotent, max_parallelism=max_parallelism)

    def make(target: Callable[P, R]) -> FunctionTool[P, R]:
        return FunctionTool(target, name=name, description=description, capabilities=known, timeout_ms=timeout_ms)

    return make if fn is None else make(fn)


def as_tool(obj: object) -> Tool:
    """``obj`` as a Tool: a decorated or plain function, a bound method, or an object with ``name``, ``description``,
    ``parameters`` and ``execute``. Raises ``CodeError`` (``INVALID_REQUEST``) saying what is missing."""
    if isinstance(obj, FunctionTool):
        return obj
    if callable(getattr(obj, "execute", None)) and not isinstance(obj, type):
        check_name(getattr(obj, "name", None))
        for member, wanted in (("description", str), ("parameters", dict)):
            if not isinstance(getattr(obj, member, None), wanted):
                raise CodeError(f"Tool {obj!r:.80} needs a {member} ({wanted.__name__})", "INVALID_REQUEST")
        return cast(Tool, obj)
    if inspect.isroutine(obj):
        return FunctionTool(obj)
    raise CodeError(
        f"{obj!r:.80} is no tool: give a function, or an object with name, description, parameters and execute",
        "INVALID_REQUEST",
    )


def check_name(name: object) -> None:
    """A tool's name is 1 to 64 letters, digits, ``_`` or ``-`` (tools.md §1.1)."""
    if not isinstance(name, str) or not _NAME.match(name):
        raise CodeError(f"Tool name {name!r:.80} must be 1 to 64 letters, digits, '_' or '-'", "INVALID_REQUEST")
