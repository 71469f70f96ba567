"""A model that says nothing any more (cases H18): a typed error, not a hang."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from a3s_code import Agent, LlmError, ModelDelta, ModelRequest
from a3s_code.engine import heartbeat, model_call


class Stalls:
    """A client without a deadline of its own that stops in the middle of its answer."""

    def __init__(self) -> None:
        self.asked = 0

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelDelta]:
        self.asked += 1
        yield ModelDelta(text="Let me ")
        await asyncio.Event().wait()


@pytest.fixture(autouse=True)
def _no_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_call, "CLIENTS_FIRST_MS", 0)


async def test_a_silent_model_is_an_error_that_a_retry_may_mend(agent: Agent, workspace: Path) -> None:
    """After deltas were delivered it is tried once more, then the run fails and the session goes on."""
    model = Stalls()
    session = await agent.session_async(workspace, llm_client=model, llm_api_timeout_ms=30)
    with pytest.raises(LlmError, match="The model was silent for 30 ms") as caught:
        await session.send_async("go")
    assert caught.value.retryable
    assert model.asked == 2
    assert session.runs()[0]["status"] == "failed"
    assert not asyncio.current_task().cancelling()  # type: ignore[union-attr]  # a test runs in a task


async def test_an_interrupt_during_silence_is_an_interrupt(agent: Agent, workspace: Path) -> None:
    """The deadline and the interrupt are told apart."""
    session = await agent.session_async(workspace, llm_client=Stalls())
    async for event in session.stream("go"):
        if event.type == "text_delta":
            session.cancel()
    assert event.payload["stop_reason"] == "cancelled"


async def test_a_quiet_run_tells_its_readers_that_it_is_alive(
    agent: Agent, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Heartbeats say the phase; they are for whoever reads, and no part of the record."""
    monkeypatch.setattr(heartbeat, "EVERY_S", 0.005)
    session = await agent.session_async(workspace, llm_client=Stalls())
    beats = []
    async for event in session.stream("go"):
        if event.type == "heartbeat":
            beats.append(event.payload)
            session.cancel()
    assert beats[0] == {"phase": "infer"}
    run = session.current_run()
    assert run is not None
    assert "heartbeat" not in {event["type"] for event in session.run_events(str(run["id"]))}
