"""What a configuration says, before anybody knows what it means. In: nothing. Out: nodes with offsets into the text.

One rule: a node keeps where it was written (``at``, an offset; -1 in a mapping), so that every later error can say so.
Known weakness: comments are not kept, so a file can't be written back.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from a3s_code.config.secret import EnvVar, Secret


class Scalar(msgspec.Struct, frozen=True):
    value: str | int | float | bool | None
    at: int = -1


class EnvNode(msgspec.Struct, frozen=True):
    """``env("NAME")`` or ``env("NAME", "default")``, not looked up yet."""

    var: EnvVar
    at: int = -1


class Given(msgspec.Struct, frozen=True):
    """A ``Secret`` that a host put into a mapping."""

    secret: Secret[object]
    at: int = -1


class Items(msgspec.Struct, frozen=True):
    items: tuple[Node, ...]
    at: int = -1


class Table(msgspec.Struct, frozen=True):
    """A block, an object, or the blocks of one name by their labels. ``block`` says that it was written as a block."""

    entries: dict[str, Entry]
    at: int = -1
    block: bool = False
    labelled: bool = False


class Entry(msgspec.Struct, frozen=True):
    """``at`` is the place of the key."""

    key: str
    value: Node
    at: int = -1


Node: TypeAlias = Scalar | EnvNode | Given | Items | Table


def kind_of(node: Node) -> str:
    """A node's kind in the words of an error."""
    match node:
        case Scalar(value=bool()):
            return "true or false"
        case Scalar(value=str()) | EnvNode() | Given():
            return "text"
        case Scalar(value=int()):
            return "a whole number"
        case Scalar(value=float()):
            return "a number"
        case Scalar():
            return "null"
        case Items():
            return "a list"
        case Table(block=block):
            return "a block" if block else "an object"


def plain(node: Node) -> object:
    """The node without its places, to be compared: ``EnvVar`` and ``Secret`` stay as they are."""
    match node:
        case Scalar(value=value):
            return value
        case EnvNode(var=var):
            return var
        case Given(secret=secret):
            return secret
        case Items(items=items):
            return [plain(item) for item in items]
        case Table(entries=entries):
            return {key: plain(entry.value) for key, entry in entries.items()}
