"""The built-in tools of an agent, shared by its sessions. In: a name. Out: the registered tool.

One rule: the code of a tool is loaded when the tool is first asked for, which is when somebody calls it.
Known weakness: that first call waits some milliseconds for it, on the loop.
"""

from __future__ import annotations

from collections.abc import Mapping

from a3s_code.ports.process import Processes
from a3s_code.ports.tool import Tool
from a3s_code.ports.toolbox import RegisteredTool
from a3s_code.tools.specs import BUILT_IN

NAMES = tuple(spec.name for spec in BUILT_IN)


class BuiltIn:
    """``environ`` is the host's environment; ``bash`` gets it as it is now."""

    def __init__(self, processes: Processes, environ: Mapping[str, str]) -> None:
        self._processes = processes
        self._environ = dict(environ)
        self._loaded: dict[str, RegisteredTool] = {}

    def get(self, name: str) -> RegisteredTool | None:
        if name not in NAMES:
            return None
        found = self._loaded.get(name)
        if found is None:
            from a3s_code.tools.validate import compile_schema  # as the tools below: loaded by a call

            tool = self._tool(name)
            check = compile_schema(name, tool.parameters).check
            found = self._loaded[name] = RegisteredTool(name, tool, check)
        return found

    def _tool(self, name: str) -> Tool:
        match name:
            case "read":
                from a3s_code.tools.read import ReadTool

                return ReadTool()
            case "ls":
                from a3s_code.tools.ls import LsTool

                return LsTool()
            case "search":
                from a3s_code.tools.search.tool import SearchTool

                return SearchTool(self._processes)
            case "write":
                from a3s_code.tools.write import WriteTool

                return WriteTool()
            case "edit":
                from a3s_code.tools.edit import EditTool

                return EditTool()
            case "bash":
                from a3s_code.tools.bash import BashTool

                return BashTool(self._processes, self._environ)
            case _:
                from a3s_code.tools.ask_user import AskUserTool

                return AskUserTool()
