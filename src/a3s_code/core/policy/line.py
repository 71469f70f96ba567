"""A shell line as the policy sees it. In: nothing. Out: frozen values that a parser fills in.

One rule: what the shell would only know when it runs the line is ``Unknown``, never a guess.
Known weakness: pipes and conditions are not kept; every command of a line is judged as if it ran.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import TypeAlias

import msgspec


class Unknown(enum.Enum):
    """Text that stands for any text: within one word, over several words or none, or over file names."""

    INSIDE = "inside"
    SPLIT = "split"
    GLOB = "glob"


Segment: TypeAlias = str | Unknown


class Word(msgspec.Struct, frozen=True):
    """``source`` as it was written, ``segments`` without quotes and escapes; neighbouring texts are one segment.

    ``home`` says that it begins with an unquoted ``~``.
    """

    source: str
    segments: tuple[Segment, ...]
    home: bool = False

    @property
    def text(self) -> str | None:
        """The word, when the line alone says what it is."""
        if len(self.segments) == 1 and isinstance(self.segments[0], str):
            return self.segments[0]
        return None if self.segments else ""

    @property
    def splits(self) -> bool:
        """It may be several words when the line runs, or none."""
        return Unknown.SPLIT in self.segments or Unknown.GLOB in self.segments


class Body(msgspec.Struct, frozen=True):
    """What a here-document or here-string feeds to a command."""

    word: Word


class Command(msgspec.Struct, frozen=True):
    """A simple command. ``test`` is ``[ … ]`` or ``[[ … ]]``, whose only word is its source."""

    words: tuple[Word, ...]
    assigns: tuple[Word, ...] = ()
    body: Body | None = None
    test: bool = False


class Write(msgspec.Struct, frozen=True):
    """A redirection that opens ``target`` for writing."""

    target: Word


Line: TypeAlias = tuple[Command | Write, ...]
"""Commands and writes in the order in which they stand in the line, those of substitutions included."""

Parse: TypeAlias = Callable[[str], Line | None]
"""``None`` for a text that can't be parsed."""
