"""Leases, the control inbox and watching. In: handles on a storage. Out: nothing, or what the store got wrong.

One rule: whoever lost a lease writes nothing more.
Known weakness: a holder is paused by leaving its lease to run out, not by stopping its process.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from a3s_code.errors import LeaseLost, SessionBusy
from a3s_code.ports.store import (
    ControlReceipt,
    ControlRequest,
    Lease,
    SessionSnapshot,
    SessionStore,
    StoreCapabilities,
    StoreEvent,
    WorkflowCheckpoint,
    workflow_lease,
)
from a3s_code.stores.lease import holder_name
from a3s_code.testing.store_contract.helping import Handles, Story, refused, same, taken_over, together

LONG = 60_000


async def _first(store: SessionStore, after: str | None = None) -> StoreEvent:
    return await anext(store.watch(after))


async def a_lease_has_one_holder(c: Handles) -> None:
    """A held session is SESSION_BUSY for others; its holder gets the same lease again; each new one has a higher
    epoch."""
    one, other, session = await c.open(), await c.open(), c.name()
    first = await one.acquire_lease(session, "one", LONG)
    await refused("SESSION_BUSY", other.acquire_lease(session, "other", LONG), "a lease somebody has")
    again = await other.acquire_lease(session, "one", LONG)
    same((again.epoch, again.holder, again.session_id), (first.epoch, "one", session), "the holder's own lease")
    same(again.expires_ms >= first.expires_ms, True, "it lasts longer")
    same(await one.release(again), True, "releasing")
    same(await one.release(again), False, "releasing it again")
    second = await other.acquire_lease(session, "other", LONG)
    same(second.epoch > first.epoch, True, "the epoch grows")
    same(await one.release(first), False, "releasing what another has")
    await refused("INVALID_REQUEST", one.acquire_lease(session, "one", 0), "a lease of no time")


async def one_of_many_gets_the_lease(c: Handles) -> None:
    """Of many holders that race for a session one gets the lease, and the others SESSION_BUSY."""
    stores = [await c.open() for _ in range(3)]
    found = await together(*(s.acquire_lease(c.name(), f"holder {n}", LONG) for n, s in enumerate(stores * 3)))
    same(sum(isinstance(each, Lease) for each in found), 1, "how many got it")
    same(sum(isinstance(each, SessionBusy) for each in found), 8, "how many were told that it is busy")


async def a_dead_holder_holds_nothing(c: Handles) -> None:
    """A lease whose holder's process has ended on this machine is void at once."""
    store = await c.open()
    machine, pid, _, token = holder_name("x").split("/")
    gone = await store.acquire_lease(c.name(), f"{machine}/{pid}/1/{token}", LONG)
    await store.acquire_lease(c.name("held"), holder_name("x"), LONG)
    same((await store.acquire_lease(c.name(), holder_name("y"), LONG)).epoch > gone.epoch, True, "the dead one's lease")
    await refused("SESSION_BUSY", store.acquire_lease(c.name("held"), "y", LONG), "a lease of a living process")


async def a_holder_that_wakes_up_writes_nothing(c: Handles) -> None:
    """Once a lease that ran out was taken over, every write with the old epoch is LEASE_LOST and changes nothing."""
    store, other, session, story = await c.open(), await c.open(), c.name(), Story(3)
    run, admitted, flow = c.name("r"), c.name("d"), c.name("w")
    old = await store.acquire_lease(session, "paused", 1)
    old_flow = await store.acquire_lease(workflow_lease(flow), "paused", 1)
    kept = SessionSnapshot(session_id=session, saved_ms=1)
    digest = await store.save_snapshot(kept, epoch=old.epoch)
    await store.append_checkpoint(run, story.header(run, session, 2), story.lines[:2], epoch=old.epoch)
    await store.admit_run(admitted, session, "x", epoch=old.epoch)
    await store.save_workflow(WorkflowCheckpoint(workflow_id=flow), epoch=old_flow.epoch)
    await store.post_control(session, ControlRequest("q", "steer"))
    await taken_over(other, session, "awake")
    await taken_over(other, workflow_lease(flow), "awake")
    late = SessionSnapshot(session_id=session, saved_ms=2)
    attempts: list[Callable[[], Awaitable[object]]] = [
        lambda: store.save_snapshot(late, epoch=old.epoch),
        lambda: store.save_snapshot_cas(late, digest, epoch=old.epoch),
        lambda: store.append_checkpoint(run, story.header(run, session, 3), story.lines[2:], epoch=old.epoch),
        lambda: store.delete_checkpoint(run, epoch=old.epoch),
        lambda: store.admit_run(c.name("new"), session, "x", epoch=old.epoch),
        lambda: store.settle_run(admitted, {"status": "failed"}, epoch=old.epoch),
        lambda: store.save_workflow(WorkflowCheckpoint(workflow_id=flow, steps=[{"late": 1}]), epoch=old_flow.epoch),
        lambda: store.delete_workflow(flow, epoch=old_flow.epoch),
        lambda: store.take_control(session, old.epoch),
        lambda: store.answer_control(session, ControlReceipt("q", "steer", "applied"), epoch=old.epoch),
        lambda: store.delete_session(session, epoch=old.epoch),
    ]
    for attempt in attempts:
        await refused("LEASE_LOST", attempt(), "a write of who lost the lease")
    await refused("LEASE_LOST", store.save_snapshot(late, epoch=old.epoch + 9), "an epoch that was never given")
    same(await store.renew([old], LONG), [None], "renewing what was passed on")
    found = await store.load_snapshot(session), await store.load_checkpoint(run), await store.load_run(admitted)
    same(found[0] and found[0].digest, digest, "the snapshot")
    same(found[1] and found[1].header.seq, 2, "the checkpoint")
    same(found[2] and found[2].record, None, "the run's record")
    same(await store.load_run(c.name("new")), None, "a late admission")
    same(await store.load_workflow(flow), WorkflowCheckpoint(workflow_id=flow), "the workflow")
    same(await store.load_receipt(session, "q"), None, "a late receipt")


async def nothing_slips_past_a_takeover(c: Handles) -> None:
    """While a holder writes without end and another takes the lease over, nothing is written after the takeover."""
    store, other, session = await c.open(), await c.open(), c.name()
    mine = await store.acquire_lease(session, "mine", LONG)
    over = False

    async def write() -> None:
        number = late = 0
        while late <= 20:
            number, late = number + 1, late + over
            await store.save_snapshot(SessionSnapshot(session_id=session, saved_ms=number), epoch=mine.epoch)

    writing = [asyncio.create_task(write()) for _ in range(3)]  # noqa: TID251  awaited right below
    while await other.load_snapshot(session) is None:
        await asyncio.wait(writing, timeout=0)
    await other.release(mine)
    await other.acquire_lease(session, "theirs", LONG)
    over = True
    seen = await other.load_snapshot(session)
    ended = await asyncio.gather(*writing, return_exceptions=True)
    same([type(each) for each in ended], [LeaseLost] * 3, "how the writers ended")
    same(await other.load_snapshot(session), seen, "the snapshot after the takeover")


async def leases_are_renewed_in_a_batch(c: Handles) -> None:
    """renew extends what is held, and what ran out unless somebody took it, and says which ones are lost."""
    store = await c.open()
    held = await store.acquire_lease(c.name("held"), "me", LONG)
    ran_out = await store.acquire_lease(c.name("out"), "me", 1)
    passed = await store.acquire_lease(c.name("passed"), "me", 1)
    released = await store.acquire_lease(c.name("released"), "me", LONG)
    await store.release(released)
    await taken_over(store, c.name("passed"), "other")
    found = await store.renew([held, ran_out, passed, released], LONG)
    same([each is not None for each in found], [True, True, False, False], "which are held")
    same(found[0] and found[0].epoch, held.epoch, "the epoch")
    await refused("SESSION_BUSY", store.acquire_lease(c.name("out"), "other", LONG), "a lease that was renewed")
    same(await store.renew([], LONG), [], "renewing nothing")


async def requests_reach_the_holder_in_order(c: Handles) -> None:
    """Requests wait for a holder, who takes each once, in order; what it leaves open the next holder gets."""
    store, other, session = await c.open(), await c.open(), c.name()
    requests = [ControlRequest(f"q{n}", "steer", {"text": f"λ{n}"}, n) for n in range(4)]
    for each in requests[:3]:
        same(await other.post_control(session, each), None, "a request that waits")
    first = await store.acquire_lease(session, "first", LONG)
    same(await store.take_control(session, first.epoch), requests[:3], "what waits")
    same(await store.take_control(session, first.epoch), [], "what was taken already")
    await other.post_control(session, requests[3])
    same(await store.take_control(session, first.epoch), requests[3:], "what came in the meantime")
    receipt = ControlReceipt("q1", "steer", "applied", 5, "r", None, {"turn_id": "t"})
    same(await store.answer_control(session, receipt, epoch=first.epoch), True, "answering")
    same(await other.load_receipt(session, "q1"), receipt, "the poster's receipt")
    same(await other.load_receipt(session, "q0"), None, "a receipt that isn't there yet")
    same(await store.answer_control(session, ControlReceipt("q9", "steer", "applied")), False, "answering nobody")
    await store.release(first)
    second = await other.acquire_lease(session, "second", LONG)
    left = [requests[0], requests[2], requests[3]]
    same(await other.take_control(session, second.epoch), left, "what the first holder left open")


async def a_request_that_comes_again_is_known(c: Handles) -> None:
    """The same request gives the recorded receipt; other content under its id is refused, and so is one too many."""
    store, session = await c.open(), c.name()
    request = ControlRequest("q", "interrupt", {"reason": "x"}, 1)
    await store.post_control(session, request)
    same(await store.post_control(session, ControlRequest("q", "interrupt", {"reason": "x"}, 2)), None, "still waiting")
    await refused("DUPLICATE_REQUEST", store.post_control(session, ControlRequest("q", "steer")), "other content")
    receipt = ControlReceipt("q", "interrupt", "applied")
    await store.answer_control(session, receipt)
    same(await store.post_control(session, request), receipt, "the recorded receipt")
    for number in range(64):
        await store.post_control(session, ControlRequest(f"n{number}", "steer"))
    await refused("QUEUE_FULL", store.post_control(session, ControlRequest("n64", "steer")), "one too many")


async def commits_can_be_watched(c: Handles) -> None:
    """watch gives every commit after its cursor, in order, from every handle, to every watcher."""
    store, other, session = await c.open(), await c.open(), c.name()
    if not store.capabilities().watch:
        await refused("INVALID_REQUEST", _first(store), "a store without watch")
        return
    events: list[StoreEvent] = []

    async def follow(after: str | None, until: str) -> list[StoreEvent]:
        seen = []
        async with asyncio.timeout(20):
            async for event in store.watch(after):
                if event.session_id == session:
                    seen.append(event)
                    if event.kind == until:
                        break
        return seen

    async def live_and_die() -> None:
        await other.save_snapshot(SessionSnapshot(session_id=session))
        await other.admit_run(c.name("r"), session, "d")
        await other.delete_session(session)

    started = asyncio.create_task(follow(None, "session.deleted"))  # noqa: TID251  awaited right below
    while not started.done():
        await live_and_die()
        await asyncio.wait([started], timeout=0.05)
    events = await started
    await live_and_die()
    whole = await follow(events[0].cursor, "session.deleted")
    same([each.kind for each in whole][-1], "session.deleted", "the last event behind a cursor")
    same(whole[: len(events) - 1], events[1 : 1 + len(whole)], "what a second watcher sees behind the first cursor")
    await refused("INVALID_REQUEST", _first(store, "no cursor"), "a cursor that is none")


async def a_store_serves_several_loops(c: Handles) -> None:
    """One store object works from two event loops at once, and again after close()."""
    store = await c.open()

    async def elsewhere(at: SessionStore) -> None:
        for number in range(5):
            await at.save_snapshot(SessionSnapshot(session_id=c.name("thread"), saved_ms=number))

    async def here() -> None:
        for number in range(5):
            await store.save_snapshot(SessionSnapshot(session_id=c.name("here"), saved_ms=number))

    await asyncio.gather(asyncio.to_thread(asyncio.run, elsewhere(store)), here())
    await store.close()
    for name in ("thread", "here"):
        found = await store.load_snapshot(c.name(name))
        same(found and found.saved_ms, 4, f"what was written {name}")


async def capabilities_are_told(c: Handles) -> None:
    """capabilities() is known without opening anything, and no two handles differ."""
    one, other = (await c.open()).capabilities(), (await c.open()).capabilities()
    same(isinstance(one, StoreCapabilities) and one, other, "the capabilities")
    same((one.atomic_snapshots, one.lease_fencing, one.control_inbox), (True, True, True), "what every store must have")


CHECKS = (
    a_lease_has_one_holder,
    one_of_many_gets_the_lease,
    a_dead_holder_holds_nothing,
    a_holder_that_wakes_up_writes_nothing,
    nothing_slips_past_a_takeover,
    leases_are_renewed_in_a_batch,
    requests_reach_the_holder_in_order,
    a_request_that_comes_again_is_known,
    commits_can_be_watched,
    a_store_serves_several_loops,
    capabilities_are_told,
)
