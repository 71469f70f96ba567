"""Questions of the model at the terminal and by ``answer``."""

from __future__ import annotations

import asyncio
import io
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from a3s_code import Agent
from a3s_code.api.stream import EventStream
from a3s_code.cli.asking import Person
from a3s_code.cli.governed import Governed
from a3s_code.cli.keyboard import Keyboard
from a3s_code.cli.main import main
from a3s_code.cli.render import PlainRenderer
from a3s_code.cli.run import WAITS, watch
from a3s_code.core.content import ToolMessage
from a3s_code.core.policy import preset
from a3s_code.testing import ScriptedModel, calls

RIGHTS = Governed(preset("full"), "full", None, yes=False, asks=True, words=())


class Typist(io.StringIO):
    """Types the next answer into a terminal once its question was written."""

    def __init__(self, fd: int, answers: list[str]) -> None:
        super().__init__()
        self._fd, self._answers = fd, answers

    def write(self, text: str) -> int:
        if text.endswith("? "):
            os.write(self._fd, self._answers.pop(0).encode())
        return super().write(text)


@pytest.fixture
def pty() -> Iterator[tuple[int, int]]:
    ours, theirs = os.openpty()
    yield ours, theirs
    os.close(ours)
    os.close(theirs)


def outputs(model: ScriptedModel) -> list[str]:
    """The results that the model saw last, request by request."""
    last = [request.messages[-1] for request in model.requests[1:]]
    return [message.output for message in last if isinstance(message, ToolMessage)]


async def watched(workspace: Path, model: ScriptedModel, keyboard: Keyboard, *, resume: bool) -> tuple[int, str]:
    """The exit code, and what was told."""
    told = io.StringIO()
    async with await Agent.create_async('default_model = "offline/scout"') as agent:
        session = await agent.session_async(workspace, session_id="asks", llm_client=model)
        last = session.current_run()
        events = await (session.resume_stream_async(str(last["id"])) if resume and last else session.stream_async("go"))
        assert isinstance(events, EventStream)
        with PlainRenderer(told) as renderer:
            ended = await watch(events, session, renderer, Person(session, RIGHTS, keyboard))
        await session.close_async()
    return ended.code, told.getvalue()


def test_a_question_takes_a_text_or_an_options_number(
    tmp_path: Path, pty: tuple[int, int], capsys: pytest.CaptureFixture[str]
) -> None:
    """The number of an option answers with its label, an empty line asks again, Ctrl-D leaves it open; `pending` and
    `answer` then find it in the log, and the resumed run goes on with it."""
    asks = calls(("ask_user", {"question": "Which colour?", "options": ["red", "blue"]}))
    model = ScriptedModel([asks, asks, asks, "Painted."])
    keyboard = Keyboard(pty[1], Typist(pty[0], ["2\n", "\n", "dark green\n", "\x04"]))
    code, told = asyncio.run(watched(tmp_path, model, keyboard, resume=False))
    assert code == WAITS
    assert "? Which colour?\n  ? 1. red\n  ? 2. blue\n" in told
    assert outputs(model) == ["blue", "dark green"]

    where = ["-w", str(tmp_path)]
    assert main(["pending", *where]) == 0
    (row,) = capsys.readouterr().out.splitlines()[1:]
    assert "Which colour?" in row
    call = row.split()[1]
    assert main(["answer", "asks", call, "yes", "--reason", "why", *where]) == 2
    assert "without --reason" in capsys.readouterr().err
    assert main(["answer", "asks", call, "1", *where]) == 0
    assert capsys.readouterr().out == "answered: Which colour?\n"
    code, told = asyncio.run(watched(tmp_path, model, keyboard, resume=True))
    assert (code, outputs(model)[-1]) == (0, "red")
    assert "Painted." in told
