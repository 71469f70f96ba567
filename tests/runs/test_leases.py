"""Who may write a session (durability.md): its lease, taken with its log, and what is left of a holder that lost it."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest
from runhelp import data, kinds, log_bytes, make_agent, one_result_each, until
from savedhelp import kept, logs, vanished

from a3s_code import Agent, FileSessionStore, MemorySessionStore, SqliteSessionStore, tool
from a3s_code.core.documents import Lease
from a3s_code.errors import CodeError, LeaseLost, SessionBusy, StoreError
from a3s_code.ports.leases import TTL_MS
from a3s_code.stores import keepalive
from a3s_code.system.clock import SystemClock
from a3s_code.testing import ScriptedModel, call, delay

ELSEWHERE = "another-node/1/1/x"


def held(session: Any) -> Lease:
    lease: Lease = session._engine.keeper.holding._kept.lease
    return lease


async def taken_over(session: Any) -> Lease:
    """Another node has the session, and this one doesn't know it yet."""
    await session._engine.keeper.store.release(held(session))
    lease: Lease = await session._engine.keeper.store.acquire_lease("s", ELSEWHERE, TTL_MS)
    return lease


async def test_a_lease_comes_with_the_first_write_and_goes_with_the_close(agent: Agent, workspace: Path) -> None:
    """Opening and looking take nothing; a run holds the session for the process until it is closed."""
    store = MemorySessionStore()
    session = await kept(agent, workspace, store, "one", "two")
    session.history()
    lease = await store.acquire_lease("s", ELSEWHERE, TTL_MS)
    assert await store.release(lease)
    await session.send_async("go")
    with pytest.raises(SessionBusy, match="is held by"):
        await store.acquire_lease("s", ELSEWHERE, TTL_MS)
    await session.send_async("again")
    assert held(session).epoch == 2
    await session.close_async()
    assert (await store.acquire_lease("s", ELSEWHERE, TTL_MS)).epoch == 3


async def test_a_second_node_is_told_who_has_the_session(agent: Agent, workspace: Path, elsewhere: Path) -> None:
    """It writes nothing, and works once the first one is closed, with what that one did."""
    store = MemorySessionStore()
    first = await kept(agent, workspace, store, "one")
    second = await kept(agent, elsewhere, store, "two")
    await first.send_async("go")
    with pytest.raises(SessionBusy, match="session 's' is held by"):
        await second.send_async("go too")
    assert logs(elsewhere) == []
    await first.close_async()
    await second.send_async("go on")
    assert [message["content"] for message in second.history()] == ["go", "one", "go on", "two"]


async def test_a_stream_on_a_held_session_ends_with_the_error(agent: Agent, workspace: Path, elsewhere: Path) -> None:
    """A stream that can't wait for the lease begins, says why it goes no further, and leaves no record."""
    store = MemorySessionStore()
    first = await kept(agent, workspace, store, "one")
    second = await kept(agent, elsewhere, store, "two")
    await first.send_async("go")
    events = [event async for event in second.stream("go too")]
    assert [event.type for event in events] == ["error"]
    assert events[0].payload["code"] == "SESSION_BUSY"
    assert (second.runs(), logs(elsewhere)) == ([], [])


@pytest.mark.parametrize("kind", ["memory", "file", "sqlite"])
async def test_a_holder_on_another_machine_is_waited_out(
    agent: Agent, workspace: Path, tmp_path: Path, kind: str
) -> None:
    """A lease that isn't renewed ends by itself, and the session is had then."""
    store: Any = {"memory": MemorySessionStore, "file": FileSessionStore, "sqlite": SqliteSessionStore}[kind](
        *([] if kind == "memory" else [tmp_path / "store"])
    )
    await store.acquire_lease("s", ELSEWHERE, 30)
    session = await kept(agent, workspace, store, "one")
    assert (await session.send_async("go")).text == "one"
    assert held(session).epoch == 2
    await session.close_async()
    await store.close()


async def test_a_holder_that_renews_is_not_waited_for(agent: Agent, workspace: Path) -> None:
    """One renewal is enough to know that it lives."""

    class Renewing(MemorySessionStore):
        async def acquire_lease(self, session_id: str, holder: str, ttl_ms: int) -> Lease:
            if holder != ELSEWHERE:
                await self.renew([lease], ttl_ms + self.tries)
                self.tries += 1
            return await super().acquire_lease(session_id, holder, ttl_ms)

        tries = 0

    store = Renewing()
    lease = await store.acquire_lease("s", ELSEWHERE, TTL_MS)
    session = await kept(agent, workspace, store, "one")
    with pytest.raises(SessionBusy, match=ELSEWHERE):
        await session.send_async("go")
    assert store.tries == 2


async def test_closing_ends_the_wait_for_a_lease(agent: Agent, workspace: Path) -> None:
    """Whoever waits is told that the session is closed."""
    store = MemorySessionStore()
    await store.acquire_lease("s", ELSEWHERE, 60_000)
    session = await kept(agent, workspace, store, "one")
    waiting = asyncio.ensure_future(session.send_async("go"))
    await until(lambda: session._engine.busy)
    await session.close_async()
    with pytest.raises(CodeError, match="is closed"):
        await waiting


async def test_a_lost_lease_ends_the_run_and_nothing_else(agent: Agent, workspace: Path) -> None:
    """The run that finds out ends with LEASE_LOST; its log stays well formed and open, and the store isn't touched."""
    store = MemorySessionStore()
    other = await kept(agent, workspace, store, "fine", session_id="other")

    @tool
    async def lose() -> str:
        """Has another node take the session."""
        await taken_over(session)
        return "done"

    session = await kept(agent, workspace, store, [call("lose", {})], "never", tools=[lose])
    stream = await session.stream_async("go")
    events = [event async for event in stream]
    assert (events[-1].type, events[-1].payload["code"]) == ("error", "LEASE_LOST")
    assert kinds(workspace)[-1] == "tool.result"
    assert session.runs()[-1]["status"] == "parked"
    assert await store.list_checkpoints("s") == []
    assert await store.load_snapshot("s") is None
    before = log_bytes(workspace)
    for write in (session.send_async("more"), session.resume_run_async("latest"), session.save_async()):
        with pytest.raises(LeaseLost):
            await write
    assert log_bytes(workspace) == before
    assert (await other.send_async("go")).text == "fine"
    await session.close_async()
    again = await kept(agent, workspace, store, "again", tools=[lose])
    with pytest.raises(SessionBusy):
        await store.acquire_lease("s", "third", TTL_MS)
    await store.release(Lease(session_id="s", epoch=2, holder=ELSEWHERE, expires_ms=0))
    assert (await again.resume_run_async("latest")).text == "again"
    assert one_result_each(workspace) is False  # the run that was lost stays open in the log; its heir is closed
    assert [each.status for each in data(workspace, "run.closed")] == ["completed"]


async def test_a_paused_holder_that_wakes_up_writes_nothing(agent: Agent, workspace: Path, elsewhere: Path) -> None:
    """What it still has in flight is refused by the store; whoever took over isn't disturbed."""
    store = MemorySessionStore()
    wake = asyncio.Event()
    first = await kept(agent, workspace, store, [call("ls", {})], [delay(wake), "from the dead"])
    running = asyncio.ensure_future(first.send_async("go"))
    while not await store.list_checkpoints("s"):
        await asyncio.sleep(0)
    run_id = first.runs()[0]["id"]
    await vanished(first)
    second = await kept(agent, elsewhere, store, "taken over")
    assert (await second.resume_run_async(str(run_id))).text == "taken over"
    after = await store.load_snapshot("s")
    wake.set()
    with pytest.raises(LeaseLost):
        await running
    assert await store.load_snapshot("s") == after
    assert second.history()[-1]["content"] == "taken over"
    await second.close_async()
    await first.close_async()
    back = await kept(agent, workspace, store, "and back")
    await back.send_async("hello")
    assert [message["content"] for message in back.history()][-3:] == ["taken over", "hello", "and back"]
    assert "from the dead" not in str(back.history())


async def test_two_that_need_the_lease_at_once_share_it(agent: Agent, workspace: Path) -> None:
    """The second one waits until the log is what the store says, and takes no lease of its own."""

    class Slow(MemorySessionStore):
        loading, go, taken = False, asyncio.Event(), 0

        async def acquire_lease(self, session_id: str, holder: str, ttl_ms: int) -> Lease:
            self.taken += 1
            return await super().acquire_lease(session_id, holder, ttl_ms)

        async def load_snapshot(self, session_id: str) -> Any:
            if self.loading:
                await self.go.wait()
            return await super().load_snapshot(session_id)

    store = Slow()
    first = await kept(agent, workspace, store, "one")
    await first.send_async("go")
    await first.close_async()
    second = await kept(agent, workspace, store, "two")
    store.loading = True
    both = [asyncio.ensure_future(second.save_async()), asyncio.ensure_future(second.send_async("more"))]
    await until(lambda: store.taken == 2)
    for _ in range(50):
        await asyncio.sleep(0)
    assert not any(each.done() for each in both)
    store.go.set()
    await asyncio.gather(*both)
    assert store.taken == 2


async def test_a_store_that_gives_no_lease_starts_nothing(agent: Agent, workspace: Path) -> None:
    """Whoever can't be sure to be alone doesn't begin."""

    class Unreachable(MemorySessionStore):
        async def acquire_lease(self, session_id: str, holder: str, ttl_ms: int) -> Lease:
            raise StoreError("the database is gone")

    model = ScriptedModel(["never"])
    session = await kept(agent, workspace, Unreachable(), llm_client=model)
    with pytest.raises(StoreError, match="gone"):
        await session.send_async("go")
    assert (model.requests, logs(workspace)) == ([], [])


async def test_a_store_without_fencing_needs_no_lease(agent: Agent, workspace: Path) -> None:
    """Whoever gives it has to see to it that one node works on a session."""

    class Plain(MemorySessionStore):
        def capabilities(self) -> Any:
            from msgspec.structs import replace

            return replace(super().capabilities(), lease_fencing=False)

        async def acquire_lease(self, session_id: str, holder: str, ttl_ms: int) -> Lease:
            raise AssertionError

    session = await kept(agent, workspace, Plain(), "one")
    assert (await session.send_async("go")).text == "one"


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> keepalive.Keepalive:
    """Leases that are renewed every few milliseconds."""
    monkeypatch.setattr(keepalive, "_RENEW_S", 0.005)
    return keepalive.Keepalive(SystemClock())


class Told:
    """What a holder is told, from any thread."""

    def __init__(self) -> None:
        self.lost = threading.Event()
        self.asked: list[Any] = []
        self.got = threading.Event()

    def lose(self, _: LeaseLost) -> None:
        self.lost.set()

    def ask(self, requests: Any) -> None:
        self.asked += requests
        self.got.set()


class Batches(MemorySessionStore):
    """Says which leases were renewed together."""

    def __init__(self) -> None:
        super().__init__()
        self.batches: list[list[str]] = []
        self.renewed = threading.Semaphore(0)
        self.fails = False

    async def renew(self, leases: Any, ttl_ms: int) -> list[Lease | None]:
        if self.fails:
            self.renewed.release()
            raise StoreError("the database is gone")
        self.batches.append([lease.session_id for lease in leases])
        renewed = await super().renew(leases, ttl_ms)
        self.renewed.release()
        return renewed


async def test_leases_of_a_store_are_renewed_in_one_batch(quick: keepalive.Keepalive) -> None:
    """Off the loop, in one call for all; what is let go isn't renewed, and the thread ends with the last one."""
    store, told = Batches(), Told()
    clock = SystemClock()
    leases = [await store.acquire_lease(name, quick.holder(), TTL_MS) for name in "abc"]
    kept_ones = [quick.keep(store, lease, clock.monotonic(), told.lose, told.ask) for lease in leases]
    for _ in range(2):
        assert store.renewed.acquire(timeout=10)  # the loop of this test stands still meanwhile
    assert store.batches[1] == ["a", "b", "c"]
    assert all(quick.is_ours(lease.holder) for lease in leases)
    quick.let_go(kept_ones[0])
    assert not quick.is_ours(leases[0].holder)
    for each in kept_ones[1:]:
        quick.let_go(each)
    for thread in threading.enumerate():
        if thread.name == "a3s-code-leases":
            thread.join(10)
            assert not thread.is_alive()
    assert not told.lost.is_set()


async def test_a_lease_that_was_passed_on_is_told_as_lost(quick: keepalive.Keepalive) -> None:
    """Also while the session has nothing to write."""
    store, told = MemorySessionStore(), Told()
    lease = await store.acquire_lease("a", quick.holder(), TTL_MS)
    kept_one = quick.keep(store, lease, SystemClock().monotonic(), told.lose, told.ask)
    await store.release(lease)
    await store.acquire_lease("a", ELSEWHERE, TTL_MS)
    assert await asyncio.to_thread(told.lost.wait, 10)
    quick.let_go(kept_one)


async def test_a_lease_is_sure_for_its_time(quick: keepalive.Keepalive) -> None:
    """Counted from when its last renewal was asked for; a store that fails changes nothing else."""
    store, told = Batches(), Told()
    store.fails = True
    lease = await store.acquire_lease("a", quick.holder(), TTL_MS)
    now = SystemClock().monotonic()
    old = quick.keep(store, lease, now - TTL_MS / 1000 - 1, told.lose, told.ask)
    assert not old.is_sure()
    assert store.renewed.acquire(timeout=10)
    assert not old.is_sure()
    store.fails = False
    for _ in range(3):
        assert store.renewed.acquire(timeout=10)
    assert old.is_sure()
    quick.let_go(old)


async def test_a_run_begins_no_step_while_its_lease_is_not_sure(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While nobody knows whether another node took over, the run waits, and says so; then it goes on."""
    agent = await make_agent()
    session = await kept(agent, workspace, MemorySessionStore(), [call("ls", {})], "done")
    await session.save_async()
    keeper: Any = session._engine.keeper
    lease, now = keeper.holding._kept, SystemClock().monotonic()
    lease.renewed(now - TTL_MS / 1000 - 1)  # as if it had run out
    stream = await session.stream_async("go")
    seen: list[Any] = []

    async def read() -> None:
        async for event in stream:
            seen.append(event)  # noqa: PERF401  it is looked at while it grows

    reading = asyncio.ensure_future(read())
    await until(lambda: any(event.type == "persistence_failed" for event in seen))
    assert kinds(workspace)[-1] == "user.message"
    lease.renewed(now)  # what a renewal does
    await reading
    assert seen[-1].type == "agent_end"
    assert sum(event.type == "persistence_failed" for event in seen) == 1
    await agent.close_async()


async def test_a_run_is_cancelled_while_its_lease_is_not_sure(agent: Agent, workspace: Path) -> None:
    """A store that can't be reached keeps nobody from ending a run."""
    session = await kept(agent, workspace, MemorySessionStore(), [call("ls", {})], "never")
    await session.save_async()
    keeper: Any = session._engine.keeper
    keeper.holding._kept.renewed(SystemClock().monotonic() - TTL_MS / 1000 - 1)
    stream = await session.stream_async("go")
    async for event in stream:
        if event.type == "persistence_failed":
            keeper.holding._kept._until = 0
            assert session.cancel()
    assert [each.status for each in data(workspace, "run.closed")] == ["cancelled"]


async def test_a_lease_that_comes_after_the_close_is_given_back(agent: Agent, workspace: Path) -> None:
    """Whoever opens the session next finds it free."""

    class Slow(MemorySessionStore):
        asked, go = False, asyncio.Event()

        async def acquire_lease(self, session_id: str, holder: str, ttl_ms: int) -> Lease:
            lease = await super().acquire_lease(session_id, holder, ttl_ms)
            self.asked = True
            await self.go.wait()
            return lease

    store = Slow()
    session = await kept(agent, workspace, store, "never")
    sending = asyncio.ensure_future(session.send_async("go"))
    await until(lambda: store.asked)
    await session.close_async()
    store.go.set()
    with pytest.raises(CodeError, match="is closed"):
        await sending
    assert logs(workspace) == []
    again = await kept(agent, workspace, store, "again")
    assert (await again.send_async("go")).text == "again"


async def test_what_is_saved_after_the_close_is_refused(
    agent: Agent, workspace: Path, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A save that was on its way when the lease was given back overwrites nothing of the next holder."""
    store = MemorySessionStore()
    first = await kept(agent, workspace, store, "one")
    await first.send_async("go")
    keeper: Any = first._engine.keeper
    take, taken, go = keeper.take, asyncio.Event(), asyncio.Event()

    async def slow(run: Any = None) -> Any:
        snapshot = await take(run)
        taken.set()
        await go.wait()
        return snapshot

    monkeypatch.setattr(keeper, "take", slow)
    saving = asyncio.ensure_future(first.save_async())
    await taken.wait()
    await first.close_async()
    second = await kept(agent, elsewhere, store, "two")
    await second.send_async("go on")
    saved = await store.load_snapshot("s")
    go.set()
    with pytest.raises(CodeError, match="is closed"):
        await saving
    assert await store.load_snapshot("s") == saved


async def test_a_lease_that_follows_another_is_renewed_at_leisure() -> None:
    """One that comes while the last one's renewal is under way doesn't have the store asked without a pause."""

    class Slow(MemorySessionStore):
        renewals, inside, go = 0, threading.Event(), threading.Event()

        async def renew(self, leases: Any, ttl_ms: int) -> list[Lease | None]:
            self.renewals += 1
            self.inside.set()
            assert self.go.wait(10)
            return await super().renew(leases, ttl_ms)

    leases, store, told, clock = keepalive.Keepalive(SystemClock()), Slow(), Told(), SystemClock()
    first = leases.keep(store, await store.acquire_lease("a", "x", TTL_MS), clock.monotonic(), told.lose, told.ask)
    assert await asyncio.to_thread(store.inside.wait, 10)
    leases.let_go(first)
    second = leases.keep(store, await store.acquire_lease("b", "y", TTL_MS), clock.monotonic(), told.lose, told.ask)
    store.go.set()
    for _ in range(2000):
        await asyncio.sleep(0)
    assert store.renewals <= 3
    leases.let_go(second)


async def test_a_store_that_ends_the_renewing_is_asked_again(quick: keepalive.Keepalive) -> None:
    """Even a cancellation that a host's own store lets out doesn't end the thread."""

    class Cancelled(Batches):
        times = 0

        async def renew(self, leases: Any, ttl_ms: int) -> list[Lease | None]:
            self.times += 1
            if self.times == 1:
                raise asyncio.CancelledError
            return await super().renew(leases, ttl_ms)

    store, told = Cancelled(), Told()
    lease = await store.acquire_lease("a", quick.holder(), TTL_MS)
    kept_one = quick.keep(store, lease, SystemClock().monotonic(), told.lose, told.ask)
    assert await asyncio.to_thread(store.renewed.acquire, timeout=10)
    quick.let_go(kept_one)


def test_a_session_that_was_not_closed_is_free_once_its_loop_has_ended(workspace: Path) -> None:
    """The next loop of the same process can have it."""
    store = MemorySessionStore()

    async def one(text: str) -> str:
        session = await kept(await make_agent(), workspace, store, text)
        return (await session.send_async("go")).text

    assert asyncio.run(one("first")) == "first"
    assert asyncio.run(one("second")) == "second"
