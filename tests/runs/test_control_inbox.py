"""Asking something of a session that another process holds (durability.md, ``post_control``)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from otherprocess import running
from runhelp import data, kinds, make_agent, outcomes, until
from savedhelp import Failing, kept, paying, vanished

from a3s_code import Agent, FileSessionStore, MemorySessionStore, SqliteSessionStore, tool
from a3s_code.core.documents import ControlReceipt, ControlRequest
from a3s_code.errors import CodeError, SessionClosed, SessionConfigurationError
from a3s_code.stores import keepalive
from a3s_code.testing import ScriptedModel, Turn, call, calls, delay

ASKS: dict[str, Any] = {"permission_policy": {"ask": ["pay"]}, "confirmation_policy": {"enabled": True}}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Holders look into their inboxes every few milliseconds."""
    monkeypatch.setattr(keepalive, "_RENEW_S", 0.005)


async def post(agent: Agent, store: Any, kind: str, wait_ms: int = 20_000, **payload: Any) -> dict[str, Any]:
    request = {"kind": kind, **payload}
    receipt: dict[str, Any] = await agent.post_control_async("s", request, session_store=store, wait_ms=wait_ms)
    return receipt


@pytest.mark.parametrize("kind", ["memory", "file", "sqlite"])
async def test_a_waiting_call_is_answered_from_anywhere(
    agent: Agent, workspace: Path, tmp_path: Path, kind: str
) -> None:
    """The receipt comes when the answer counts, in the log and in the store; a second answer is refused."""
    store: Any = {"memory": MemorySessionStore, "file": FileSessionStore, "sqlite": SqliteSessionStore}[kind](
        *([] if kind == "memory" else [tmp_path / "store"])
    )
    paid: list[int] = []
    session = await kept(
        agent, workspace, store, [call("pay", {"amount": 3}, id="c")], "done", tools=[paying(paid)], **ASKS
    )
    running_ = asyncio.ensure_future(session.send_async("pay"))
    await until(lambda: bool(session.pending_confirmations()))
    other = await make_agent()
    receipt = await post(other, store, "confirm", tool_id="c", approved=True, request_id="r1")
    assert (receipt["state"], receipt["kind"], receipt["request_id"]) == ("applied", "confirm", "r1")
    assert (await running_).text == "done"
    assert paid == [3]
    again = await post(other, store, "confirm", tool_id="c", approved=False)
    assert (again["state"], again["code"]) == ("rejected", "INVALID_REQUEST")
    assert again["detail"] == {"message": "no such call waits: 'c'"}
    assert await post(other, store, "confirm", tool_id="c", approved=True, request_id="r1") == receipt
    with pytest.raises(CodeError) as other_content:
        await post(other, store, "confirm", tool_id="c", approved=False, request_id="r1")
    assert other_content.value.code == "DUPLICATE_REQUEST"
    await session.close_async()
    await other.close_async()
    await store.close()


async def test_a_question_is_answered_and_a_run_interrupted(agent: Agent, workspace: Path) -> None:
    """An interrupt's receipt comes when the run has ended; without a run at work both directions are refused."""
    store = MemorySessionStore()
    question = call("ask_user", {"question": "Which?"}, id="q")
    session = await kept(agent, workspace, store, [question], [delay(asyncio.Event()), "never"], **ASKS)
    run = asyncio.ensure_future(session.send_async("go"))
    await until(lambda: bool(session.pending_questions()))
    assert (await post(agent, store, "answer", tool_id="q", answer="this one"))["state"] == "applied"
    await until(lambda: data(workspace, "tool.result") != [])
    receipt = await post(agent, store, "interrupt", options={"reason": "enough"})
    assert receipt["state"] == "settled"
    assert receipt["run_id"] == session.runs()[0]["id"]
    assert (await run).stop_reason == "cancelled"
    for refused in (await post(agent, store, "interrupt"), await post(agent, store, "steer", text="left")):
        assert (refused["state"], refused["code"]) == ("rejected", "NO_ACTIVE_RUN")


async def test_a_steer_is_answered_when_the_model_will_see_it(agent: Agent, workspace: Path) -> None:
    """Its receipt says ``applied`` once it is a message of the conversation, under the request's id."""
    store = MemorySessionStore()
    go = asyncio.Event()

    @tool
    async def work() -> str:
        """Works until it is told to stop."""
        await go.wait()
        return "worked"

    model = ScriptedModel([[call("work", {})], "turned"])
    session = await kept(agent, workspace, store, llm_client=model, tools=[work])
    run = asyncio.ensure_future(session.send_async("go right"))
    await until(lambda: bool(session.active_tools()))
    early = await post(agent, store, "steer", wait_ms=0, text="go left", request_id="s1")
    assert early["state"] == "posted"
    await until(lambda: session._engine.control.pending() == 1)
    go.set()
    assert (await run).text == "turned"
    late = await post(agent, store, "steer", text="go left", request_id="s1")
    assert late["state"] == "applied"
    said = data(workspace, "user.message")
    assert [(each.text, each.source, each.request_id) for each in said][1:] == [("go left", "steer", "s1")]


async def test_an_answer_without_a_holder_waits_for_the_next_one(
    agent: Agent, workspace: Path, elsewhere: Path
) -> None:
    """Days later, on another machine: the answer is the first thing that a resume takes in."""
    store = MemorySessionStore()
    paid: list[int] = []
    first = await kept(agent, workspace, store, [call("pay", {"amount": 3}, id="c")], tools=[paying(paid)], **ASKS)
    await first.spawn_run_with_id_async("run-a", "pay")
    await until(lambda: bool(first.pending_confirmations()))
    await first.close_async()
    assert (await post(agent, store, "confirm", wait_ms=0, tool_id="c", approved=True))["state"] == "posted"
    there = await kept(agent, elsewhere, store, "done", tools=[paying(paid)])
    assert [each["tool_id"] for each in there.pending_confirmations()] == ["c"]
    assert (await there.resume_run_async("run-a")).text == "done"
    assert (paid, outcomes(elsewhere)) == ([3], {"c": "ok"})


async def test_what_a_dead_holder_had_taken_is_given_to_the_next_one(
    agent: Agent, workspace: Path, elsewhere: Path
) -> None:
    """Also what it had carried out without saying so, which isn't done twice; a steer goes to the resumed run."""
    store = MemorySessionStore()
    wake = asyncio.Event()
    options: dict[str, Any] = {"tools": [paying([])], **ASKS}
    script: list[Turn] = [[call("pay", {"amount": 3}, id="c")], [delay(wake), "never"]]
    first = await kept(agent, workspace, store, *script, **options)
    await first.spawn_run_with_id_async("run-a", "pay")
    await until(lambda: bool(first.pending_confirmations()))
    lease = first._engine.keeper.holding._kept.lease  # type: ignore[union-attr]  # it has a store
    for request in (
        ControlRequest("r1", "confirm", {"tool_id": "c", "approved": True}),
        ControlRequest("r2", "steer", {"text": "go left"}),
        ControlRequest("r3", "passivate", {}),
        ControlRequest("r4", "dance", {}),
    ):
        await store.post_control("s", request)
    await store.take_control("s", lease.epoch)
    assert await first.confirm_tool_use_async("c", True)  # it did what r1 asks, and died before it said so
    while not any(header.seq >= 6 for header in await store.list_checkpoints("s")):
        await asyncio.sleep(0)
    await vanished(first)
    model = ScriptedModel(["turned left"])
    there = await kept(agent, elsewhere, store, llm_client=model, **{**options, "tools": [paying([])]})
    assert (await there.resume_run_async("run-a")).text == "turned left"
    receipts: dict[str, ControlReceipt] = {}
    for name in ("r1", "r2", "r3", "r4"):
        while (receipt := await store.load_receipt("s", name)) is None:
            await asyncio.sleep(0)
        receipts[name] = receipt
    assert {name: each.state for name, each in receipts.items()} == {
        "r1": "applied",
        "r2": "applied",
        "r3": "settled",
        "r4": "rejected",
    }
    assert receipts["r4"].detail == {"message": "this version knows no request of kind 'dance'"}
    assert [each.text for each in data(elsewhere, "user.message")] == ["pay", "go left"]
    assert kinds(elsewhere).count("confirmation.answered") == 1
    wake.set()


async def test_a_steer_that_its_dead_holder_applied_is_not_applied_again(
    agent: Agent, workspace: Path, elsewhere: Path
) -> None:
    """The log says by the request's id that it is there."""
    store = MemorySessionStore()
    wake = asyncio.Event()
    first = await kept(agent, workspace, store, [call("ls", {})], [call("ls", {})], [delay(wake), "never"])
    await store.post_control("s", ControlRequest("r1", "steer", {"text": "go left"}))
    lease = await store.acquire_lease("s", "a", 60_000)
    await store.take_control("s", lease.epoch)
    await store.release(lease)
    stream = await first.stream_async("go")  # it finds r1 without a run and refuses it; the next one is its own
    receipt = await store.load_receipt("s", "r1")
    assert receipt is not None
    assert receipt.code == "NO_ACTIVE_RUN"
    await first.steer_async("go up", {"request_id": "r2"})
    await store.post_control("s", ControlRequest("r2", "steer", {"text": "go up"}))
    while len(data(workspace, "tool.result")) < 2:
        await asyncio.sleep(0)
    while not any(header.seq > 8 for header in await store.list_checkpoints("s")):
        await asyncio.sleep(0)
    keeper: Any = first._engine.keeper
    keepalive_ = keeper.holding._leases
    keepalive_.let_go(keeper.holding._kept)
    await store.release(keeper.holding._kept.lease)
    there = await kept(agent, elsewhere, store, "turned")
    run_id = str(first.runs()[0]["id"])
    assert (await there.resume_run_async(run_id)).text == "turned"
    assert [each.text for each in data(elsewhere, "user.message")] == ["go", "go up"]
    found = await store.load_receipt("s", "r2")
    assert found is not None
    assert found.state == "applied"
    wake.set()
    del stream


@pytest.mark.parametrize(
    ("request_", "says"),
    [
        ([], "a control request is a mapping, got list"),
        ({}, "kind is one of confirm, answer, steer, interrupt, passivate, got None"),
        ({"kind": "dance"}, "got 'dance'"),
        ({"kind": "confirm", "tool_id": "c"}, "missing required field `approved`"),
        ({"kind": "confirm", "tool_id": "c", "approved": "yes"}, "Expected `bool`"),
        ({"kind": "confirm", "tool_id": "c", "approved": True, "args": {}}, "unknown field `args`"),
        ({"kind": "steer", "text": " "}, "needs text that is not blank"),
        ({"kind": "interrupt", "text": "stop"}, "takes no text"),
        ({"kind": "steer", "text": "x", "options": {"model": "other"}}, "model"),
        ({"kind": "interrupt", "request_id": 3}, "request_id: expected text"),
        ({"kind": "passivate", "deadline_ms": "soon"}, "Expected `int | null`"),
    ],
)
async def test_a_request_is_checked_before_it_is_posted(agent: Agent, request_: Any, says: str) -> None:
    """Nothing is in the inbox after one that says what nobody could do."""
    store = MemorySessionStore()
    with pytest.raises(CodeError, match=says) as refused:
        await agent.post_control_async("s", request_, session_store=store)
    assert refused.value.code == "INVALID_REQUEST"
    lease = await store.acquire_lease("s", "x", 1000)
    assert await store.take_control("s", lease.epoch) == []


async def test_an_inbox_that_somebody_filled_with_rubbish_keeps_nobody_out(agent: Agent, workspace: Path) -> None:
    """What can't be done is rejected, and the session works."""
    store = MemorySessionStore()
    rubbish: list[tuple[str, Any]] = [
        ("confirm", {"tool_id": [], "approved": {}}),
        ("answer", {"tool_id": {"a": 1}, "answer": [None]}),
        ("steer", {"text": 5, "options": []}),
        ("steer", {"text": "x", "options": {"deadline_ms": "soon"}}),
        ("passivate", {"deadline_ms": []}),
        ("", {}),
    ]
    session = await kept(agent, workspace, store, "one", "two")
    for at, (kind, payload) in enumerate(rubbish):
        await store.post_control("s", ControlRequest(f"before-{at}", kind, payload))
    assert (await session.send_async("go")).text == "one"
    for at, (kind, payload) in enumerate(rubbish):
        await store.post_control("s", ControlRequest(f"after-{at}", kind, payload))
    for when in ("before", "after"):
        for at, (kind, _) in enumerate(rubbish):
            while (receipt := await store.load_receipt("s", f"{when}-{at}")) is None:
                await asyncio.sleep(0)
            assert receipt.state == ("settled" if (when, kind) == ("before", "passivate") else "rejected")
    assert (await session.send_async("go")).text == "two"


async def test_a_store_whose_inbox_fails_starts_runs_all_the_same(agent: Agent, workspace: Path) -> None:
    """The inbox is looked at again with each renewal of the lease."""
    store = Failing("take_control")
    session = await kept(agent, workspace, store, "one")
    await store.post_control("s", ControlRequest("r1", "interrupt", {}))
    assert (await session.send_async("go")).text == "one"
    store.methods.clear()
    while (receipt := await store.load_receipt("s", "r1")) is None:
        await asyncio.sleep(0)
    assert receipt.code == "NO_ACTIVE_RUN"


async def test_posting_needs_a_store(agent: Agent) -> None:
    """The same one that the session has."""
    with pytest.raises(SessionConfigurationError, match="post_control requires a session_store"):
        await agent.post_control_async("s", {"kind": "interrupt"})


async def test_a_session_is_passivated_from_anywhere(agent: Agent, workspace: Path, elsewhere: Path) -> None:
    """Its receipt says ``settled`` when any node can have the session."""
    store = MemorySessionStore()
    session = await kept(agent, workspace, store, calls(("pay", {"amount": 3})), tools=[paying([])], **ASKS)
    run = asyncio.ensure_future(session.send_async("pay"))
    await until(lambda: bool(session.pending_confirmations()))
    receipt = await post(agent, store, "passivate")
    assert receipt["state"] == "settled"
    with pytest.raises(SessionClosed, match="was passivated"):
        await run
    there = await kept(agent, elsewhere, store, tools=[paying([])])
    assert len(there.pending_confirmations()) == 1


ANOTHER = """
@tool
def pay(amount: int) -> str:
    "Pays."
    return "paid"

async def main():
    agent = await make_agent()
    store = FileSessionStore(ws / ".." / "store")
    asks = {"permission_policy": {"ask": ["pay"]}, "confirmation_policy": {"enabled": True}}
    script = [call("pay", {"amount": 3}, id="c")], "done"
    session = await open_session(agent, ws, *script, tools=[pay], session_store=store, auto_save=True, **asks)
    await session.spawn_run_with_id_async("run-a", "pay")
    while not session.pending_confirmations():
        await asyncio.sleep(0)
    say("waits")
    while session.run_snapshot("run-a")["status"] != "completed":
        await asyncio.sleep(0.001)
    say("ended")
    await agent.close_async()
asyncio.run(main())
"""


async def test_a_session_of_another_process_is_answered(agent: Agent, workspace: Path) -> None:
    """Through the store alone, while that process lives and holds the session."""
    store = FileSessionStore(workspace.parent / "store")
    with running(workspace, ANOTHER, "waits") as process:
        receipt = await post(agent, store, "confirm", tool_id="c", approved=True)
        assert receipt["state"] == "applied"
        assert process.stdout is not None
        assert await asyncio.to_thread(process.stdout.readline) == "ended\n"
        process.wait()
    snapshot = await store.load_snapshot("s")
    assert snapshot is not None
    assert snapshot.messages[-1]["content"] == "done"
    await store.close()


async def test_a_caller_that_gives_up_leaves_an_inbox_that_works(agent: Agent, workspace: Path) -> None:
    """Cancelling the call that took the session over doesn't leave it deaf."""

    class Slow(MemorySessionStore):
        taking, go = False, asyncio.Event()

        async def take_control(self, session_id: str, epoch: int) -> list[ControlRequest]:
            taken = await super().take_control(session_id, epoch)
            self.taking = True
            await self.go.wait()
            return taken

    store, paid = Slow(), list[int]()
    session = await kept(
        agent, workspace, store, [call("pay", {"amount": 3}, id="c")], "done", tools=[paying(paid)], **ASKS
    )
    given_up = asyncio.ensure_future(session.send_async("never"))
    await until(lambda: store.taking)
    given_up.cancel()
    await asyncio.wait([given_up])
    Slow.go.set()
    run = asyncio.ensure_future(session.send_async("pay"))
    await until(lambda: bool(session.pending_confirmations()))
    assert (await post(agent, store, "confirm", tool_id="c", approved=True))["state"] == "applied"
    assert (await run).text == "done"


async def test_an_answer_that_comes_during_the_close_waits_for_the_next_holder(
    agent: Agent, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It isn't refused, and counts when the session is resumed."""
    store, paid = MemorySessionStore(), list[int]()
    options: dict[str, Any] = {"tools": [paying(paid)], **ASKS}
    first = await kept(agent, workspace, store, [call("pay", {"amount": 3}, id="c")], **options)
    run = asyncio.ensure_future(first.send_async("pay"))
    await until(lambda: bool(first.pending_confirmations()))
    hooks = first._engine.firing.hooks
    drained, ending, go = hooks.drained, asyncio.Event(), asyncio.Event()

    async def slow(seconds: float) -> None:
        if first._engine.active is None:
            ending.set()
            await go.wait()
        await drained(seconds)

    monkeypatch.setattr(hooks, "drained", slow)
    closing = asyncio.ensure_future(first.close_async())
    await ending.wait()
    receipt = await post(agent, store, "confirm", wait_ms=100, tool_id="c", approved=True, request_id="r")
    assert receipt["state"] == "posted"
    go.set()
    await closing
    await asyncio.wait([run])
    second = await kept(agent, workspace, store, "done", **options)
    assert (await second.resume_run_async("latest")).text == "done"
    assert paid == [3]
    assert (await post(agent, store, "confirm", tool_id="c", approved=True, request_id="r"))["state"] == "applied"


async def test_a_steer_that_the_session_knows_already_is_answered(agent: Agent, workspace: Path) -> None:
    """The same request, given to the session itself and posted, is one steer with one outcome."""
    store, go = MemorySessionStore(), [asyncio.Event(), asyncio.Event()]

    @tool
    async def work(number: int) -> str:
        """Works until it is told to stop."""
        await go[number].wait()
        return "worked"

    script: list[Turn] = [[call("work", {"number": 0}, id="a")], [call("work", {"number": 1}, id="b")], "done"]
    session = await kept(agent, workspace, store, *script, tools=[work])
    run = asyncio.ensure_future(session.send_async("go"))
    await until(lambda: bool(session.active_tools()))
    await session.steer_async("left", {"request_id": "r"})
    go[0].set()
    await until(lambda: len(data(workspace, "tool.started")) == 2)
    assert (await post(agent, store, "steer", text="left", request_id="r"))["state"] == "applied"
    go[1].set()
    await run
    assert [each.text for each in data(workspace, "user.message")] == ["go", "left"]
