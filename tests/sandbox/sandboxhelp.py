"""What the tests of the sandbox share: commands of a model on a real directory, in the real sandbox.

One rule: the outside lies where commands see it: not below ``/tmp``, which is their own.
Known weakness: none known.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from a3s_code.core.content import Json
from a3s_code.ports.process import ProcessOutcome
from a3s_code.ports.tool import Origin, ToolContext, ToolOutput
from a3s_code.system.process import LocalProcesses
from a3s_code.tools.bash import BashTool
from a3s_code.tools.validate import compile_schema
from a3s_code.workspace.local import LocalWorkspace
from a3s_code.workspace.sandbox.bubblewrap import PRIVATE
from a3s_code.workspace.sandbox.session import Choice, CommandSandbox, Native, native

CALLS: dict[str, dict[str, int]] = {
    "x86_64": {"clone": 56, "keyctl": 250, "bpf": 321, "perf_event_open": 298, "open_by_handle_at": 304, "ioctl": 16},
    "aarch64": {"clone": 220, "keyctl": 219, "bpf": 280, "perf_event_open": 241, "open_by_handle_at": 265, "ioctl": 29},
}
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def in_sight(path: Path | str) -> bool:
    """Whether a command sees this path, and not its own ``/tmp`` in its place."""
    names = (Path(path).absolute(), Path(path).resolve())
    return not any(name.is_relative_to(place) for name in names for place in PRIVATE)


def place_in_sight() -> Path | None:
    """A directory that commands see and tests may write to: the checkout, unless it lies below ``/tmp`` or where
    another user can't go."""
    places = (Path(__file__).parents[2], Path("/srv"), Path("/opt"), Path.home())
    seen = [place for place in places if in_sight(place) and os.access(place, os.W_OK)]
    return next((place for place in seen if all(map(is_passable, (place, *place.parents)))), next(iter(seen), None))


def is_passable(directory: Path) -> bool:
    """Whether any user may go through it."""
    return bool(directory.stat().st_mode & 0o001)


class RealClock:
    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


async def call_host(fn: Callable[..., Awaitable[Any]], *args: Any) -> Any:
    return await fn(*args)


class Shell:
    """A session's ``bash``. ``choice`` replaces members of what the host chose."""

    def __init__(self, root: Path, environ: Mapping[str, str], **choice: Any) -> None:
        self.root = root.resolve()
        self.environ = {"PATH": PATH, "LANG": "C.UTF-8", **environ}
        self.processes = LocalProcesses()
        self.tool = BashTool(self.processes, self.environ)
        self.emitted: list[str] = []
        self.cancelled = asyncio.Event()
        self.sandbox = CommandSandbox(
            str(self.root),
            Choice(**{"native": native(self.processes, self.environ), **choice}),
            self.environ,
            now_ns=time.time_ns,
            call_host=call_host,
            in_thread=asyncio.to_thread,
        )
        self._check = compile_schema(self.tool.name, self.tool.parameters)

    async def __call__(
        self, command: str, *, origin: Origin = "agent", approved: bool = False, **more: Json
    ) -> ToolOutput:
        args, problem = self._check.check({"command": command, **more})
        assert args is not None, problem
        return await self.tool.execute(args, self.context(origin, approved))

    def context(self, origin: Origin = "agent", approved: bool = False) -> ToolContext:
        return ToolContext(
            session_id="s",
            run_id="r",
            invocation_id="call-1",
            origin=origin,
            workspace=LocalWorkspace(str(self.root)),
            deadline=None,
            cancelled=self.cancelled,
            emit=self.emitted.append,
            invoke=_no_nested_calls,
            clock=RealClock(),
            new_id=lambda: "id",
            sandbox=self.sandbox,
            approved=approved,
        )


async def _no_nested_calls(name: str, args: Mapping[str, Json]) -> Any:
    raise AssertionError(f"{name} was called")


async def run(argv: list[str], cwd: Path, env: Mapping[str, str]) -> ProcessOutcome:
    """A process as it is, for comparing and for other users."""
    processes = LocalProcesses()
    return await processes.run(argv, cwd=str(cwd), env=env, timeout_ms=60_000, cancelled=asyncio.Event())


def missing(program: str) -> bool:
    return shutil.which(program, path=PATH) is None


class Broken:
    """A native sandbox that does not work here."""

    name = "broken"

    async def probe(self) -> str | None:
        return "no user namespaces"


def broken_native() -> Native:
    made = Native(LocalProcesses(), {"PATH": PATH})
    made.sandbox = Broken()  # type: ignore[assignment]  # only its probe is used
    return made
