"""Python values into a tree. In: a mapping or one of the typed structs. Out: a ``Table``, or a ``ConfigError``.

One rule: what isn't JSON, a path, ``EnvVar`` or ``Secret`` is an error that names its field; nothing is guessed.
Known weakness: an object and a block look the same here, so only a top-level unknown mapping counts as a block.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from a3s_code.config.parser import MAX_DEPTH
from a3s_code.config.secret import EnvVar, Secret
from a3s_code.config.source import Source
from a3s_code.config.tree import Entry, EnvNode, Given, Items, Node, Scalar, Table


def node_of(value: object, source: Source, path: tuple[str, ...] = ()) -> Node:
    """``value`` as a tree; ``path`` is where it stands."""
    if len(path) > MAX_DEPTH:
        raise source.error(-1, f"nested more than {MAX_DEPTH} deep", path[:3])
    match value:
        case None | str() | bool() | int():
            return Scalar(value)
        case float():
            if not math.isfinite(value):
                raise source.error(-1, "expected a number, found one that is not finite", path)
            return Scalar(value)
        case EnvVar():
            return EnvNode(value)
        case Secret():
            return Given(value)
        case os.PathLike():
            return Scalar(os.fsdecode(value))
        case Mapping():
            return table_of(value, source, path)
        case msgspec.Struct():
            return table_of(_fields(value), source, path)
        case list() | tuple():
            return Items(tuple(node_of(item, source, (*path, str(i))) for i, item in enumerate(value)))
    raise source.error(-1, f"expected JSON, found a {type(value).__name__}", path)


def table_of(mapping: Mapping[Any, object], source: Source, path: Sequence[str] = ()) -> Table:
    entries = {}
    for key, value in mapping.items():
        if not isinstance(key, str):
            raise source.error(-1, f"expected text as a key, found a {type(key).__name__}", path)
        entries[key] = Entry(key, node_of(value, source, (*path, key)))
    return Table(entries)


def _fields(struct: msgspec.Struct) -> dict[str, object]:
    """A typed struct as the mapping it came from: its label is the key it stands under, and ``None`` and the empty
    text were not said."""
    label = getattr(struct, "LABEL", None)
    values = ((name, getattr(struct, name)) for name in struct.__struct_fields__)
    return {name: value for name, value in values if name != label and value is not None and value != ""}
