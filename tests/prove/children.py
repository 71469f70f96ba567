"""Runs children that a proof kills. In: commands. Out: how each child ended, and what it had said by then.

One rule: what a child said before it died it had been told to rely on.
Known weakness: one child at a time; who wants two at once makes two of these.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any


class Children:
    """Runs children through one parent that forks them: ``program`` calls ``crash_child.serve``."""

    def __init__(self, program: str) -> None:
        path = str(Path(__file__).parent / program)
        self._parent = subprocess.Popen(
            [sys.executable, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def run(self, workspace: Path, do: str, unknown: str, **more: Any) -> Ended:
        assert self._parent.stdin is not None
        assert self._parent.stdout is not None
        command = {"workspace": str(workspace), "do": do, "unknown": unknown, **more}
        self._parent.stdin.write(json.dumps(command) + "\n")
        self._parent.stdin.flush()
        return Ended(json.loads(self._parent.stdout.readline()))

    def close(self) -> None:
        self._parent.communicate(timeout=30)


class Ended:
    """How a child ended: ``acked`` is the highest fact it was told to rely on, ``said`` all it said, by first words."""

    def __init__(self, said: dict[str, Any]) -> None:
        lines = [line.split(" ", 1) for line in said["said"]]
        failed = [rest for word, rest in lines if word == "failed"]
        assert not failed, json.loads(failed[0])
        self.said: dict[str, str] = {line[0]: line[1] for line in lines}
        self.killed: bool = said["killed"]
        self.acked = max([int(rest) for word, rest in lines if word == "ack"], default=0)
        self.text = next((rest for word, rest in lines if word == "text"), None)
        self.operations = next((int(rest) for word, rest in lines if word == "operations"), 0)
