"""What every scenario needs: the server, the floor, agents and readings. In: an address. Out: numbers.

One rule: the floor sends the very bytes that our client sent, recorded by the server.
Known weakness: memory is the resident size, which the allocator rounds and never gives back whole.
"""

from __future__ import annotations

import gc
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import aiohttp

from a3s_code import Agent, PermissionPolicy, Session, SessionOptions, tool
from a3s_code.tools.schema import FunctionTool
from benchmarks.server import ASKED

PROMPT = f"hello {ASKED}"
now = time.perf_counter


def cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def resident_kb() -> float:
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 1024


def peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


@contextmanager
def server() -> Iterator[str]:
    """The scripted server as a child process; gives its address."""
    child = subprocess.Popen([sys.executable, "-m", "benchmarks.server"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdout is not None
    try:
        yield f"http://127.0.0.1:{int(child.stdout.readline())}"
    finally:
        child.communicate()


@contextmanager
def workspace() -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="a3s-bench-") as root:
        for i in range(32):
            text = f"line one of file {i:02d}, padded with some words to be about a hundred bytes long in all.\n"
            Path(root, f"f{i:02d}.txt").write_text(text)
        yield root


def configuration(address: str, model: str) -> str:
    return f"""
        default_model = "openai/{model}"
        providers "openai" {{
          api_key = "sk-local"
          base_url = "{address}/v1"
          models "{model}" {{
            name = "bench"
            limit = {{ context = 100000000, output = 8192 }}
          }}
        }}
    """


@asynccontextmanager
async def agent(address: str, model: str) -> AsyncIterator[Agent]:
    async with await Agent.create_async(configuration(address, model)) as made:
        yield made


def looking(root: str, *, plain: bool = False) -> FunctionTool[..., Any]:
    """The host's tool that the server calls: it reads a small file, on the loop or (``plain``) in a thread."""

    def look(file_path: str) -> str:
        """Reads a small text file of the workspace and returns its text."""
        return Path(root, file_path).read_text()

    async def look_async(file_path: str) -> str:
        """Reads a small text file of the workspace and returns its text."""
        return Path(root, file_path).read_text()

    return tool(name="look")(look if plain else look_async)


async def session(made: Agent, root: str, **more: Any) -> Session:
    """One that may call every tool, as often as it likes."""
    given: dict[str, Any] = {"permission_policy": PermissionPolicy(default_decision="allow"), "log_durability": "os"}
    given |= {"tool_budget": None, "step_limit": 1000, "duplicate_tool_call_threshold": 1000}
    return await made.session_async(root, SessionOptions(**given | more))


class Bare:
    """The floor: aiohttp alone, one kept connection."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._http = aiohttp.ClientSession()

    async def __aenter__(self) -> Bare:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http.close()

    async def record(self) -> None:
        async with self._http.get(f"{self._address}/record"):
            return

    async def bodies(self) -> list[bytes]:
        async with self._http.get(f"{self._address}/bodies") as answer:
            return [body.encode() for body in await answer.json(content_type=None)]

    async def exchange(self, body: bytes) -> float:
        """Seconds that sending ``body`` and reading its answer take."""
        began = now()
        headers = {"authorization": "Bearer sk-local", "content-type": "application/json"}
        async with self._http.post(f"{self._address}/v1/chat/completions", data=body, headers=headers) as answer:
            await answer.read()
        return now() - began

    async def exchanges(self, bodies: list[bytes]) -> float:
        return sum([await self.exchange(body) for body in bodies])
