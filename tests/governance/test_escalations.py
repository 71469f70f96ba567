"""Tools that ask by themselves (tools.md §1.1 *Escalation*, §2.1 step 9)."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import pytest
from governed import ALLOW_ALL, asking, data, opened, until

from a3s_code import Agent, Escalation, PermissionPolicy, ToolContext
from a3s_code.testing import calls


class Pays:
    """A tool of the host that says what ``answer`` gives about each call."""

    name = "pay"
    description = "Pays."
    parameters: ClassVar[dict[str, Any]] = {"type": "object", "properties": {"amount": {"type": "integer"}}}

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.paid: list[Any] = []

    def escalation(self, args: dict[str, Any], ctx: ToolContext) -> Any:
        return self.answer(args, ctx)

    def execute(self, args: dict[str, Any], ctx: ToolContext) -> str:
        self.paid.append(args["amount"])
        return "paid"


def over_100(args: dict[str, Any], ctx: ToolContext) -> Escalation | None:
    return Escalation("pays a lot", scope="account 1", risk="money") if args["amount"] > 100 else None


async def paying(agent: Agent, workspace: Path, tool: Pays, amount: int = 500, **options: Any) -> Any:
    session = await opened(agent, workspace, calls(("pay", {"amount": amount})), "done", tools=[tool], **options)
    await session.send_async("go")
    (result,) = data(workspace, "tool.result")
    return result


async def test_only_calls_that_the_tool_minds_are_asked(agent: Agent, workspace: Path) -> None:
    """The tool is asked about each call; ``None`` leaves the policy's decision."""
    tool = Pays(over_100)
    assert (await paying(agent, workspace, tool, 5)).outcome == "ok"
    assert tool.paid == [5]


async def test_nobody_to_answer_is_a_refusal(agent: Agent, workspace: Path) -> None:
    """Without a channel an escalated call is denied with its reason, and the fact of the turn says so."""
    tool = Pays(over_100)
    result = await paying(agent, workspace, tool)
    assert (result.outcome, tool.paid) == ("denied", [])
    assert "pays a lot" in result.output
    (call,) = data(workspace, "model.turn")[0].calls
    verdict = call.verdict
    assert (verdict.decision, verdict.kind) == ("deny", "confirmation_unavailable")
    assert (verdict.scope, verdict.risk) == ("account 1", "money")


async def test_an_approval_runs_it(agent: Agent, workspace: Path) -> None:
    """An escalated call parks, shows its reason, and runs once approved."""
    tool = Pays(over_100)
    session = await opened(agent, workspace, calls(("pay", {"amount": 500})), "done", tools=[tool], **asking())
    stream = session.stream("go")
    await until(session.pending_confirmations)
    (waiting,) = session.pending_confirmations()
    assert (waiting["reason"], waiting["scope"], waiting["risk"]) == ("pays a lot", "account 1", "money")
    await session.confirm_tool_use_async(str(waiting["tool_id"]), True)
    assert [event.type async for event in stream][-1] == "agent_end"
    assert tool.paid == [500]


def raises(args: dict[str, Any], ctx: ToolContext) -> Escalation:
    raise RuntimeError("no idea")


async def late(args: dict[str, Any], ctx: ToolContext) -> Escalation | None:
    return over_100(args, ctx)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (raises, "could not say whether this call is safe"),
        (lambda args, ctx: True, "gave bool when asked"),
        (lambda args, ctx: Escalation(5), "gave Escalation when asked"),  # type: ignore[arg-type]  # a host's mistake
        (lambda args, ctx: Escalation(""), "asks for a confirmation"),
        (late, "pays a lot"),
    ],
)
async def test_an_unclear_answer_asks(agent: Agent, workspace: Path, answer: Any, reason: str) -> None:
    """A tool that raises, answers rubbish or gives no reason is one that asks; a coroutine is awaited."""
    tool = Pays(answer)
    result = await paying(agent, workspace, tool)
    assert (result.outcome, tool.paid) == ("denied", [])
    assert reason in result.output


@pytest.mark.parametrize(
    ("policy", "kind"),
    [
        (PermissionPolicy(deny=["pay"]), "permission_denied"),
        (PermissionPolicy(ask=["pay"]), "confirmation_unavailable"),
    ],
)
async def test_it_never_makes_a_decision_weaker(
    agent: Agent, workspace: Path, policy: PermissionPolicy, kind: str
) -> None:
    """``deny`` and ``ask`` of the policy stay what they are, whatever the tool says."""
    tool = Pays(lambda args, ctx: None)
    result = await paying(agent, workspace, tool, permission_policy=policy)
    assert (result.metadata["error"]["type"], tool.paid) == (kind, [])


@pytest.mark.parametrize("policy", [{"enabled": False}, {"yolo_lanes": ("execute",)}])
async def test_asks_that_nobody_wants_to_see_are_approved(
    agent: Agent, workspace: Path, policy: dict[str, Any]
) -> None:
    """``enabled=False`` and the tool's lane in ``yolo_lanes`` approve an escalation without asking."""
    tool = Pays(over_100)
    assert (await paying(agent, workspace, tool, **asking(**policy))).outcome == "ok"
    assert tool.paid == [500]


async def test_another_lane_is_still_asked(agent: Agent, workspace: Path) -> None:
    """``yolo_lanes`` names lanes: reading is ``query``, everything else ``execute``."""
    (workspace / "a").write_text("a\n")
    session = await opened(
        agent,
        workspace,
        calls(("read", {"file_path": "a"}), ("write", {"file_path": "b", "content": ""})),
        "done",
        permission_policy=PermissionPolicy(ask=["read", "write"]),
        **asking(yolo_lanes=("query",)),
    )
    stream = session.stream("go")
    await until(session.pending_confirmations)
    assert [waiting["tool_name"] for waiting in session.pending_confirmations()] == ["write"]
    session.cancel()
    assert [event.type async for event in stream][-1] == "agent_end"


async def test_the_context_of_a_question_can_do_nothing(agent: Agent, workspace: Path) -> None:
    """A tool that is asked knows the workspace and the origin, and can't call other tools yet."""
    seen: list[Any] = []

    async def tries(args: dict[str, Any], ctx: ToolContext) -> None:
        seen.append((ctx.origin, ctx.workspace.root))
        await ctx.invoke("write", {"file_path": "x", "content": ""})

    tool = Pays(tries)
    result = await paying(agent, workspace, tool, permission_policy=ALLOW_ALL)
    assert result.outcome == "denied"
    assert seen == [("agent", str(workspace.resolve()))]
    assert not (workspace / "x").exists()


async def test_host_calls_are_not_asked(agent: Agent, workspace: Path) -> None:
    """Step 9 is for model-governed calls; a host that calls directly has decided."""
    tool = Pays(over_100)
    session = await opened(agent, workspace, tools=[tool])
    assert (await session.tool_async("pay", {"amount": 500})).output == "paid"
