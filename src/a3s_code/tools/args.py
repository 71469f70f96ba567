"""Reads validated arguments with their types. In: arguments that passed the schema. Out: str, int, bool.

One rule: the schema has refused wrong types before; a wrong one here is a fault of ours and reads like one.
Known weakness: none known.
"""

from __future__ import annotations

from collections.abc import Mapping

from a3s_code.core.content import Json


def text(args: Mapping[str, Json], name: str, default: str | None = None) -> str:
    value = args.get(name, default)
    if not isinstance(value, str):
        raise TypeError(f"{name} is not a string")
    return value


def optional_integer(args: Mapping[str, Json], name: str) -> int | None:
    value = args.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or value != int(value):
        raise TypeError(f"{name} is not an integer")
    return int(value)  # 3.0 is an integer to JSON Schema


def integer(args: Mapping[str, Json], name: str, default: int) -> int:
    value = optional_integer(args, name)
    return default if value is None else value


def flag(args: Mapping[str, Json], name: str) -> bool:
    return args.get(name) is True
