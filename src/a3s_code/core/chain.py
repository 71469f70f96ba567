"""A persistent list that only grows. In: items, one at a time. Out: a sequence sharing memory with its past.

One rule: a chain never changes; ``append`` gives a longer one and costs the same at any length.
Known weakness: appending twice to the same chain copies it once (two futures of one past).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Generic, TypeVar, overload

T = TypeVar("T")


class Chain(Sequence[T], Generic[T]):
    __slots__ = ("_items", "_length")

    def __init__(self, items: Iterable[T] = ()) -> None:
        self._items = list(items)
        self._length = len(self._items)

    def append(self, item: T) -> Chain[T]:
        """The chain with ``item`` at its end."""
        items = self._items
        if len(items) != self._length:
            items = items[: self._length]
        items.append(item)
        longer: Chain[T] = Chain.__new__(Chain)
        longer._items = items
        longer._length = self._length + 1
        return longer

    def tail(self, start: int) -> list[T]:
        """The items from ``start`` on, as a new list; costs what it returns."""
        return self._items[start : self._length]

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> list[T]: ...
    def __getitem__(self, index: int | slice) -> T | list[T]:
        if isinstance(index, slice):
            return self._items[: self._length][index]
        if index < 0:
            index += self._length
        if not 0 <= index < self._length:
            raise IndexError("chain index out of range")
        return self._items[index]

    def __iter__(self) -> Iterator[T]:
        for i in range(self._length):
            yield self._items[i]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Chain) and list(self) == list(other)

    def __hash__(self) -> int:
        raise TypeError("a Chain is not hashable")

    def __repr__(self) -> str:
        return f"Chain({list(self)!r})"


class IdSet:
    """A persistent set of ids that only grows, with the costs of a ``Chain``."""

    __slots__ = ("_at", "_length")

    def __init__(self) -> None:
        self._at: dict[str, int] = {}
        self._length = 0

    def add(self, ids: Iterable[str]) -> IdSet:
        at, length = self._at, self._length
        if len(at) != length:
            at = {name: i for name, i in at.items() if i < length}
        for name in ids:
            if name not in at:
                at[name] = len(at)
        longer = IdSet.__new__(IdSet)
        longer._at = at
        longer._length = len(at)
        return longer

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._at.get(name, self._length) < self._length

    def __len__(self) -> int:
        return self._length

    def __eq__(self, other: object) -> bool:
        return isinstance(other, IdSet) and set(self) == set(other)

    def __iter__(self) -> Iterator[str]:
        return (name for name, i in self._at.items() if i < self._length)

    def __hash__(self) -> int:
        raise TypeError("an IdSet is not hashable")
