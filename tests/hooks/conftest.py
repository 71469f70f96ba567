"""Fixtures of the tests of hooks: an agent, and a workspace that is empty."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from a3s_code import Agent


@pytest_asyncio.fixture
async def agent() -> AsyncIterator[Agent]:
    made = await Agent.create_from_config_async({})
    yield made
    await made.close_async()


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    made = tmp_path / "ws"
    made.mkdir()
    return made
