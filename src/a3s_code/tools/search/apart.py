"""Matching in a process that can be killed. In: an expression and the lines of some files. Out: the lines that match.

One rule: an expression that never ends costs its search the time limit, and nobody else anything.
Known weakness: some 20 ms to start the process.
"""

from __future__ import annotations

import os

import msgspec

from a3s_code.core.environment import scrub_environment
from a3s_code.ports.process import Processes
from a3s_code.ports.tool import ToolContext, ToolFailure
from a3s_code.tools.search.guard import Guard
from a3s_code.tools.search.regex import Expression

_SCRIPT = os.path.join(os.path.dirname(__file__), "matcher_script.py")
_CAPTURE = 32 * 1024 * 1024  # more than one letter for every line of a batch


class Apart:
    """``python`` is an interpreter; the script needs nothing installed."""

    def __init__(self, processes: Processes, python: str) -> None:
        self._processes = processes
        self._python = python

    async def match(
        self, expression: Expression, files: list[list[str]], ctx: ToolContext, guard: Guard
    ) -> list[list[int]]:
        """For each file the indices of its matching lines. ``timeout``, ``cancelled``, ``unavailable``."""
        texts = ["\n".join(lines).encode() for lines in files]
        asked = {"pattern": expression.text, "flags": expression.flags, "sizes": [len(text) for text in texts]}
        with guard.matching():
            guard.check()
            outcome = await self._processes.run(
                [self._python, "-I", "-S", _SCRIPT],
                cwd=os.path.dirname(_SCRIPT),
                env=scrub_environment(os.environ),
                timeout_ms=max(1, guard.matching_left_ms()),
                cancelled=ctx.cancelled,
                capture_bytes=_CAPTURE,
                stdin=b"\n".join([msgspec.json.encode(asked), b"".join(texts)]),
            )
        if outcome.timed_out:
            raise guard.matching_failure()
        if outcome.cancelled:
            raise ToolFailure("cancelled", "Cancelled", exit_code=130)
        rows = outcome.stdout.text.split("\n")[:-1]
        if outcome.exit_code != 0 or outcome.stdout.omitted or len(rows) != len(files):
            why = outcome.error or outcome.stderr.text.strip().rpartition("\n")[2] or f"exit code {outcome.exit_code}"
            raise ToolFailure(
                "unavailable", f"This pattern needs a process of its own, which failed: {why}", exit_code=126
            )
        return [[i for i, letter in enumerate(row) if letter == "1"] for row in rows]
