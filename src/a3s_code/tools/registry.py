"""The tools of a session. In: the built-in ones, shared by all sessions, and a host's own. Out: ports.Toolbox.

One rule: built-in tools come first, in the order of tools.md §2.4, then the others by name; that is the order of
every request.
Known weakness: none known.
"""

from __future__ import annotations

from a3s_code.errors import CodeError
from a3s_code.ports.model import ToolSpec
from a3s_code.ports.toolbox import RegisteredTool
from a3s_code.tools.builtin import NAMES, BuiltIn
from a3s_code.tools.specs import BUILT_IN


class Registry:
    """``shared`` is the agent's; a name that is taken is ``INVALID_REQUEST``."""

    def __init__(self, shared: BuiltIn) -> None:
        self._shared = shared
        self._own: dict[str, RegisteredTool] = {}
        self._specs = BUILT_IN

    def add(self, given: object) -> None:
        """A host's function or tool, whose schema is checked now (``INVALID_REQUEST``)."""
        from a3s_code.tools.schema import as_tool  # many sessions have no tool of the host's
        from a3s_code.tools.validate import compile_schema  # the same

        tool = as_tool(given)
        if tool.name in self.names():
            raise CodeError(f"tools: the name '{tool.name}' is already taken", "INVALID_REQUEST")
        check = compile_schema(tool.name, tool.parameters).check
        self._own[tool.name] = RegisteredTool(tool.name, tool, check, host=True)
        self._own = dict(sorted(self._own.items()))
        own = (ToolSpec(r.name, r.tool.description, r.tool.parameters) for r in self._own.values())
        self._specs = (*BUILT_IN, *own)

    def get(self, name: str) -> RegisteredTool | None:
        return self._shared.get(name) or self._own.get(name)

    def names(self) -> list[str]:
        return [*NAMES, *self._own]

    def own(self) -> list[RegisteredTool]:
        """The tools that this session alone has, by name."""
        return list(self._own.values())

    def specs(self) -> tuple[ToolSpec, ...]:
        return self._specs

    def near(self, name: str) -> list[str]:
        import difflib  # only a misspelt name needs it

        return difflib.get_close_matches(name, self.names(), 3)
