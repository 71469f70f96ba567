"""Loop checkpoints. In: handles on a storage. Out: nothing, or what the store got wrong.

One rule: a run's whole log comes back, whatever order, overlap or branch it was stored in.
Known weakness: that a checkpoint costs only what is new is not measured here.
"""

from __future__ import annotations

from a3s_code.ports.store import Checkpoint, SessionStore
from a3s_code.testing.store_contract.helping import Handles, Story, refused, same


async def _holds(store: SessionStore, run: str, story: Story, session: str, upto: int) -> None:
    found = await store.load_checkpoint(run)
    same(found, Checkpoint(story.header(run, session, upto), story.lines[:upto]), f"the checkpoint of {run}")


async def checkpoints_add_what_is_new(c: Handles) -> None:
    """Each checkpoint brings the new lines only, and the whole log comes back byte by byte with the last header."""
    one, other = await c.open(), await c.open()
    run, session, story = c.name("r"), c.name(), Story(120)
    same(await one.load_checkpoint(run), None, "a run without a checkpoint")
    at = 0
    for upto in (1, 5, 6, 120):
        stored = await one.append_checkpoint(run, story.header(run, session, upto), story.lines[at:upto])
        same(stored, upto, "how far the store has the log")
        await _holds(other, run, story, session, upto)
        at = upto
    header = story.header(run, session, 120, options={"step_limit": 3}, labels={"tenant_id": "t"}, more={"new": 1})
    same(await one.append_checkpoint(run, header, []), 120, "a header without new facts")
    found = await other.load_checkpoint(run)
    same(found and found.header, header, "the header, with members of a newer writer")


async def facts_that_are_missing_are_asked_for(c: Handles) -> None:
    """A checkpoint that leaves a gap writes nothing and says from where on lines are missing; overlap is no fault."""
    store, run, session, story = await c.open(), c.name("r"), c.name(), Story(9)
    same(await store.append_checkpoint(run, story.header(run, session, 9), story.lines[6:]), 0, "lines after a gap")
    same(await store.append_checkpoint(run, story.header(run, session, 9), []), 0, "a header without its facts")
    same(await store.load_checkpoint(run), None, "nothing was written")
    await store.append_checkpoint(run, story.header(run, session, 4), story.lines[:4])
    same(await store.append_checkpoint(run, story.header(run, session, 9), story.lines[6:]), 4, "where the gap begins")
    await _holds(store, run, story, session, 4)
    same(await store.append_checkpoint(run, story.header(run, session, 9), story.lines[2:]), 9, "lines that overlap")
    await _holds(store, run, story, session, 9)


async def branches_are_kept_apart(c: Handles) -> None:
    """A log rebuilt from an earlier checkpoint that goes another way leaves the first one's later checkpoint whole."""
    store, session, first = await c.open(), c.name(), Story(6)
    second = Story(8, branch="other ", after=first, keep=3)
    early, late, again = c.name("early"), c.name("late"), c.name("again")
    await store.append_checkpoint(early, first.header(early, session, 3), first.lines[:3])
    await store.append_checkpoint(late, first.header(late, session, 6), first.lines[3:])
    stored = await store.append_checkpoint(again, second.header(again, session, 8), second.lines[7:])
    same(stored, 6, "the other way's end doesn't follow the first way: earlier lines are asked for")
    stored = await store.append_checkpoint(again, second.header(again, session, 8), second.lines[6:])
    same(stored, 0, "lines that follow none of those stored: all are asked for")
    same(await store.append_checkpoint(again, second.header(again, session, 8), second.lines), 8, "the whole other way")
    await _holds(store, early, first, session, 3)
    await _holds(store, late, first, session, 6)
    await _holds(store, again, second, session, 8)


async def facts_stay_when_a_checkpoint_goes(c: Handles) -> None:
    """delete_checkpoint takes the header only: the session's next run adds to the facts of the one before."""
    store, session, story = await c.open(), c.name(), Story(5)
    one, two = c.name("one"), c.name("two")
    await store.append_checkpoint(one, story.header(one, session, 4), story.lines[:4])
    same(await store.delete_checkpoint(one), True, "deleting a checkpoint")
    same(await store.delete_checkpoint(one), False, "deleting it again")
    same(await store.load_checkpoint(one), None, "the deleted checkpoint")
    same(await store.append_checkpoint(two, story.header(two, session, 5), story.lines[4:]), 5, "only the new line")
    await _holds(store, two, story, session, 5)


async def a_run_id_belongs_to_one_session(c: Handles) -> None:
    """A run id that another session holds, by a checkpoint or an admission, is RUN_IDENTITY_CONFLICT."""
    store, story = await c.open(), Story(2)
    run, admitted, mine, theirs = c.name("r"), c.name("d"), c.name("mine"), c.name("theirs")
    await store.append_checkpoint(run, story.header(run, mine, 2), story.lines)
    await store.admit_run(admitted, mine, "x")
    for name in (run, admitted):
        work = store.append_checkpoint(name, story.header(name, theirs, 2), story.lines)
        await refused("RUN_IDENTITY_CONFLICT", work, "another session's run id")
    await _holds(store, run, story, mine, 2)
    same(await store.list_checkpoints(theirs), [], "what the other session has")


async def checkpoints_are_listed(c: Handles) -> None:
    """list_checkpoints gives a session's headers by run id, and those of all sessions without one."""
    store, story = await c.open(), Story(3)
    mine = [story.header(c.name(run), c.name(), upto) for run, upto in (("c", 3), ("a", 1), ("b", 2))]
    theirs = story.header(c.name("z"), c.name("other"), 3)
    for header in (*mine, theirs):
        await store.append_checkpoint(header.run_id, header, story.lines[: header.seq])
    same(await store.list_checkpoints(c.name()), sorted(mine, key=lambda each: each.run_id), "the session's headers")
    everybody = await store.list_checkpoints()
    same(
        [each for each in everybody if each in (*mine, theirs)],
        [*await store.list_checkpoints(c.name()), theirs],
        "all",
    )


async def what_is_no_log_is_refused(c: Handles) -> None:
    """Lines that were changed, don't follow one another or don't end at the header are never stored."""
    store, run, session, story = await c.open(), c.name("r"), c.name(), Story(4)
    edited = [*story.lines[:3], story.lines[3].replace(b"said", b"sung")]
    swapped = [story.lines[1], story.lines[0], *story.lines[2:]]
    for lines in (edited, swapped, story.lines[:3], [*story.lines[:3], b"no line"]):
        work = store.append_checkpoint(run, story.header(run, session, 4), lines)
        await refused("SERIALIZATION_ERROR", work, "lines that are no log")
    first = [story.lines[0].replace(b"said", b"sung")]
    same(await store.append_checkpoint(run, story.header(run, session, 1), first), 0, "a first line that was changed")
    same(await store.load_checkpoint(run), None, "nothing was written")
    await refused("RUN_MISMATCH", store.append_checkpoint("other", story.header(run, session, 4), story.lines), "names")


CHECKS = (
    checkpoints_add_what_is_new,
    facts_that_are_missing_are_asked_for,
    branches_are_kept_apart,
    facts_stay_when_a_checkpoint_goes,
    a_run_id_belongs_to_one_session,
    checkpoints_are_listed,
    what_is_no_log_is_refused,
)
