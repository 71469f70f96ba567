"""What the tests of the file tools share: a tool run on a real directory, and the failure of one that must fail."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import pytest

from a3s_code.core.content import Json, JsonObject
from a3s_code.ports.tool import ToolContext, ToolFailure, ToolOutput
from a3s_code.ports.workspace import Workspace
from a3s_code.testing.clock import JumpingClock
from a3s_code.tools.validate import compile_schema
from a3s_code.workspace.local import LocalWorkspace


class FileTool(Protocol):
    name: str
    parameters: JsonObject

    def execute(self, args: JsonObject, ctx: ToolContext) -> ToolOutput: ...


async def _no_call(name: str, args: Mapping[str, Json]) -> Any:
    raise AssertionError(f"{name} is not to be called")


def context(workspace: Workspace) -> ToolContext:
    ids = itertools.count()
    return ToolContext(
        session_id="s",
        run_id="r",
        invocation_id="i",
        origin="agent",
        workspace=workspace,
        deadline=None,
        cancelled=asyncio.Event(),
        emit=lambda text: None,
        invoke=_no_call,
        clock=JumpingClock(),
        new_id=lambda: f"id-{next(ids)}",
    )


def run(tool: FileTool, root: Path, /, **args: Any) -> ToolOutput:
    """Validates and fills in as the kernel does, then runs."""
    checked, problem = compile_schema(tool.name, tool.parameters).check(args)
    assert checked is not None, problem
    return tool.execute(checked, context(LocalWorkspace(str(root))))


def failing(tool: FileTool, root: Path, /, **args: Any) -> ToolFailure:
    with pytest.raises(ToolFailure) as caught:
        run(tool, root, **args)
    return caught.value


def refused(tool: FileTool, **args: Any) -> str:
    """What the schema says to arguments that it must refuse."""
    checked, problem = compile_schema(tool.name, tool.parameters).check(args)
    assert checked is None
    assert problem is not None
    return problem


def names(root: Path) -> list[str]:
    """Every entry below ``root``, temporary files included."""
    return sorted(str(path.relative_to(root)) for path in root.rglob("*"))
