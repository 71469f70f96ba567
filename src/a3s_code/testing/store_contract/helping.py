"""What the checks of the store contract are made with. In: a way to open a store. Out: handles, ids and log lines.

One rule: a check uses ids of its own, so that all of them can run on one storage that is never emptied.
Known weakness: waiting for a lease to run out takes the milliseconds that it lasts.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias, TypeVar

from a3s_code.core.codec import encode
from a3s_code.core.facts import Fact, UserSaid
from a3s_code.errors import CodeError, SessionBusy
from a3s_code.ports.store import CheckpointHeader, Lease, SessionStore
from a3s_code.ports.tasks import breathe
from a3s_code.system.clock import SystemEntropy

T = TypeVar("T")
MakeStore: TypeAlias = Callable[[], SessionStore | Awaitable[SessionStore]]


class Handles:
    """The handles that one check opens on the storage, and the names it uses there."""

    def __init__(self, make_store: MakeStore) -> None:
        self._make = make_store
        self._open: list[SessionStore] = []
        self._word = SystemEntropy().new_id()

    async def open(self) -> SessionStore:
        made = self._make()
        store = await made if inspect.isawaitable(made) else made
        self._open.append(store)
        return store

    def name(self, what: str = "") -> str:
        return f"{self._word}-{what}"

    async def close(self) -> None:
        for store in self._open:
            await store.close()


class Story:
    """A session's log as raw lines; ``lines[n]`` is fact ``n + 1``."""

    def __init__(self, texts: int, *, branch: str = "", after: Story | None = None, keep: int = 0) -> None:
        self.lines: list[bytes] = list(after.lines[:keep]) if after else []
        self.sums: list[str] = list(after.sums[:keep]) if after else []
        for seq in range(len(self.lines) + 1, texts + 1):
            said = UserSaid(f"{branch}{seq} said — λ", "prompt")
            line, sum_ = encode(Fact(seq, f"f{seq}", seq, "r", "user.message", said), self.sums[-1] if seq > 1 else "")
            self.lines.append(line[:-1])
            self.sums.append(sum_)

    def header(self, run_id: str, session_id: str, upto: int, **more: Any) -> CheckpointHeader:
        return CheckpointHeader(run_id=run_id, session_id=session_id, seq=upto, sum=self.sums[upto - 1], **more)


def same(found: object, wanted: object, what: str) -> None:
    if found != wanted:
        raise AssertionError(f"{what}: found {found!r}, not {wanted!r}")


async def refused(code: str, work: Awaitable[object], what: str) -> None:
    """``work`` must raise a ``CodeError`` of this code."""
    try:
        result = await work
    except CodeError as error:
        same(error.code, code, f"{what} (it said: {error})")
        return
    raise AssertionError(f"{what}: it gave {result!r} and did not raise {code}")


async def together(*work: Awaitable[T]) -> list[T | CodeError]:
    """All at once; the ``CodeError`` of those that raised one."""

    async def one(each: Awaitable[T]) -> T | CodeError:
        try:
            return await each
        except CodeError as error:
            return error

    return list(await asyncio.gather(*(one(each) for each in work)))


async def taken_over(store: SessionStore, session_id: str, holder: str, ttl_ms: int = 60_000) -> Lease:
    """The lease, once the present one has run out."""
    async with asyncio.timeout(20):
        while True:
            try:
                return await store.acquire_lease(session_id, holder, ttl_ms)
            except SessionBusy:
                await breathe()
