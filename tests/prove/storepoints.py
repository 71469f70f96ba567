"""Points in the life of a store, for trouble. In: a store's backend. Out: the same, telling when a point is reached.

A point is before a write, before each change in its transaction, before its commit, and after it.

One rule: a point is passed at the same place each time, whatever the store.
Known weakness: a renewal of a lease comes when its time has come, so it has none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

from a3s_code.stores.transaction import Backend, Rule, Transaction

T = TypeVar("T")
CHANGES: Final = {"put", "put_all", "delete", "add_facts", "delete_facts", "emit"}


class Points:
    """Counts the points of a store, and calls ``act`` at the ``at``-th (from 1; 0 never)."""

    def __init__(self, at: int, act: Callable[[], object]) -> None:
        self.passed = 0
        self._at = at
        self._act = act

    def reached(self) -> None:
        self.passed += 1
        if self.passed == self._at:
            self._act()


class Between:
    """A transaction with a point before each change."""

    def __init__(self, tx: Transaction, points: Points) -> None:
        self._tx = tx
        self._points = points

    def __getattr__(self, name: str) -> Any:
        if name in CHANGES:
            self._points.reached()
        return getattr(self._tx, name)


class Troubled:
    """A store's backend with points: before a write, at each change in it, before its commit, and after that."""

    def __init__(self, backend: Backend, points: Points) -> None:
        self._backend = backend
        self._points = points

    async def transact(self, locks: Sequence[str], rule: Rule[T], *, if_free: bool = False) -> T:
        if not locks or if_free:
            return await self._backend.transact(locks, rule, if_free=if_free)

        async def watched(tx: Transaction) -> T:
            result = await rule(Between(tx, self._points))
            self._points.reached()
            return result

        self._points.reached()
        result = await self._backend.transact(locks, watched)
        self._points.reached()
        return result

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)
