"""What the tests of search and bash share: a call as the kernel makes it, on a real directory with real processes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from a3s_code.core.content import Json, JsonObject
from a3s_code.ports.tool import ToolContext, ToolFailure, ToolOutput
from a3s_code.tools.validate import compile_schema
from a3s_code.workspace.local import LocalWorkspace


class AsyncTool(Protocol):
    name: str
    parameters: JsonObject

    async def execute(self, args: JsonObject, ctx: ToolContext) -> ToolOutput: ...


class RealClock:
    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class Caller:
    """Calls one tool on one directory. ``emitted`` collects the deltas."""

    def __init__(self, tool: AsyncTool, root: Path) -> None:
        self.tool = tool
        self.root = root
        self.emitted: list[str] = []
        self.cancelled = asyncio.Event()
        self._check = compile_schema(tool.name, tool.parameters)

    async def __call__(
        self, *, deadline_in: float | None = None, limit_ms: int | None = None, **args: Json
    ) -> ToolOutput:
        valid, problem = self._check.check(args)
        assert valid is not None, problem
        return await self.tool.execute(valid, self._context(deadline_in, limit_ms))

    async def failure(self, **args: Any) -> ToolFailure:
        """The failure that the call raises."""
        try:
            output = await self(**args)
        except ToolFailure as failure:
            return failure
        raise AssertionError(f"succeeded: {output.output!r}")

    def _context(self, deadline_in: float | None, limit_ms: int | None) -> ToolContext:
        clock = RealClock()
        return ToolContext(
            session_id="s",
            run_id="r",
            invocation_id="call-1",
            origin="agent",
            workspace=LocalWorkspace(str(self.root)),
            deadline=None if deadline_in is None else clock.monotonic() + deadline_in,
            cancelled=self.cancelled,
            emit=self.emitted.append,
            invoke=_no_nested_calls,
            clock=clock,
            new_id=lambda: "id",
            limit_ms=limit_ms,
        )


async def _no_nested_calls(name: str, args: Mapping[str, Json]) -> Any:
    raise AssertionError(f"{name} was called")


def write_files(root: Path, files: Mapping[str, str | bytes]) -> None:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
