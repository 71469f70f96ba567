"""What all tests share: an agent, an empty workspace, and the proofs' marker and summary.

There is one file of this name, as type checkers take two for the same module.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
import pytest_asyncio
from hypothesis import HealthCheck, settings

from a3s_code import Agent

settings.register_profile("tests", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
settings.load_profile("tests")  # a slow machine is no fault, and a test says the same each time

_told: list[str] = []
_PROOFS = Path(__file__).parent / "prove"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(_PROOFS):
            item.add_marker(pytest.mark.prove)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for line in _told:
        terminalreporter.write_line(line)


@pytest.fixture
def tell() -> Callable[[str], None]:
    """Says what a proof has tried, in the summary of the test run."""
    return _told.append


@pytest_asyncio.fixture
async def agent() -> AsyncIterator[Agent]:
    """An agent whose home is the test's loop."""
    made = await Agent.create_from_config_async({})
    yield made
    await made.close_async()


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """An empty directory."""
    made = tmp_path / "ws"
    made.mkdir()
    return made


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    """A workspace on another node."""
    made = tmp_path / "elsewhere"
    made.mkdir()
    return made
