"""A model that speaks faster than anybody listens (api.md, *Events*)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

from a3s_code import Agent, ModelDelta, ModelRequest


class Torrent:
    """Gives everything at once, without ever waiting."""

    def __init__(self) -> None:
        self.given = 0

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelDelta]:
        for _ in range(1000):
            self.given += 1
            yield ModelDelta(text="word ")
        yield ModelDelta(finish="stop")


async def test_a_reader_keeps_up_with_a_model_that_never_waits(tmp_path: Path) -> None:
    """The first delta is told at once and the others soon: a burst holds up neither readers nor other sessions."""
    model = Torrent()
    behind: list[int] = []
    read = 0
    async with await Agent.create_from_config_async({}) as agent:
        session = await agent.session_async(tmp_path, llm_client=model)
        async for event in await session.stream_async("go"):
            if event.type == "text_delta":
                read += len((event.text or "").split())
                behind.append(model.given - read)
    assert read == 1000
    assert behind[0] == 0
    assert max(behind) < 64
