"""Network grants in sessions: who is asked, what is shown, and what an approval is for (tools.md §3.7)."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from a3s_code import Agent, Session
from a3s_code.ports.sandbox import NetworkGrant
from a3s_code.testing import ScriptedModel, Turn, call, text
from a3s_code.workspace.sandbox.grants import Grants

pytest_plugins = ["sandboxfixtures"]
pytestmark = pytest.mark.usefixtures("native_sandbox")

HOST = "api.granted.example"
ALLOWED: dict[str, Any] = {"permission_policy": {"allow": ["bash"]}, "log_durability": "os", "session_id": "s"}
ASKED: dict[str, Any] = {**ALLOWED, "confirmation_policy": {"enabled": True}}


@pytest.fixture
def port(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """Of a listener that stands in for the granted host in every session."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = int(server.getsockname()[1])
        private = frozenset({NetworkGrant(HOST, port)})
        local = partial(Grants, resolve=lambda host, port: ["127.0.0.1"], private=private)
        monkeypatch.setattr("a3s_code.workspace.sandbox.session.Grants", local)
        yield port


def script(port: int) -> list[Turn]:
    connect = (
        f"exec 3<>/dev/tcp/127.0.0.1/3128; printf 'CONNECT {HOST}:{port} HTTP/1.1\\r\\n\\r\\n' >&3; "
        "read -r line <&3; echo $line | tee ran"
    )
    args = {"command": connect, "sandbox_permissions": "request_network_grant", "justification": "to publish"}
    return [call("bash", {**args, "network_grant": {"host": HOST, "port": port}}), text("done")]


async def run_to_the_end(session: Session) -> tuple[list[Any], list[dict[str, Any]]]:
    """The events of a run in which everything is approved, and what was waiting."""
    events, waiting = [], []
    async for event in await session.stream_async("go"):
        events.append(event)
        if event.type == "confirmation_required":
            waiting += session.pending_confirmations()
            assert await session.confirm_tool_use_async(str(waiting[-1]["tool_id"]), True)
    return events, waiting


def result_of(events: list[Any]) -> dict[str, Any]:
    [ended] = [event.payload for event in events if event.type == "tool_end"]
    return dict(ended)


@pytest.mark.parametrize("policy", [{"allow": ["bash"]}, {"ask": ["bash"], "default_decision": "allow"}])
async def test_an_approved_grant_reaches_its_origin(workspace: Path, port: int, policy: dict[str, Any]) -> None:
    """Whether the tool alone asks or the policy does too: once, naming the origin and the policy's digest; then the
    command reaches it, and its result says so."""
    async with await Agent.create_from_config_async({}) as agent:
        options = {**ASKED, "permission_policy": policy}
        session = await agent.session_async(workspace, llm_client=ScriptedModel(script(port)), **options)
        events, waiting = await run_to_the_end(session)
    [asked] = waiting
    assert (workspace / "ran").read_bytes() == b"HTTP/1.1 200 Connection established\r\n"
    granted = result_of(events)["metadata"]["network_grant"]
    assert (granted["host"], granted["port"]) == (HOST, port)
    assert asked["scope"] == f"{HOST}:{port} from inside the sandbox; policy {granted['policy_digest']}"
    assert asked["risk"]


async def test_without_a_channel_a_grant_fails_closed(workspace: Path, port: int) -> None:
    """An allow rule for ``bash`` is no grant: with nobody to ask the call is refused, and nothing runs."""
    async with await Agent.create_from_config_async({}) as agent:
        session = await agent.session_async(workspace, llm_client=ScriptedModel(script(port)), **ALLOWED)
        events = [event async for event in await session.stream_async("go")]
    assert "no confirmation provider is configured" in str(result_of(events)["output"])
    assert not (workspace / "ran").exists()


async def _parked(session: Session) -> None:
    async for event in await session.stream_async("go"):
        if event.type == "confirmation_required":
            return


STALE: list[tuple[dict[str, Any], str]] = [
    ({}, "Connection established"),
    ({"sandbox_writable": [".git"]}, "another sandbox policy"),
    ({"credential_policy": "off"}, "another sandbox policy"),
    ({"sandbox": "host"}, "not available here"),
]


@pytest.mark.parametrize(("options", "said"), STALE)
async def test_a_stale_policy_is_refused(workspace: Path, port: int, options: dict[str, Any], said: str) -> None:
    """A grant that was asked for under one policy, and approved when the session is open under another, is refused;
    under the same one it counts in the next session too."""
    async with await Agent.create_from_config_async({}) as agent:
        session = await agent.session_async(workspace, llm_client=ScriptedModel(script(port)), **ASKED)
        await _parked(session)
        run_id = str(session.runs()[0]["id"])
    async with await Agent.create_from_config_async({}) as agent:
        session = await agent.session_async(workspace, llm_client=ScriptedModel([text("done")]), **{**ASKED, **options})
        [pending] = session.pending_confirmations()
        assert await session.confirm_tool_use_async(str(pending["tool_id"]), True)
        assert (await session.resume_run_async(run_id)).text == "done"
    assert (workspace / "ran").exists() is (said == "Connection established")
    assert said in (workspace / ".a3s" / "effect-log" / "s.jsonl").read_text()
