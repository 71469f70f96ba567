"""Model calls that fail, and are tried again (providers.md, *Failure and retry*; cases A10, A17, A18)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from runhelp import collected, data, open_session

from a3s_code import Agent
from a3s_code.errors import CodeError, LlmError
from a3s_code.ports.model import ModelDelta, ModelRequest
from a3s_code.testing import JumpingClock, ScriptedModel, calls, cut, error, text, turn
from a3s_code.testing.turns import Finish, Turn


def jumping(agent: Agent) -> JumpingClock:
    """Has the agent's sessions wait on a clock that takes no time."""
    clock = JumpingClock()
    agent._shared.clock = clock  # type: ignore[assignment]  # the seam: sessions take the agent's clock
    return clock


async def types(stream: Any) -> list[str]:
    return [event.type for event in await collected(stream)]


async def test_retry_after_is_kept(agent: Agent, workspace: Path) -> None:
    """A 429 waits as long as the provider asked for, at most a minute, and the run goes on."""
    clock = jumping(agent)
    model = ScriptedModel([error(429, retry_after_ms=17_000), error(429, retry_after_ms=86_400_000), "at last"])
    session = await open_session(agent, workspace, llm_client=model)
    assert (await session.send_async("go")).text == "at last"
    assert clock.sleeps == [17.0, 60.0]
    assert len(data(workspace, "model.turn")) == 1


async def test_other_waits_grow(agent: Agent, workspace: Path) -> None:
    """Without a hint the waits are exponential with jitter."""
    clock = jumping(agent)
    session = await open_session(agent, workspace, error(503), error(529), error(503), "x", circuit_breaker_threshold=4)
    await session.send_async("go")
    assert all(0.25 * 2**n <= wait <= 0.75 * 2**n for n, wait in enumerate(clock.sleeps))
    assert len(clock.sleeps) == 3


async def test_attempts_end(agent: Agent, workspace: Path) -> None:
    """After ``circuit_breaker_threshold`` attempts the run fails; the error keeps status and hint."""
    jumping(agent)
    failures = [error(503, retry_after_ms=1)] * 2
    session = await open_session(agent, workspace, *failures, "next", circuit_breaker_threshold=2)
    with pytest.raises(LlmError) as caught:
        await session.send_async("go")
    assert (caught.value.status, caught.value.retryable, caught.value.retry_after_ms) == (503, True, 1)
    assert caught.value.result.text == ""
    assert data(workspace, "run.closed")[0].error.code == "LLM_ERROR"
    assert (await session.send_async("go")).text == "next"


async def test_a_failure_that_no_retry_mends_is_not_retried(agent: Agent, workspace: Path) -> None:
    """A 400 fails at once (case A18)."""
    clock = jumping(agent)
    session = await open_session(agent, workspace, error(400), "never")
    with pytest.raises(LlmError):
        await session.send_async("go")
    assert clock.sleeps == []


async def test_a_cut_stream_is_begun_again_with_the_same_turn(agent: Agent, workspace: Path) -> None:
    """A stream that was cut after deltas leaves no fact; ``turn_start`` comes again with the same number (case A10)."""
    jumping(agent)
    session = await open_session(agent, workspace, [text("half an"), cut()], "whole answer")
    events = await collected(session.stream("go"))
    assert [event.turn for event in events if event.type == "turn_start"] == [1, 1]
    assert [event.text for event in events if event.type == "text_delta"] == ["half an", "whole answer"]
    assert [turn.text for turn in data(workspace, "model.turn")] == ["whole answer"]
    assert session.history()[-1] == {"role": "assistant", "content": "whole answer"}


async def test_at_most_one_retry_after_delivery(agent: Agent, workspace: Path) -> None:
    """What readers have seen is replaced once, not again and again."""
    jumping(agent)
    broken: Turn = [text("half"), cut()]
    session = await open_session(agent, workspace, broken, broken, "never", circuit_breaker_threshold=10)
    found = await types(session.stream("go"))
    assert found.count("turn_start") == 2
    assert found[-1] == "error"


async def test_half_a_call_never_runs(agent: Agent, workspace: Path) -> None:
    """A call whose arguments were cut is not run; the whole one of the next attempt is, once."""
    jumping(agent)
    half = turn(*calls(("write", {"file_path": "f", "content": "x"})), cut(1))
    whole = calls(("write", {"file_path": "f", "content": "y\n"}))
    session = await open_session(agent, workspace, half, whole, "done")
    assert (await session.send_async("go")).tool_calls_count == 1
    assert (workspace / "f").read_text() == "y\n"


class Raising:
    """A host's own client that fails in its own way."""

    def __init__(self, raised: BaseException) -> None:
        self.raised = raised

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelDelta]:
        yield ModelDelta(text="a")
        raise self.raised


@pytest.mark.parametrize("raised", [ValueError("bad"), KeyError("x"), TimeoutError(), SystemExit(2)])
async def test_a_client_that_raises(agent: Agent, workspace: Path, raised: BaseException) -> None:
    """Whatever a host's own client raises ends the run with LLM_ERROR, without a retry, and the loop goes on."""
    session = await open_session(agent, workspace, llm_client=Raising(raised))
    with pytest.raises(CodeError) as caught:
        await session.send_async("go")
    assert caught.value.code == "LLM_ERROR"
    assert type(raised).__name__ in str(caught.value)
    assert session.runs()[0]["status"] == "failed"


async def test_a_client_that_raises_before_its_stream(agent: Agent, workspace: Path) -> None:
    """A client whose ``stream`` is no generator may raise at once; that is its failure too, not ours."""

    class Broken:
        def stream(self, request: ModelRequest) -> AsyncIterator[ModelDelta]:
            raise ValueError("no stream today")

    session = await open_session(agent, workspace, llm_client=Broken())
    with pytest.raises(LlmError, match="no stream today"):
        await session.send_async("go")


async def test_a_refused_content(agent: Agent, workspace: Path) -> None:
    """A provider that refuses the content is an error, not an answer."""
    session = await open_session(agent, workspace, turn("no", Finish("content_filter")))
    with pytest.raises(LlmError, match="refused"):
        await session.send_async("go")
    assert data(workspace, "model.turn") == []
