"""A session store for tests. In: documents. Out: the same documents, until the process ends.

One rule: everything happens under one lock that is held for microseconds, so it serves any number of loops and threads.
Known weakness: it is lost with the process; its clock is the event loop's, so ``expires_ms`` is no Unix time.
"""

from __future__ import annotations

import asyncio
import bisect
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, Final, TypeVar

from a3s_code.core.branches import StoredFact
from a3s_code.core.documents import SessionEntry, digest_of
from a3s_code.ports.store import StoreCapabilities, StoreEvent
from a3s_code.stores.rules import RuledStore
from a3s_code.stores.transaction import About, Kind, Name, OneByOne, Rule, run_through
from a3s_code.stores.watching import Journal

T = TypeVar("T")
_CAPABILITIES: Final = StoreCapabilities(
    atomic_snapshots=True,
    cas=True,
    append_only_log=True,
    lease_fencing=True,
    encrypted_at_rest=False,
    watch=True,
    control_inbox=True,
    shared_across_nodes=False,
)


class MemorySessionStore(RuledStore):
    """For tests, and for sessions that need not outlive their process."""

    def __init__(self) -> None:
        self._memory = _Memory()
        super().__init__(self._memory)

    def watch(self, after: str | None = None) -> AsyncIterator[StoreEvent]:
        return self._memory.journal.watch(after)

    def capabilities(self) -> StoreCapabilities:
        return _CAPABILITIES

    async def close(self) -> None:
        """Keeps everything: the next user of this object finds it."""

    def __repr__(self) -> str:
        return "MemorySessionStore()"


class _Memory(OneByOne):
    """The backend, and the one transaction that is at work at a time."""

    def __init__(self) -> None:
        self.journal = Journal()
        self.locked: frozenset[str] = frozenset()
        self._guard = threading.Lock()
        self._documents: dict[tuple[Kind, str], tuple[bytes, About]] = {}
        self._sessions: list[str] = []
        self._facts: dict[str, dict[int, list[StoredFact]]] = {}
        self._told: list[tuple[str, str, str]] = []

    async def transact(self, locks: Sequence[str], rule: Rule[T], *, if_free: bool = False) -> T:
        with self._guard:
            self.locked = frozenset(locks)
            self._told = []
            result = run_through(rule(self))
            for event in self._told:
                self.journal.add(*event)
        return result

    def place(self, kind: Kind, key: str) -> str:
        return "memory"

    async def off_loop(self, work: Callable[..., T], *args: Any) -> T:
        return await asyncio.to_thread(work, *args)

    async def now_ms(self) -> int:
        return int(asyncio.get_running_loop().time() * 1000)

    async def get(self, kind: Kind, key: str) -> bytes | None:
        found = self._documents.get((kind, key))
        return None if found is None else found[0]

    async def put(self, kind: Kind, key: str, data: bytes, about: About) -> None:
        if kind == "session" and (kind, key) not in self._documents:
            bisect.insort(self._sessions, key)
        self._documents[kind, key] = (data, about)

    async def delete(self, kind: Kind, key: str, session_id: str = "") -> bool:
        if self._documents.pop((kind, key), None) is None:
            return False
        if kind == "session":
            self._sessions.remove(key)
        return True

    async def of_session(self, kind: Kind, session_id: str | None) -> list[bytes]:
        return [
            data
            for (found, _), (data, about) in self._documents.items()
            if found == kind and session_id in (None, about.session_id)
        ]

    async def names(self, kind: Kind) -> list[Name]:
        return [Name(key, f"memory ({kind} {key!r})", key) for found, key in sorted(self._documents) if found == kind]

    async def named(self, kind: Kind, name: str) -> bytes | None:
        return await self.get(kind, name)

    async def page(self, tenant_id: str | None, after: str | None, limit: int) -> list[SessionEntry]:
        page: list[SessionEntry] = []
        sizes: Counter[str] = Counter()
        for (kind, _), (data, about) in self._documents.items():
            if kind != "lease":
                sizes[about.session_id] += len(data)
        for key in self._sessions[bisect.bisect_right(self._sessions, after) if after is not None else 0 :]:
            data, about = self._documents["session", key]
            if tenant_id in (None, about.tenant_id):
                facts = sum(len(row.raw) for rows in self._facts.get(key, {}).values() for row in rows)
                page.append(SessionEntry(key, about.tenant_id, about.saved_ms, digest_of(data), sizes[key] + facts))
                if len(page) == limit:
                    break
        return page

    async def sums_at(self, session_id: str, seq: int) -> list[str]:
        return [fact.sum for fact in self._facts.get(session_id, {}).get(seq, ())]

    async def last_below(self, session_id: str, seq: int) -> int:
        return max((each for each in self._facts.get(session_id, ()) if each < seq), default=0)

    async def facts(self, session_id: str, upto: int) -> list[StoredFact]:
        return [fact for seq, found in self._facts.get(session_id, {}).items() if seq <= upto for fact in found]

    async def add_facts(self, session_id: str, rows: Sequence[StoredFact]) -> None:
        stored = self._facts.setdefault(session_id, {})
        for row in rows:
            here = stored.setdefault(row.seq, [])
            if all(fact.sum != row.sum for fact in here):
                here.append(row)

    async def delete_facts(self, session_id: str) -> bool:
        return self._facts.pop(session_id, None) is not None

    async def emit(self, kind: str, session_id: str, ref: str) -> None:
        self._told.append((kind, session_id, ref))
