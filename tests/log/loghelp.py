"""What the tests of the log share. In: a number. Out: facts, and logs on real files.

One rule: the same number gives the same facts. Known weakness: none known.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from a3s_code.core.content import Call
from a3s_code.core.facts import (
    KIND_OF,
    Fact,
    FactData,
    ModelTurn,
    RunClosed,
    RunOpened,
    ToolResulted,
    ToolStarted,
    UserSaid,
)
from a3s_code.stores.factlog import FileFactLog
from a3s_code.stores.syncer import Syncer


def fact(seq: int, data: FactData) -> Fact:
    return Fact(seq, f"id-{seq}", 1_700_000_000_000 + seq, "run-1", KIND_OF[type(data)], data)


def said(seq: int, text: str = "go on") -> Fact:
    return fact(seq, UserSaid(text, "prompt"))


def batches(tools: int = 3) -> list[list[Fact]]:
    """The facts of a run with some tool rounds, as they are appended: what comes between two syncs is one batch."""
    groups: list[list[FactData]] = [[RunOpened("run-1", "send"), UserSaid("do it", "prompt")]]
    for n in range(tools):
        turn = ModelTurn("", "model", (Call(f"c{n}", "bash", {"command": "make"}),), finish="tool_calls")
        groups.append([turn, ToolStarted(f"c{n}", 1, "unsafe")])
        groups.append([ToolResulted(f"c{n}", "bash", "done\n" * 9, 0, "ok")])
    groups.append([ModelTurn("All done: ä", "model", finish="stop"), RunClosed("completed", 7)])
    found: list[list[Fact]] = []
    seq = 0
    for group in groups:
        found.append([fact(seq + n, data) for n, data in enumerate(group, 1)])
        seq += len(group)
    return found


def all_facts(tools: int = 3) -> list[Fact]:
    return [each for batch in batches(tools) for each in batch]


def make_log(
    workspace: Path, name: str = "s1", syncer: Syncer | None = None, durability: Literal["fsync", "os"] = "fsync"
) -> FileFactLog:
    return FileFactLog(str(workspace), name, created_ms=5, syncer=syncer or Syncer(), durability=durability)


def written(workspace: Path, facts: list[Fact], name: str = "s1") -> Path:
    """A log with these facts, closed again."""
    log = make_log(workspace, name)
    log.acquire()
    log.append(facts)
    log.release()
    return Path(log.path)


def beside(path: Path) -> list[str]:
    """The names of the other files in the log's directory."""
    return sorted(each.name for each in path.parent.iterdir() if each != path and each.name != ".gitignore")
