"""A recorded log goes through the loop again: every fact comes out the same, or the report says where and why not."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, ClassVar

import pytest
from msgspec.structs import replace as changed

from a3s_code import Agent, CodeError, LlmError, ModelRequest, PermissionPolicy, Session, ToolOutput, tool
from a3s_code.core.codec import Line, encode
from a3s_code.core.facts import ModelTurn, ToolResulted, UserSaid
from a3s_code.engine.replay.replay import Replayed, replay
from a3s_code.ports.tool import Attachment, ToolCapabilities, ToolContext
from a3s_code.stores.factlog import log_path
from a3s_code.stores.logfile import read_header, read_log
from a3s_code.testing import ScriptedModel, call, calls, thought, turn

ACL = 'default_model = "offline/scout"'


def lines_of(workspace: Path) -> list[Line]:
    return list(read_log(log_path(str(workspace), "s1")))


async def replayed(workspace: Path) -> Replayed:
    return await asyncio.wait_for(replay(read_header(log_path(str(workspace), "s1")), lines_of(workspace)), 10)


async def record(workspace: Path, script: list[Any], *prompts: str, **options: Any) -> list[str]:
    """One session's prompts over a scripted model; gives the codes of the errors that runs ended with."""
    codes = []
    async with await Agent.create_async(ACL) as agent:
        options = {"tool_budget": None, "llm_client": ScriptedModel(script), **options}
        session = await agent.session_async(workspace, session_id="s1", **options)
        for prompt in prompts or ("go",):
            try:
                await session.send_async(prompt)
            except CodeError as error:
                codes.append(error.code)
    return codes


def assert_same(done: Replayed) -> None:
    assert done.difference is None
    assert (done.same, done.taken) == (done.total, ())


class Slow:
    """A read-only tool whose calls end in the opposite order."""

    name = "slow"
    description = "waits"
    parameters: ClassVar[dict[str, Any]] = {
        "type": "object",
        "properties": {"n": {"type": "integer"}},
        "required": ["n"],
    }

    def __init__(self) -> None:
        self.ended = asyncio.Event()

    def capabilities(self, args: Any) -> ToolCapabilities:
        return ToolCapabilities(read_only=True, idempotent=True, max_parallelism=4)

    async def execute(self, args: Any, ctx: ToolContext) -> ToolOutput:
        if args["n"] == 1:
            await self.ended.wait()
            for _ in range(100):  # until the other result is written
                await asyncio.sleep(0)
        self.ended.set()
        return ToolOutput(f"ended {args['n']}", metadata={"n": args["n"], "half": 0.5})


class Photo:
    name = "photo"
    description = "an image"
    parameters: ClassVar[dict[str, Any]] = {"type": "object"}

    def execute(self, args: Any, ctx: ToolContext) -> ToolOutput:
        return ToolOutput("here", attachments=(Attachment("image/png", b"\x89PNG\r\n\x1a\n1"),))


async def test_a_run_with_every_kind_of_call_comes_out_the_same(tmp_path: Path) -> None:
    """Reads side by side, a command, a wrong argument, an unknown tool, malformed JSON, a denied path and an image."""
    (tmp_path / "a.txt").write_text("one\n")

    @tool
    def fails(text: str) -> str:
        """Fails."""
        raise ValueError(text)

    script = [
        turn(
            thought("hm", "sig"), "First, ", calls(("slow", {"n": 1}), ("slow", {"n": 2}), ("bash", {"command": "x"}))
        ),
        calls(("read", {"file_path": "a.txt"}), ("read", {}), ("nothing", {"a": 1}), ("fails", {"text": "no"})),
        calls(call("ls", "{broken"), call("write", {"file_path": "../out", "content": "x"})),
        calls(
            ("write", {"file_path": ".a3s/effect-log/x", "content": ""}), ("photo", {}), ("write", {"file_path": "b"})
        ),
        "All done",
    ]
    await record(tmp_path, script, tools=[Slow(), fails, Photo()])
    kinds = [line.fact.kind for line in lines_of(tmp_path)]
    assert kinds.count("tool.result") == 12
    ended = [f.fact.data.output for f in lines_of(tmp_path) if isinstance(f.fact.data, ToolResulted)][:2]
    assert ended == ["ended 2", "ended 1"]
    assert_same(await replayed(tmp_path))


@pytest.mark.parametrize(
    ("script", "options", "codes"),
    [
        ([calls(("ls", {"path": "."}), ("ls", {"path": "./."}), ("ls", {"path": ""}))], {"tool_budget": 2}, []),
        ([calls(("ls", {})), calls(("ls", {"path": "."}))], {"step_limit": 3}, ["STEP_LIMIT"]),
        ([calls(("ls", {}))] * 5, {}, ["DUPLICATE_TOOL_CALL"]),
        ([calls(call("ls", "{"))] * 3, {}, ["LLM_ERROR"]),
        ([turn("half", finish="length"), turn("", finish="stop"), "whole"], {}, []),
        (["", "", ""], {"max_continuation_turns": 2}, ["LLM_ERROR"]),
        ([turn("half", finish="length")], {"continuation_enabled": False}, []),
        ([calls(("ls", {})), calls(("ls", {"path": "."}))], {"max_tool_rounds": 1}, []),
        ([calls(("ls", {})), LlmError("the server is gone", status=400)], {}, ["LLM_ERROR"]),
        ([calls(("bash", {"command": "true"})), "no"], {"permission_policy": PermissionPolicy(deny=["bash"])}, []),
    ],
)
async def test_runs_that_end_at_a_limit_come_out_the_same(
    tmp_path: Path, script: list[Any], options: dict[str, Any], codes: list[str]
) -> None:
    """The rules are read off the log where they decided something."""
    assert await record(tmp_path, script, **options) == codes
    assert_same(await replayed(tmp_path))


async def test_a_conversation_comes_out_the_same(tmp_path: Path) -> None:
    """Several prompts, one of them with a history of its own and an attachment, under different limits."""
    async with await Agent.create_async(ACL) as agent:
        model = ScriptedModel(
            [calls(("ls", {})), "one", "two", calls(("ls", {})), calls(("ls", {"path": "."})), "three"]
        )
        session = await agent.session_async(tmp_path, session_id="s1", llm_client=model, tool_budget=1)
        seeds: list[dict[str, Any]] = [
            {"role": "user", "content": "before"},
            {"role": "assistant", "content": "", "tool_calls": [{"id": "h1", "function": {"name": "ls"}}]},
            {"role": "tool", "tool_call_id": "h1", "content": "nothing"},
        ]
        await session.send_async("first", history=seeds)
        attachment = {"data": b"some text", "media_type": "text/plain"}
        await session.send_async("second", attachments=[attachment])
        assert (await session.send_async("third")).stop_reason == "tool_budget"
    assert_same(await replayed(tmp_path))


async def test_a_cancelled_run_is_taken_as_recorded_and_the_rest_is_replayed(tmp_path: Path) -> None:
    """The report names the run and says why; what comes after it is replayed on top of it."""
    async with await Agent.create_async(ACL) as agent:
        holder: list[Session] = []

        def interrupt(request: ModelRequest) -> Any:
            holder[0].cancel()
            return "never seen"

        model = ScriptedModel(["one", interrupt, "three"])
        session = await agent.session_async(tmp_path, session_id="s1", llm_client=model)
        holder.append(session)
        for prompt in ("first", "second", "third"):
            await session.send_async(prompt)
    done = await replayed(tmp_path)
    assert done.difference is None
    (taken,) = done.taken
    closed = [line.fact.seq for line in lines_of(tmp_path) if line.fact.kind == "run.closed"]
    assert (taken.first, taken.last) == (closed[0] + 1, closed[1])
    assert "cancelled" in taken.why
    assert done.same == done.total - (closed[1] - closed[0])


async def test_a_confirmed_call_comes_out_the_same(tmp_path: Path) -> None:
    """Recorded answers are given where the loop waits for them."""
    async with await Agent.create_async(ACL) as agent:
        model = ScriptedModel([calls(("bash", {"command": "true"}), ("bash", {"command": "false"})), "done"])
        session = await agent.session_async(
            tmp_path,
            session_id="s1",
            llm_client=model,
            permission_policy=PermissionPolicy(ask=["bash"]),
            confirmation_policy={"enabled": True},
        )
        approved = True
        async for event in await session.stream_async("go"):
            if event.type == "confirmation_required":
                assert await session.confirm_tool_use_async(str(event.tool_id), approved, "so be it")
                approved = False
    assert [line.fact.kind for line in lines_of(tmp_path)].count("confirmation.answered") == 2
    assert_same(await replayed(tmp_path))


async def test_a_resumed_run_comes_out_the_same(tmp_path: Path) -> None:
    """A run that failed and was gone on with is two runs, both replayed."""
    assert await record(tmp_path, [calls(("ls", {})), LlmError("down", status=500)]) == ["LLM_ERROR"]
    async with await Agent.create_async(ACL) as agent:
        session = await agent.session_async(tmp_path, session_id="s1", llm_client=ScriptedModel(["done"]))
        last = session.current_run()
        assert last is not None
        assert (await session.resume_run_async(str(last["id"]))).text == "done"
    assert_same(await replayed(tmp_path))


async def test_a_call_that_ran_again_after_a_crash_comes_out_the_same(tmp_path: Path) -> None:
    """The run that goes on finds the call of the turn before it, which is taken as recorded."""
    await record(tmp_path, [calls(("bash", {"command": "true"}))], permission_policy="full", sandbox="host")
    path = Path(log_path(str(tmp_path), "s1"))
    lines = path.read_bytes().splitlines(keepends=True)
    began = next(i for i, line in enumerate(lines) if b'"kind":"tool.started"' in line)
    path.write_bytes(b"".join(lines[: began + 1]))
    async with await Agent.create_async(ACL) as agent:
        options: dict[str, Any] = {"permission_policy": "full", "sandbox": "host"}
        session = await agent.session_async(tmp_path, session_id="s1", llm_client=ScriptedModel(["done"]), **options)
        last = session.current_run()
        assert last is not None
        assert (await session.resume_run_async(str(last["id"]))).text == "done"
    assert [line.fact.kind for line in lines_of(tmp_path)].count("tool.started") == 2
    done = await replayed(tmp_path)
    assert done.difference is None
    assert (done.same, [(taken.first, taken.last) for taken in done.taken]) == (done.total - began, [(1, began)])


@pytest.mark.parametrize("what", ["turn", "result", "end"])
async def test_a_log_that_the_loop_would_not_write_is_found(tmp_path: Path, what: str) -> None:
    """A turn that asks for another call, a result of a call nobody made, or a missing end stop the replay there."""
    await record(tmp_path, [calls(("ls", {})), "done"])
    facts = [line.fact for line in lines_of(tmp_path)]
    if what == "turn":
        said = next(f for f in facts if isinstance(f.data, UserSaid))
        facts.insert(2, changed(said, data=UserSaid("go on", "continuation")))
    elif what == "result":
        at = next(i for i, f in enumerate(facts) if isinstance(f.data, ToolResulted))
        facts[at] = changed(facts[at], data=changed(facts[at].data, call="other"))
    else:
        at = max(i for i, f in enumerate(facts) if isinstance(f.data, ModelTurn))
        del facts[at]
    done = await asyncio.wait_for(replay(read_header(log_path(str(tmp_path), "s1")), sealed(facts)), 10)
    assert done.difference is not None
    assert done.difference.seq == {"turn": 3, "result": 5, "end": 6}[what]


def sealed(facts: list[Any]) -> list[Line]:
    """The facts as lines of a sound log."""
    lines: list[Line] = []
    for seq, fact in enumerate(facts, 1):
        numbered = changed(fact, seq=seq)
        raw, digest = encode(numbered, lines[-1].sum if lines else "")
        lines.append(Line(numbered, digest, raw.removesuffix(b"\n")))
    return lines
