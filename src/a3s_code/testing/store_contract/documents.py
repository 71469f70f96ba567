"""Snapshots, runs and workflows. In: handles on a storage. Out: nothing, or what the store got wrong.

One rule: each check says in one sentence what must hold.
Known weakness: a torn read is looked for by reading while somebody writes, so it is found only when it happens.
"""

from __future__ import annotations

import asyncio

import msgspec

from a3s_code.errors import CodeError
from a3s_code.ports.store import ControlRequest, SessionSnapshot, WorkflowCheckpoint
from a3s_code.testing.store_contract.helping import Handles, Story, refused, same, together


def full(session_id: str, number: int = 1) -> SessionSnapshot:
    return SessionSnapshot(
        session_id=session_id,
        labels={"tenant_id": "t-λ", "principal": "p"},
        workspace="/somewhere",
        model="openai/x",
        options={"tool_budget": None, "step_limit": 7, "nested": {"b": [1, 2.5, "é\u0000\U0001f600", None, True]}},
        messages=[{"type": "user", "text": f"message {each} of {number}\n"} for each in range(50)],
        artifacts=[{"uri": "a3s://x"}],
        traces=[{"kind": "run"}],
        runs=[{"record": {"id": "r"}, "events": [{"type": "start"}]}],
        verification_reports=[{"ok": True}],
        task_snapshots=[{"id": "t"}],
        usage={"total_tokens": number},
        fact_log={"thread": "t", "seq": number, "sum": "0" * 32},
        saved_ms=number,
        more={"member_of_2040": {"kept": [1]}},
    )


async def snapshot_comes_back_whole(c: Handles) -> None:
    """A snapshot is read as it was written, by every handle, with its digest; an unknown one is None."""
    one, other = await c.open(), await c.open()
    wanted = full(c.name())
    same(await other.load_snapshot(c.name()), None, "an unknown session")
    digest = await one.save_snapshot(wanted)
    same(await other.load_snapshot(c.name()), msgspec.structs.replace(wanted, digest=digest), "the snapshot")
    same(await one.save_snapshot(wanted), digest, "the digest of the same content")
    same((await other.save_snapshot(full(c.name(), 2))) == digest, False, "other content has the same digest")


async def unknown_members_are_kept(c: Handles) -> None:
    """Members that a newer writer added are still there after this version has rewritten the document."""
    store = await c.open()
    await store.save_snapshot(full(c.name()))
    read = await store.load_snapshot(c.name())
    if read is None:
        raise AssertionError("the snapshot is gone")
    await store.save_snapshot(msgspec.structs.replace(read, saved_ms=99))
    again = await store.load_snapshot(c.name())
    same(again and (again.saved_ms, again.more), (99, {"member_of_2040": {"kept": [1]}}), "the rewritten snapshot")


async def cas_commits_on_a_match_only(c: Handles) -> None:
    """save_snapshot_cas writes when the stored digest is the expected one, and else nothing."""
    store = await c.open()
    if not store.capabilities().cas:
        await refused("INVALID_REQUEST", store.save_snapshot_cas(full(c.name()), None), "a store without cas")
        return
    same(await store.save_snapshot_cas(full(c.name()), "0" * 64), None, "a digest where nothing is stored")
    same(await store.load_snapshot(c.name()), None, "nothing was written")
    first = await store.save_snapshot_cas(full(c.name()), None)
    same(await store.save_snapshot_cas(full(c.name(), 2), None), None, "'nothing stored' where there is something")
    racers = [await c.open() for _ in range(3)]
    work = [each.save_snapshot_cas(full(c.name(), 3 + at), first) for at, each in enumerate(racers * 3)]
    done = [digest for digest in await together(*work) if digest is not None]
    same(len(done), 1, "how many of nine with the same expectation won")
    kept = await store.load_snapshot(c.name())
    same(kept and kept.digest, done[0], "whose snapshot is stored")


async def readers_never_see_half_a_generation(c: Handles) -> None:
    """While one handle replaces a snapshot, the others read whole generations, in order."""
    writer, readers = await c.open(), [await c.open() for _ in range(2)]
    await writer.save_snapshot(full(c.name()))
    writing = True

    async def read(at: int) -> int:
        seen = last = 0
        while writing:
            found = await readers[at].load_snapshot(c.name())
            if found is None:
                raise AssertionError("the snapshot was gone in between")
            same(found.messages, full(c.name(), found.saved_ms).messages, "the messages of a generation")
            same(found.saved_ms >= last, True, "a reader went back in time")
            seen, last = seen + 1, found.saved_ms
        return seen

    async def write() -> None:
        nonlocal writing
        for number in range(2, 22):
            await writer.save_snapshot(full(c.name(), number))
        writing = False

    seen = await asyncio.gather(read(0), read(1), write())
    same(min(seen[:2]) > 0, True, "every reader read")


async def deleting_takes_all_but_the_epoch(c: Handles) -> None:
    """delete_session takes snapshot, checkpoints, facts, runs and inbox; a holder from before stays shut out."""
    store, session, story = await c.open(), c.name(), Story(3)
    old = await store.acquire_lease(session, "a", 60_000)
    await store.release(old)
    await store.save_snapshot(full(session))
    await store.append_checkpoint(c.name("r"), story.header(c.name("r"), session, 3), story.lines)
    await store.admit_run(c.name("d"), session, "x")
    same(await store.delete_session(session), True, "deleting what is there")
    same(await store.delete_session(session), False, "deleting it again")
    same(await store.load_snapshot(session), None, "the snapshot")
    same(await store.load_checkpoint(c.name("r")), None, "the checkpoint")
    same(await store.list_checkpoints(session), [], "the session's checkpoints")
    same(await store.load_run(c.name("d")), None, "the run record")
    header = story.header(c.name("r"), session, 3)
    same(await store.append_checkpoint(c.name("r"), header, story.lines[2:]), 0, "the facts that are still there")
    new = await store.acquire_lease(session, "b", 60_000)
    same(new.epoch > old.epoch, True, "the epoch grows over a deletion")
    await refused("LEASE_LOST", store.save_snapshot(full(session), epoch=old.epoch), "a write from before the deletion")


async def sessions_are_listed_in_pages(c: Handles) -> None:
    """list_sessions gives a tenant's sessions by id, each once, whatever the ids look like, and nobody else's."""
    store, tenant = await c.open(), c.name("tenant")
    odd = ["B", "a", "A", "z/../z", "é", "\U0001f600", "x" * 400, ".", "con:1"]
    ids = sorted(c.name(each) for each in odd)
    for number, session_id in enumerate(ids):
        await store.save_snapshot(SessionSnapshot(session_id=session_id, labels={"tenant_id": tenant}, saved_ms=number))
    await store.save_snapshot(SessionSnapshot(session_id=c.name("m"), labels={"tenant_id": c.name("other")}))
    await store.save_snapshot(SessionSnapshot(session_id=c.name("n")))
    found, after = [], None
    while page := await store.list_sessions(tenant, after, 4):
        same(len(page) <= 4, True, "a page is no longer than its limit")
        found += page
        after = page[-1].session_id
    same([each.session_id for each in found], ids, "the ids, page after page")
    same({each.tenant_id for each in found}, {tenant}, "whose they are")
    same([each.saved_ms for each in found], list(range(len(ids))), "when they were saved")
    snapshots = [await store.load_snapshot(session_id) for session_id in ids]
    same([each.digest for each in found], [each and each.digest for each in snapshots], "their digests")
    mixed = await store.list_sessions(None, c.name("m")[:-1], 1000)
    here = [each.session_id for each in mixed if each.session_id.startswith(c.name())]
    same(here, sorted([*ids, c.name("m"), c.name("n")]), "everybody's sessions")


async def a_listing_goes_on_while_sessions_are_deleted(c: Handles) -> None:
    """Whoever deletes what a page lists, the last one included, finds all the others behind it, each once."""
    store, other, tenant = await c.open(), await c.open(), c.name("tenant")
    ids = [c.name(f"{number:02}") for number in range(10)]
    for session_id in ids:
        await store.save_snapshot(SessionSnapshot(session_id=session_id, labels={"tenant_id": tenant}))
    found: list[str] = []
    after = None
    while page := await store.list_sessions(tenant, after, 3):
        found += [each.session_id for each in page]
        for each in page:
            await other.delete_session(each.session_id)
        after = page[-1].session_id
    same(found, ids, "the ids, page after page")
    same(await store.list_sessions(tenant), [], "what is left")


async def a_listing_says_how_much_is_stored(c: Handles) -> None:
    """stored_bytes counts the snapshot, facts, checkpoints, runs and inbox of a session, and of no other."""
    store, session, tenant = await c.open(), c.name(), c.name("tenant")
    run, story, filler = c.name("r"), Story(200), "x" * 5000
    alone = SessionSnapshot(session_id=session, labels={"tenant_id": tenant}, workspace=filler)
    given = 0

    async def grown(by: int, what: str) -> None:
        nonlocal given
        given += by
        (entry,) = await store.list_sessions(tenant)
        same(given <= entry.stored_bytes <= 1.25 * given + 4096, True, f"{entry.stored_bytes} bytes with {what}")

    await store.save_snapshot(alone)
    await grown(len(filler), "a snapshot")
    facts = sum(map(len, story.lines))
    await store.append_checkpoint(run, story.header(run, session, 200, workspace=filler), story.lines)
    await grown(facts + len(filler), "a checkpoint")
    await store.append_checkpoint(run, story.header(run, session, 200, workspace=filler), story.lines[-9:])
    await grown(0, "facts that are there already")
    await store.admit_run(run, session, "d")
    await store.settle_run(run, {"text": filler})
    await grown(len(filler), "a run record")
    await store.post_control(session, ControlRequest("q", "steer", {"text": filler}))
    await grown(len(filler), "a request")
    await store.delete_checkpoint(run)
    await grown(-len(filler), "no checkpoint")
    lease = await store.acquire_lease(session, "h", 60_000)
    there, elsewhere = c.name("r2"), c.name("other")
    await store.append_checkpoint(there, story.header(there, elsewhere, 200), story.lines)
    await grown(0, "another session's")
    await store.delete_session(session, epoch=lease.epoch)
    await store.save_snapshot(alone)
    given = 0
    await grown(len(filler), "a snapshot that was saved anew")


async def foreign_ids_look_like_not_found(c: Handles) -> None:
    """What isn't there is None or False from every method, and no id gets at something else."""
    store = await c.open()
    await store.save_snapshot(full(c.name()))
    for name in (c.name().upper(), c.name() + "/", "../" + c.name(), c.name() + " "):
        same(await store.load_snapshot(name), None, f"loading {name!r}")
        same(await store.delete_session(name), False, f"deleting {name!r}")
    same(await store.load_checkpoint(c.name()), None, "a session's id as a run's")
    same(await store.load_run(c.name()), None, "a run that was never admitted")
    same(await store.load_workflow(c.name()), None, "a workflow that was never saved")
    same(await store.delete_checkpoint(c.name()), False, "deleting no checkpoint")
    same(await store.delete_workflow(c.name()), False, "deleting no workflow")
    same(await store.load_receipt(c.name(), "q"), None, "a request that was never posted")
    for bad in ("", "nul\0", "x" * 1001):
        await refused("INVALID_REQUEST", store.load_snapshot(bad), f"the id {bad[:9]!r}")


async def one_caller_admits_a_run(c: Handles) -> None:
    """Of many who admit a run at once one gets None, and all others the record of the one."""
    stores = [await c.open() for _ in range(3)]
    run, session = c.name("r"), c.name()
    found = await together(*(store.admit_run(run, session, f"input {n}") for n, store in enumerate(stores * 3)))
    same(sum(1 for each in found if each is None), 1, "how many were admitted")
    records = [each for each in found if each is not None and not isinstance(each, CodeError)]
    same(len(records), 8, "how many got the record")
    same({(each.run_id, each.session_id, each.record) for each in records}, {(run, session, None)}, "the record")
    same({each.input_digest for each in records}, {f"input {found.index(None)}"}, "whose input it names")


async def a_run_settles(c: Handles) -> None:
    """settle_run keeps a record for every later caller; one that nobody admitted is not made up."""
    one, other = await c.open(), await c.open()
    same(await one.settle_run(c.name("r"), {"status": "completed"}), False, "settling a run nobody admitted")
    same(await one.load_run(c.name("r")), None, "it was not made up")
    await one.admit_run(c.name("r"), c.name(), "d")
    same(await one.settle_run(c.name("r"), {"status": "failed"}), True, "settling")
    same(await other.settle_run(c.name("r"), {"status": "completed", "text": "λ"}), True, "settling again")
    for known in (await other.load_run(c.name("r")), await one.admit_run(c.name("r"), c.name(), "d")):
        same(known and known.record, {"status": "completed", "text": "λ"}, "the record")


async def a_workflow_comes_back(c: Handles) -> None:
    """A workflow's checkpoint is replaced in whole, keeps members of a newer writer, and can be deleted."""
    store, name = await c.open(), c.name("w")
    first = WorkflowCheckpoint(workflow_id=name, steps=[{"task_id": "a", "outcome": {"success": True}}], more={"x": 1})
    await store.save_workflow(first)
    same(await store.load_workflow(name), first, "the workflow")
    second = msgspec.structs.replace(first, steps=[*first.steps, {"task_id": "b"}], checkpoint_ms=5)
    await store.save_workflow(second)
    same(await store.load_workflow(name), second, "the workflow with another step")
    same(await store.delete_workflow(name), True, "deleting it")
    same(await store.load_workflow(name), None, "the deleted workflow")


CHECKS = (
    snapshot_comes_back_whole,
    unknown_members_are_kept,
    cas_commits_on_a_match_only,
    readers_never_see_half_a_generation,
    deleting_takes_all_but_the_epoch,
    sessions_are_listed_in_pages,
    a_listing_goes_on_while_sessions_are_deleted,
    a_listing_says_how_much_is_stored,
    foreign_ids_look_like_not_found,
    one_caller_admits_a_run,
    a_run_settles,
    a_workflow_comes_back,
)
