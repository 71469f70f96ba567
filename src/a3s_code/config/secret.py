"""Values that must not be shown. In: a value, or how to find it. Out: ``Secret``, which only ``reveal()`` opens.

One rule: no text form of a ``Secret`` (repr, str, format, pickle, JSON) holds its value.
Known weakness: the value is in memory as an ordinary string.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, NoReturn, TypeVar, cast

import msgspec

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class EnvVar(msgspec.Struct, frozen=True):
    """The environment variable ``name``, read when its value is needed. In a mapping it stands for ``env()``."""

    name: str
    default: str | None = None


class Secret(Generic[T_co]):
    """A value that is never shown. Two are equal when they were given the same."""

    __slots__ = ("_given", "_read")

    def __init__(self, value: T_co) -> None:
        self._given: object = value
        self._read: Callable[[], T_co] | None = None

    @classmethod
    def later(cls, given: object, read: Callable[[], T]) -> Secret[T]:
        """One that calls ``read`` whenever it is revealed; ``given`` stands for it in comparisons."""
        secret = cast("Secret[T]", cls.__new__(cls))
        secret._given = given
        secret._read = read
        return secret

    @property
    def deferred(self) -> bool:
        """Whether it is looked up only when it is revealed."""
        return self._read is not None

    def reveal(self) -> T_co:
        """The value. Raises ``ConfigError`` when it comes from an environment variable that is not set."""
        if self._read is not None:
            return self._read()
        return cast("T_co", self._given)

    def __repr__(self) -> str:
        return "Secret(***)"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and self._given == other._given

    def __hash__(self) -> int:
        raise TypeError("a Secret is not hashable")

    def __copy__(self) -> Secret[T_co]:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Secret[T_co]:
        return self

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Secret can't be pickled; pass the configuration's source instead")
