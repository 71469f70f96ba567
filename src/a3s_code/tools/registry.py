"""The tools of a session. In: the built-in ones, shared by all sessions, and a host's own. Out: ports.Toolbox.

One rule: built-in tools come first, in the order of tools.md §2.4, then the others by name; that is the order of
every request.
Known weakness: none known.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Final

from a3s_code.core.content import JsonObject
from a3s_code.errors import CodeError
from a3s_code.ports.model import ToolSpec
from a3s_code.ports.tool import Tool
from a3s_code.ports.toolbox import ArgumentCheck, RegisteredTool
from a3s_code.tools.validate import compile_schema

ORDER: Final = ("read", "ls", "search", "write", "edit", "bash", "ask_user")


class LazyCheck:
    """Compiles the schema of a built-in tool at its first call, so that making a session costs nothing for it."""

    __slots__ = ("_check", "_name", "_parameters")

    def __init__(self, name: str, parameters: JsonObject) -> None:
        self._name = name
        self._parameters = parameters
        self._check: ArgumentCheck | None = None

    def __call__(self, args: object) -> tuple[JsonObject | None, str | None]:
        if self._check is None:
            self._check = compile_schema(self._name, self._parameters).check
        return self._check(args)


def built_in(tools: Iterable[Tool]) -> dict[str, RegisteredTool]:
    """The agent's own tools, registered once and shared by its sessions."""
    made = {tool.name: RegisteredTool(tool.name, tool, LazyCheck(tool.name, tool.parameters)) for tool in tools}
    return {name: made[name] for name in ORDER if name in made}


def host_tool(tool: Tool) -> RegisteredTool:
    """A host's tool; its schema is checked now (``INVALID_REQUEST``)."""
    return RegisteredTool(tool.name, tool, compile_schema(tool.name, tool.parameters).check, host=True)


class Registry:
    """``shared`` is never changed; a name that is taken is ``INVALID_REQUEST``."""

    def __init__(self, shared: dict[str, RegisteredTool], specs: tuple[ToolSpec, ...]) -> None:
        self._shared = shared
        self._own: dict[str, RegisteredTool] = {}
        self._specs = specs
        self._shared_specs = specs

    def add(self, tool: Tool) -> None:
        if self.get(tool.name) is not None:
            raise CodeError(f"tools: the name '{tool.name}' is already taken", "INVALID_REQUEST")
        self._own[tool.name] = host_tool(tool)
        self._own = dict(sorted(self._own.items()))
        self._specs = (*self._shared_specs, *specs_of(self._own))

    def get(self, name: str) -> RegisteredTool | None:
        return self._shared.get(name) or self._own.get(name)

    def names(self) -> list[str]:
        return [*self._shared, *self._own]

    def own(self) -> list[RegisteredTool]:
        """The tools that this session alone has, by name."""
        return list(self._own.values())

    def specs(self) -> tuple[ToolSpec, ...]:
        return self._specs

    def near(self, name: str) -> list[str]:
        return difflib.get_close_matches(name, self.names(), 3)


def specs_of(tools: dict[str, RegisteredTool]) -> tuple[ToolSpec, ...]:
    """What a model is shown of these tools."""
    return tuple(ToolSpec(r.name, r.tool.description, r.tool.parameters) for r in tools.values())
