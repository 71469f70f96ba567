"""The offline model and the built-in tools understand each other: real arguments, real outputs."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from offline_workspace import Talk

from a3s_code.cli.sample_repo import write_sample
from a3s_code.core.content import Call, Json
from a3s_code.ports.model import ToolSpec
from a3s_code.ports.tool import Tool, ToolContext, ToolFailure
from a3s_code.system.process import LocalProcesses
from a3s_code.testing import JumpingClock, SequentialEntropy
from a3s_code.tools.ls import LsTool
from a3s_code.tools.read import ReadTool
from a3s_code.tools.search.tool import SearchTool
from a3s_code.tools.validate import compile_schema
from a3s_code.workspace.local import LocalWorkspace

PROJECT = Path(__file__).parent.parent.parent


class RealTalk(Talk):
    """Runs the model's calls through the argument check and the tools themselves; a failing call fails the test."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        made: list[Tool] = [ReadTool(), LsTool(), SearchTool(LocalProcesses())]
        self.real = {tool.name: tool for tool in made}
        self.tools = tuple(ToolSpec(tool.name, tool.description, tool.parameters) for tool in made)
        self.place = LocalWorkspace(str(root))

    async def run(self, call: Call) -> tuple[str, bool]:
        tool = self.real[call.name]
        args, problem = compile_schema(tool.name, tool.parameters).check(call.args)
        assert args is not None, problem
        try:
            done = tool.execute(args, self._context())
            output = await done if inspect.isawaitable(done) else done
        except ToolFailure as failure:
            raise AssertionError(f"{call.name} {call.args}: {failure.message}") from failure
        return (output if isinstance(output, str) else output.output), False

    def _context(self) -> ToolContext:
        async def invoke(name: str, args: Mapping[str, Json]) -> Any:
            raise AssertionError("no nested calls here")

        return ToolContext(
            session_id="s",
            run_id="r",
            invocation_id="i",
            origin="agent",
            workspace=self.place,
            deadline=None,
            cancelled=asyncio.Event(),
            emit=lambda text: None,
            invoke=invoke,
            clock=JumpingClock(max_jump=0),
            new_id=SequentialEntropy().new_id,
        )


@pytest.mark.parametrize(
    ("prompt", "words"),
    [
        ("summarise this repository", ["## tally", "`README.md:3`", "- `tally/` – 6 files", "`make test`"]),
        ("where are the entries saved?", ["**`tally/storage.py:27`**", "27  def save("]),
        ("find TODOs", ["**3 markers in 3 files** (2 TODO, 1 FIXME)"]),
        ("what changed lately?", ["There is no git history here", "From `CHANGELOG.md`"]),
        ("how do I run the tests?", ["make test", "2 test files"]),
        ("find bugs", ["`tally/report.py:14` – the last element is left out", "14      for i in range("]),
        ("explain report.py", ["**`tally/report.py`**", "def by_category("]),
        ("budget limits", ["def over_budget(", "Tally keeps"]),
    ],
)
async def test_every_kind_of_question_on_the_sample(tmp_path: Path, prompt: str, words: list[str]) -> None:
    """No call is refused, and what the tools print is read as what it is."""
    write_sample(tmp_path)
    answer = await RealTalk(tmp_path).ask(prompt)
    for word in words:
        assert word in answer


async def test_a_question_about_this_repository() -> None:
    """Some hundred files, with the real search and paging."""
    talk = RealTalk(PROJECT)
    answer = await talk.ask("where is class JumpingClock defined?")
    assert answer.startswith("`JumpingClock` is defined at **`src/a3s_code/testing/clock.py:")
    assert "class JumpingClock:" in answer
