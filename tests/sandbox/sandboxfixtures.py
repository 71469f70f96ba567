"""Fixtures of the sandbox's tests: a workspace, what must stay out of reach, and whether there is a sandbox at all."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest
import pytest_asyncio
from sandboxhelp import PATH, Shell, place_in_sight

from a3s_code.system.process import LocalProcesses
from a3s_code.workspace.sandbox.session import native


@pytest.fixture(scope="session")
def why_not() -> str | None:
    """Why there is no native sandbox on this machine."""
    found = native(LocalProcesses(), {"PATH": PATH})
    state = asyncio.run(found.state())
    return None if state.kind == "native" else state.reason


@pytest.fixture
def native_sandbox(why_not: str | None) -> None:
    if why_not is not None:
        pytest.skip(f"no native sandbox here: {why_not}")


@pytest.fixture
def outside() -> Iterator[Path]:
    """A directory that commands see, but must not change; its ``home`` is the user's."""
    place = place_in_sight()
    if place is None:
        pytest.skip("the checkout lies below /tmp, which commands don't see, and nothing else can be written to")
    made = Path(tempfile.mkdtemp(prefix=".sandbox-outside-", dir=place))
    home = made / "home"
    (home / ".ssh").mkdir(parents=True)
    (home / ".ssh" / "id_ed25519").write_text("SECRET ssh")
    (home / ".aws").mkdir()
    (home / ".aws" / "credentials").write_text("SECRET aws")
    for name in (".netrc", ".npmrc", ".pypirc", ".git-credentials"):
        (home / name).write_text(f"SECRET {name}")
    (home / ".config" / "gh").mkdir(parents=True)
    (home / ".config" / "gh" / "hosts.yml").write_text("SECRET gh")
    (made / "plain.txt").write_text("readable")
    yield made
    shutil.rmtree(made, ignore_errors=True)


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    made = tmp_path / "ws"
    made.mkdir()
    return made


@pytest_asyncio.fixture
async def shell(native_sandbox: None, workspace: Path, outside: Path) -> AsyncIterator[Shell]:
    made = Shell(workspace, {"HOME": str(outside / "home")})
    yield made
    await made.sandbox.aclose()


@pytest_asyncio.fixture
async def shells(native_sandbox: None, workspace: Path, outside: Path) -> AsyncIterator[Callable[..., Shell]]:
    """Makes shells with other choices on the same workspace."""
    made: list[Shell] = []

    def make(**choice: object) -> Shell:
        made.append(Shell(workspace, {"HOME": str(outside / "home"), "PATH": os.environ["PATH"]}, **choice))
        return made[-1]

    yield make
    for each in made:
        await each.sandbox.aclose()
