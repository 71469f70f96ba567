"""What a backend must do. In: names to lock and reads and writes of bytes. Out: all of them, or none.

One rule: a transaction sees only what is committed, and nobody else changes what its locks name until it ends.
Known weakness: none known.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Literal, Protocol, TypeAlias, TypeVar

import msgspec

from a3s_code.core.branches import StoredFact
from a3s_code.core.documents import SessionEntry

T = TypeVar("T")
Kind: TypeAlias = Literal["session", "checkpoint", "run", "workflow", "lease", "inbox"]


class About(msgspec.Struct, frozen=True):
    """What a backend may index of a document, besides its key. ``renewal`` says that a power cut may undo it."""

    session_id: str = ""
    tenant_id: str | None = None
    saved_ms: int = 0
    renewal: bool = False


class Name(msgspec.Struct, frozen=True):
    """What a backend calls a document: ``text`` for itself, ``where`` (a file, a row) for a person. ``key`` is the
    document's id as far as its name tells."""

    text: str
    where: str
    key: str | None


class Transaction(Protocol):
    """Of a backend whose methods block, none of these suspends: ``run_through`` runs them in a thread.

    A rule makes all its checks before its first write, so a backend that can't undo need not: it only keeps the order
    of the writes, so that what is torn off is the end.
    """

    locked: frozenset[str]
    """The locks it has: all that were asked for, unless they were only asked for when free."""

    async def now_ms(self) -> int:
        """By a clock that all users of the backend share."""

    async def get(self, kind: Kind, key: str) -> bytes | None: ...

    async def put(self, kind: Kind, key: str, data: bytes, about: About) -> None: ...

    async def get_all(self, names: Sequence[tuple[Kind, str]]) -> dict[tuple[Kind, str], bytes]:
        """Those that are there."""

    async def put_all(self, kind: Kind, rows: Sequence[tuple[str, bytes, About]]) -> None: ...

    async def delete(self, kind: Kind, key: str, session_id: str = "") -> bool: ...

    async def of_session(self, kind: Kind, session_id: str | None) -> list[bytes]:
        """The documents of ``checkpoint`` or ``run`` that belong to a session (``None``: all)."""

    async def names(self, kind: Kind) -> list[Name]:
        """Of all documents of a kind, also of those that can't be read."""

    async def named(self, kind: Kind, name: str) -> bytes | None:
        """The document that ``names`` calls so."""

    async def page(self, tenant_id: str | None, after: str | None, limit: int) -> list[SessionEntry]: ...

    async def sums_at(self, session_id: str, seq: int) -> list[str]:
        """The sums of the stored facts of this ``seq``."""

    async def last_below(self, session_id: str, seq: int) -> int:
        """The highest ``seq`` stored below this one; 0 for none."""

    async def facts(self, session_id: str, upto: int) -> list[StoredFact]: ...

    async def add_facts(self, session_id: str, rows: Sequence[StoredFact]) -> None:
        """Those that are there already stay as they are."""

    async def delete_facts(self, session_id: str) -> bool: ...

    async def emit(self, kind: str, session_id: str, ref: str) -> None:
        """Tells watchers, once this is committed."""


class OneByOne:
    """``get_all`` and ``put_all`` of a backend that has nothing to win by doing more at once."""

    async def get(self, kind: Kind, key: str) -> bytes | None:
        raise NotImplementedError

    async def put(self, kind: Kind, key: str, data: bytes, about: About) -> None:
        raise NotImplementedError

    async def get_all(self, names: Sequence[tuple[Kind, str]]) -> dict[tuple[Kind, str], bytes]:
        found = {name: await self.get(*name) for name in names}
        return {name: data for name, data in found.items() if data is not None}

    async def put_all(self, kind: Kind, rows: Sequence[tuple[str, bytes, About]]) -> None:
        for row in rows:
            await self.put(kind, *row)


Rule: TypeAlias = Callable[[Transaction], Coroutine[Any, Any, T]]


class Backend(Protocol):
    def transact(self, locks: Sequence[str], rule: Rule[T], *, if_free: bool = False) -> Awaitable[T]:
        """Runs ``rule`` in one transaction that has ``locks``. Without any it only reads, and each read sees what is
        there by then. ``if_free`` is for renewing leases: a lock that somebody has is left out instead of waited for,
        and a power cut may undo what is written."""

    def place(self, kind: Kind, key: str) -> str:
        """Where a document is kept: a file, a table."""

    async def off_loop(self, work: Callable[..., T], *args: Any) -> T:
        """Runs work that takes milliseconds where it doesn't hold up the event loop."""


def run_through(work: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that waits for nothing."""
    try:
        work.send(None)
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]  # a coroutine's StopIteration carries its result
    work.close()
    raise RuntimeError("a blocking backend's transaction waited for something")
