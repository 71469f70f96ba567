"""The Python snippets of the documents that ask for this runtime run exactly as they are printed there."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from docpages import run_python

from a3s_code import Agent, AgentResult, FileSessionStore, Session, SessionOptions, tool
from a3s_code.testing import ScriptedModel, call, delay

SNIPPETS = Path(__file__).parent / "seed_snippets.md"

LATER: dict[str, tuple[type[Exception], str, str]] = {
    "Disconnecting idle MCP servers": (AttributeError, "disconnect_idle_mcp", "MCP comes later"),
}
"""Snippets of features that this version doesn't have: what they raise now, and why. This list may only shrink."""


def snippets() -> dict[str, str]:
    found = re.findall(r"^## ([^\n]+)\n\n```python\n(.*?)^```$", SNIPPETS.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    return dict(found)


class Placed:
    """An agent for whom the documents' example directories are the reader's own."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent

    def session(self, workspace: str, *args: Any) -> Session:
        return self._agent.session("." if workspace in ("/path/to/project", "/repo") else workspace, *args)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._agent, name)


@pytest.fixture
def names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, object]]:
    """What the snippets take for granted."""
    monkeypatch.chdir(tmp_path)
    Path("agent.acl").write_text('default_model = "offline/scout"\n')
    agent = Agent.create("agent.acl")
    session = agent.session(".", llm_client=ScriptedModel(["Two blockers."], repeat_last=True))
    yield {
        "agent": Placed(agent),
        "agent_b": Placed(agent),
        "session": session,
        "workspace": os.getcwd(),
        "SessionOptions": SessionOptions,
        "FileSessionStore": FileSessionStore,
        "over_limit": lambda session_id, tokens: False,
        "meter": lambda session_id, usage: None,
        "track": lambda session_id, tokens: None,
    }
    agent.close()


@pytest.fixture
def at_work(names: dict[str, object]) -> Iterator[None]:
    """The reader's session has a run at work, whose tool only ends when it is interrupted."""
    entered = threading.Event()

    @tool
    async def hold() -> str:
        """Waits for the interrupt."""
        entered.set()
        await asyncio.Event().wait()
        return "never"

    agent = names["agent"]
    assert isinstance(agent, Placed)
    held = agent.session(".", SessionOptions(llm_client=ScriptedModel([[call("hold", {})]]), tools=[hold]))
    names["session"] = held
    with ThreadPoolExecutor(1) as threads:
        result = threads.submit(held.send, "go")
        entered.wait()
        yield
        held.cancel()
        result.result()


@pytest.fixture
def left_behind(names: dict[str, object]) -> None:
    """What node A was at when it went away, in the stores that the documents name."""
    agent, store_a = names["agent"], FileSessionStore("store-a")
    assert isinstance(agent, Placed)
    model = ScriptedModel([[call("ls", {})], [delay(asyncio.Event()), "never"]])
    Path("node-a").mkdir()
    given = {"session_store": store_a, "session_id": "session-from-node-a", "llm_client": model}
    session = agent.session("node-a", given)
    session.spawn_run_with_id("run-id-from-node-a", "Name the blockers")
    while asyncio.run(store_a.load_checkpoint("run-id-from-node-a")) is None:
        pass
    for store in ("./.a3s/sessions", "./sessions"):
        shutil.copytree("store-a", store)
    session.close()


@pytest.fixture
def saved(names: dict[str, object]) -> None:
    """The session that the documents resume was saved in its store."""
    agent = names["agent"]
    assert isinstance(agent, Placed)
    given = {"session_store": FileSessionStore("./.a3s/sessions"), "session_id": "release-review", "auto_save": True}
    session = agent.session(".", {**given, "llm_client": ScriptedModel(["Two blockers."])})
    session.send("Name the blockers")
    session.close()


def run(name: str, names: dict[str, object]) -> str:
    with asyncio.Runner() as runner:
        return run_python(snippets()[name], names, where=str(SNIPPETS), line=1, runner=runner)


PRINTED = {
    "Identity labels": "tenant-example\nprincipal-example\nagent-template-example\ntrace-example\n",
    "Deterministic ids and time": "replay-1\n",
    "Send": "Two blockers.\n0\nskipped\n",
    "Stream": "Two blockers.",
    "Lifecycle and close": "",
    "Agent-side registry": "True\n",
    "Host identity labels": "tenant-example principal-example\n",
    "Budget guard": "",
    "Budget guard of the contract": "",
    "Steer and interrupt an active run": "accepted\n",
    "Loop checkpoints and run resumption": "",
    "Resuming on another node": "",
    "Resume": "",
}

NEEDS = {
    "Steer and interrupt an active run": "at_work",
    "Loop checkpoints and run resumption": "left_behind",
    "Resuming on another node": "left_behind",
    "Resume": "saved",
}
"""What has to be there before a snippet."""


@pytest.mark.parametrize("name", PRINTED)
def test_a_snippet_runs_as_it_is_printed(name: str, names: dict[str, object], request: pytest.FixtureRequest) -> None:
    """A snippet whose feature is here runs unchanged and prints what its document lets expect."""
    if name in NEEDS:
        request.getfixturevalue(NEEDS[name])
    assert run(name, names) == PRINTED[name]


@pytest.mark.parametrize("name", ["Loop checkpoints and run resumption", "Resuming on another node"])
def test_a_resumed_snippet_goes_on_with_the_run(name: str, names: dict[str, object], left_behind: None) -> None:
    """The snippet's result counts the call that node A had made, and its session has the conversation."""
    run(name, names)
    result, session = names["result"], names["session"]
    assert isinstance(result, AgentResult)
    assert isinstance(session, Session)
    assert result.stop_reason == "done"
    assert result.tool_calls_count >= 1
    assert session.history()[0]["content"] == "Name the blockers"


@pytest.mark.parametrize("name", LATER)
def test_a_snippet_of_a_later_version_says_what_is_missing(name: str, names: dict[str, object]) -> None:
    """A snippet whose feature is missing fails by naming it; once it runs it has to leave the list."""
    kind, message, _ = LATER[name]
    with pytest.raises(kind, match=message):
        run(name, names)


def test_every_snippet_is_run_or_has_a_reason() -> None:
    """No snippet of the documents is forgotten."""
    assert PRINTED.keys() | LATER.keys() == snippets().keys()
    assert not PRINTED.keys() & LATER.keys()
