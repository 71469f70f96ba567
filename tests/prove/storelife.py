"""A session that lives through trouble with its store. In: a session's store, and trouble. Out: what came of it.

Three runs of the scenario: one in peace, one in trouble, and one when the trouble is over.

One rule: what a store holds is read through a handle of its own, after the trouble.
Known weakness: none known.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NamedTuple

from scenario import FINAL, PROMPT, UNSAFE, effects, open_session
from storehelp import AnyStore

from a3s_code import Agent, Session


class Life(NamedTuple):
    """``told`` is what the run in trouble said it could not keep; ``kept`` is whether the store then held the ``old``
    generation of the session or the ``new`` one."""

    told: list[str]
    kept: str

    def check(self) -> None:
        assert set(self.told) <= {"checkpoint", "snapshot", "run record", "lease"}, self.told
        assert self.kept in ("old", "new"), "the store holds neither the old generation nor the new one"
        assert self.kept == "new" or "snapshot" in self.told, "the snapshot was not kept, and nobody was told"


def ignore(seq: str) -> None:
    """Nothing is asked of the log here."""


async def lived(
    make_store: Callable[[], AnyStore], workspace: Path, trouble: Callable[[AnyStore], AbstractContextManager[object]]
) -> Life:
    """The session goes through all of it; ``AssertionError`` when a run doesn't end well, or when anything of the last
    one isn't kept."""
    store = make_store()
    async with await Agent.create_from_config_async({}) as agent:
        session = await open_session(
            agent, workspace, "report", ignore, session_store=store, auto_save=True, log_durability="os"
        )
        assert await _run(session, workspace, 1) == []
        before = await _digest(make_store)
        with trouble(store):
            told = await _run(session, workspace, 2)
        after = await _digest(make_store)
        new = await _messages(make_store) == session.history()
        assert await _run(session, workspace, 3) == [], "something was not kept after the trouble"
        assert await _messages(make_store) == session.history()
        assert await _checkpoints(make_store) == 0, "a checkpoint of a run that has ended is left"
    await store.close()
    return Life(told, "new" if new else "old" if after == before else "other")


async def _run(session: Session, workspace: Path, number: int) -> list[str]:
    """What the run said it could not keep."""
    events = [event async for event in await session.stream_async(PROMPT)]
    assert events[-1].type == "agent_end", events[-1]
    assert session.runs()[-1]["text"] == FINAL
    assert effects(workspace) == dict.fromkeys(UNSAFE, number)
    return [str(event.payload["what"]) for event in events if event.type == "persistence_failed"]


async def _read(make_store: Callable[[], AnyStore], what: Callable[[AnyStore], Any]) -> Any:
    store = make_store()
    try:
        return await what(store)
    finally:
        await store.close()


async def _digest(make_store: Callable[[], AnyStore]) -> str | None:
    snapshot = await _read(make_store, lambda store: store.load_snapshot("proof"))
    return None if snapshot is None else str(snapshot.digest)


async def _messages(make_store: Callable[[], AnyStore]) -> list[Any]:
    snapshot = await _read(make_store, lambda store: store.load_snapshot("proof"))
    return [] if snapshot is None else list(snapshot.messages)


async def _checkpoints(make_store: Callable[[], AnyStore]) -> int:
    """How many there are; a damaged one raises."""

    async def count(store: AnyStore) -> int:
        headers = await store.list_checkpoints("proof")
        for header in headers:
            assert await store.load_checkpoint(header.run_id) is not None
        return len(headers)

    return int(await _read(make_store, count))
