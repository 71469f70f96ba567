"""A session in a process of its own. In: a workspace and what to do there. Out: what it said, line by line.

One rule: the process is started anew, so that nothing but the files is shared.
Known weakness: none known.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

PRELUDE = """
import asyncio, os, signal, sys
from pathlib import Path
sys.path.insert(0, {here!r})
from runhelp import *
from a3s_code import *
from a3s_code.testing import *
from a3s_code.ports.clock import HostEnvConfig
ws = Path({workspace!r})
def say(*what): print(*what, flush=True)
"""


def program(workspace: Path, body: str) -> list[str]:
    here = str(Path(__file__).parent)
    return [sys.executable, "-c", PRELUDE.format(here=here, workspace=str(workspace)) + body]


def run(workspace: Path, body: str) -> list[str]:
    """Runs ``body`` to its end; the lines it said."""
    return subprocess.run(program(workspace, body), stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()


@contextlib.contextmanager
def running(workspace: Path, body: str, until: str) -> Iterator[subprocess.Popen[str]]:
    """A process that has said ``until``; it is killed at the end."""
    with subprocess.Popen(program(workspace, body), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            for line in process.stdout:
                if line.strip() == until:
                    break
            yield process
        finally:
            process.kill()
