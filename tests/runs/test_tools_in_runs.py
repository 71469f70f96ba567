"""Calls of the model: together, on the right loop and thread, and when they fail (tools.md §1, §2; cases B04, H13)."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest
from runhelp import data, kinds, make_agent, one_result_each, open_session, outcomes, until

from a3s_code import Agent, HostEnvConfig, tool
from a3s_code.engine.invoke import execute
from a3s_code.ports.tool import Attachment, ToolContext, ToolFailure, ToolOutput
from a3s_code.testing import ScriptedModel, call, calls


def together(names: list[str], barrier: Any) -> Any:
    @tool(read_only=True, idempotent=True, max_parallelism=16)
    async def look(name: str) -> str:
        """Looks, once all others do too, and answers in reverse order."""
        names.append(name)
        await barrier(name)
        return name

    return look


class InReverse:
    """Lets nobody through before all are there, then the last first."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.inside = 0
        self.all_there = asyncio.Event()
        self.turns = {str(n): asyncio.Event() for n in range(count)}

    async def __call__(self, name: str) -> None:
        self.inside += 1
        if self.inside == self.count:
            self.all_there.set()
            self.turns[str(self.count - 1)].set()
        await self.all_there.wait()
        await self.turns[name].wait()
        if int(name):
            self.turns[str(int(name) - 1)].set()


async def test_parallel_reads_run_together_and_are_recorded_as_they_come(agent: Agent, workspace: Path) -> None:
    """Parallel-safe calls are all at work before any ends; facts are in order of arrival, the model sees call order."""
    names: list[str] = []
    model = ScriptedModel([calls(*[call("look", {"name": str(n)}) for n in range(4)]), "done"])

    async def last_first(name: str) -> None:
        await until(lambda: len(names) == 4 and kinds(workspace).count("tool.result") == 3 - int(name))

    session = await open_session(agent, workspace, llm_client=model, tools=[together(names, last_first)])
    result = await session.send_async("go")
    assert (result.text, result.steps) == ("done", 3)
    assert names == ["0", "1", "2", "3"]
    assert [each.output for each in data(workspace, "tool.result")] == ["3", "2", "1", "0"]
    assert [message.output for message in model.requests[1].messages[-4:]] == ["0", "1", "2", "3"]  # type: ignore[union-attr]  # ToolMessages
    assert kinds(workspace)[3:7] == ["tool.started"] * 4


async def test_parallel_results_in_call_order_under_a_host_env(agent: Agent, workspace: Path) -> None:
    """With fixed ids the facts are in call order, whatever came first."""
    env = HostEnvConfig("n", 5)
    script = [calls(*[call("look", {"name": str(n)}) for n in range(4)]), "done"]
    session = await open_session(agent, workspace, *script, tools=[together([], InReverse(4))], host_env=env)
    await session.send_async("go")
    assert [each.output for each in data(workspace, "tool.result")] == ["0", "1", "2", "3"]


async def test_built_in_reads_run_together(agent: Agent, workspace: Path) -> None:
    """Two reads of one turn are both started before the first has a result."""
    (workspace / "a").write_text("a\n")
    script = [calls(("read", {"file_path": "a"}), ("ls", {}), ("write", {"file_path": "b", "content": "b\n"})), "done"]
    session = await open_session(agent, workspace, *script)
    await session.send_async("go")
    assert kinds(workspace)[3:9] == [*["tool.started"] * 2, *["tool.result"] * 2, "tool.started", "tool.result"]


async def test_where_host_tools_run(workspace: Path) -> None:
    """A plain tool runs in a worker thread, a coroutine one on the loop where the session was made."""
    made = await make_agent()
    where: dict[str, Any] = {}

    @tool
    def plain() -> str:
        """Runs somewhere."""
        where["plain"] = threading.current_thread().name
        return "ok"

    @tool
    async def coroutine() -> str:
        """Runs somewhere."""
        where["loop"] = asyncio.get_running_loop()
        return "ok"

    session = await open_session(
        made, workspace, calls(("plain", {}), ("coroutine", {})), "done", tools=[plain, coroutine]
    )
    await session.send_async("go")
    assert where == {"plain": "a3s-code-callback", "loop": asyncio.get_running_loop()}
    await made.close_async()


def test_a_coroutine_tool_of_another_loop(workspace: Path) -> None:
    """A coroutine tool given on a loop that is not the home runs there, while ``send_async`` is awaited there."""
    made = Agent.create_from_config({})

    async def use() -> bool:
        seen: list[asyncio.AbstractEventLoop] = []

        @tool
        async def mine() -> str:
            """Runs here."""
            seen.append(asyncio.get_running_loop())
            return "ok"

        session = await open_session(made, workspace, calls(("mine", {})), "done", tools=[mine])
        await session.send_async("go")
        return seen == [asyncio.get_running_loop()]

    assert asyncio.run(use())
    made.close()


async def test_a_blocking_tool_does_not_hold_up_the_loop(agent: Agent, workspace: Path) -> None:
    """While a plain tool blocks its thread, another session of the agent answers (case H13)."""
    release = threading.Event()

    @tool
    def block() -> str:
        """Blocks."""
        release.wait(30)
        return "ok"

    one = await open_session(agent, workspace, calls(("block", {})), "one", tools=[block])
    two = await open_session(agent, workspace, "two", session_id="t")
    running = asyncio.ensure_future(one.send_async("go"))
    assert (await two.send_async("go")).text == "two"
    release.set()
    assert (await running).text == "one"


class Cycle(dict[str, Any]):
    def __init__(self) -> None:
        super().__init__()
        self["self"] = self


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (ValueError("bad value"), "ValueError: bad value"),
        (KeyError("k"), "KeyError: 'k'"),
        (SystemExit(3), "SystemExit"),
        (KeyboardInterrupt(), "KeyboardInterrupt"),
        (asyncio.CancelledError(), "CancelledError"),
        (StopIteration(), "StopIteration"),
        (GeneratorExit(), "GeneratorExit"),
        (ToolFailure("internal", "said so"), "said so"),
        (ToolFailure("internal", 5), "expected str"),  # type: ignore[arg-type]  # the point
        (ToolFailure("internal", "m", metadata={"x": object()}), "no JSON"),  # type: ignore[dict-item]  # the point
        (ToolOutput(5), "output is 5, expected str"),  # type: ignore[arg-type]  # the point
        (ToolOutput("x", "1"), "exit_code is '1', expected int"),  # type: ignore[arg-type]  # the point
        (ToolOutput("x", True), "exit_code is True, expected int"),
        (ToolOutput("x", 2**70), "exit_code is no 64-bit number"),
        (ToolOutput("x", metadata={"x": object()}), "metadata is no JSON"),  # type: ignore[dict-item]  # the point
        (ToolOutput("x", metadata=[]), "metadata is [], expected dict"),  # type: ignore[arg-type]  # the point
        (ToolOutput("x", metadata=Cycle()), "metadata is no JSON"),
        (ToolOutput("x", error_kind=4), "error_kind is 4"),  # type: ignore[arg-type]  # the point
        (ToolOutput("x", attachments=(1,)), "attachments are not all Attachment"),  # type: ignore[arg-type]  # the point
        (object(), "no JSON value"),
    ],
)
@pytest.mark.parametrize("coroutine", [False, True])
async def test_a_failing_tool_is_a_failed_result(
    agent: Agent, workspace: Path, given: object, expected: str, coroutine: bool
) -> None:
    """Whatever a tool raises or returns, its call gets a result of kind ``internal`` and the run goes on."""

    def give() -> Any:
        if isinstance(given, BaseException):
            raise given
        return given

    if coroutine:

        @tool
        async def bad() -> Any:
            """Is bad."""
            return give()
    else:

        @tool
        def bad() -> Any:
            """Is bad."""
            return give()

    session = await open_session(agent, workspace, calls(("bad", {})), "went on", tools=[bad])
    assert (await session.send_async("go")).text == "went on"
    (result,) = data(workspace, "tool.result")
    assert (result.outcome, result.metadata["error"]["type"]) == ("error", "internal")
    assert expected in result.output
    assert "Traceback" not in result.output


async def test_odd_text_from_a_tool_is_kept(agent: Agent, workspace: Path) -> None:
    """Lone surrogates, NUL and huge numbers neither end the run nor spoil the log."""

    @tool
    def odd() -> ToolOutput:
        """Is odd."""
        return ToolOutput("a\ud800b\0c", metadata={"big": 2**63, "text": "\udfff", "nan": float("inf")})

    session = await open_session(agent, workspace, calls(("odd", {})), "went on", tools=[odd])
    assert (await session.send_async("go")).text == "went on"
    (result,) = data(workspace, "tool.result")
    assert result.output == "a\ufffdb\0c"


async def test_attachments_of_a_tool_are_kept_beside_the_log(agent: Agent, workspace: Path) -> None:
    """The bytes go under ``.a3s/attachments``, the fact has the digest."""
    png = b"\x89PNG\r\n\x1a\n" + b"\0" * 16

    @tool
    def picture() -> ToolOutput:
        """Draws."""
        return ToolOutput("drawn", attachments=(Attachment("image/png", png),))

    session = await open_session(agent, workspace, calls(("picture", {})), "done", tools=[picture])
    await session.send_async("go")
    (result,) = data(workspace, "tool.result")
    (ref,) = result.attachments
    assert session._engine.parts.blobs.load(ref) == png


async def test_unknown_tool_and_invalid_arguments(agent: Agent, workspace: Path) -> None:
    """Both get a result that says what is wrong, nothing starts, and the run goes on."""
    script = [calls(("reed", {}), ("read", {"fil_path": "a"}), call("ls", {"path": 4})), "went on"]
    session = await open_session(agent, workspace, *script)
    assert (await session.send_async("go")).text == "went on"
    unknown, *invalid = data(workspace, "tool.result")
    assert unknown.output.startswith("Unknown tool: reed. Did you mean read")
    assert [each.metadata["error"]["type"] for each in invalid] == ["invalid_argument"] * 2
    assert "did you mean 'file_path'?" in invalid[0].output
    assert "tool.started" not in kinds(workspace)
    assert one_result_each(workspace)


@pytest.mark.parametrize("where", ["session", "tool"])
@pytest.mark.parametrize("coroutine", [False, True])
async def test_a_tool_out_of_time(
    agent: Agent, workspace: Path, monkeypatch: pytest.MonkeyPatch, where: str, coroutine: bool
) -> None:
    """The smaller of ``tool_timeout_ms`` and the tool's own limit ends the call with exit code 124."""
    monkeypatch.setattr(execute, "GRACE_S", 0.01)
    monkeypatch.setattr(execute, "DEADLINE_SLACK_S", 0.0)
    release = threading.Event()
    own = 20 if where == "tool" else 60_000

    if coroutine:

        @tool(timeout_ms=own)
        async def slow() -> str:
            """Is slow."""
            await asyncio.Event().wait()
            return "never"
    else:

        @tool(timeout_ms=own)
        def slow() -> str:
            """Is slow."""
            release.wait(30)
            return "too late"

    limit = 60_000 if where == "tool" else 20
    session = await open_session(agent, workspace, calls(("slow", {})), "went on", tools=[slow], tool_timeout_ms=limit)
    assert (await session.send_async("go")).text == "went on"
    release.set()
    (result,) = data(workspace, "tool.result")
    assert (result.exit_code, result.outcome, result.output) == (124, "error", "Timed out after 20 ms")


async def test_a_tool_that_sees_its_deadline(agent: Agent, workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tool that ends when it is asked to is reported as timed out, with no wait for the grace."""
    monkeypatch.setattr(execute, "DEADLINE_SLACK_S", 0.0)

    @tool(timeout_ms=10)
    async def polite(ctx: ToolContext) -> str:
        """Is polite."""
        await ctx.cancelled.wait()
        return "so far"

    session = await open_session(agent, workspace, calls(("polite", {})), "went on", tools=[polite])
    assert (await session.send_async("go")).text == "went on"
    (result,) = data(workspace, "tool.result")
    assert result.exit_code == 124


async def test_nested_calls_are_governed(agent: Agent, workspace: Path) -> None:
    """A tool's own call of another tool passes the policy, and its events and facts are the outer call's only."""

    @tool
    async def outer(ctx: ToolContext) -> str:
        """Calls others."""
        allowed = await ctx.invoke("ls", {})
        denied = await ctx.invoke("bash", {"command": "touch never"})
        return f"{allowed.error_kind} {denied.error_kind}"

    policy = {"deny": ["bash"], "default_decision": "allow"}
    session = await open_session(
        agent, workspace, calls(("outer", {})), "done", tools=[outer], permission_policy=policy
    )
    await session.send_async("go")
    assert [each.output for each in data(workspace, "tool.result")] == ["None permission_denied"]
    assert not (workspace / "never").exists()


async def test_a_denied_call_is_told_and_the_rest_runs(agent: Agent, workspace: Path) -> None:
    """A call that the policy denies gets its refusal at once; the others of the turn run."""
    policy = {"deny": ["write"], "default_decision": "allow"}
    script = [calls(("ls", {}), ("write", {"file_path": "f", "content": "x"})), "done"]
    session = await open_session(agent, workspace, *script, permission_policy=policy)
    await session.send_async("go")
    assert outcomes(workspace) == {"call_1_1": "ok", "call_1_2": "denied"}
    assert not (workspace / "f").exists()


async def test_an_ask_that_nobody_can_answer_is_refused(agent: Agent, workspace: Path) -> None:
    """Without a confirmation policy an ask is refused at once and the text says what would allow it."""
    policy = {"ask": ["write"], "default_decision": "allow"}
    script = [calls(("write", {"file_path": "f", "content": "x"})), "done"]
    session = await open_session(agent, workspace, *script, permission_policy=policy)
    assert (await session.send_async("go")).text == "done"
    (result,) = data(workspace, "tool.result")
    assert result.metadata["error"]["type"] == "confirmation_unavailable"
    assert "permission_policy" in result.output
