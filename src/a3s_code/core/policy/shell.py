"""What a shell line would run (tools.md §5.4). In: its text and a parser. Out: parts, each with its layers, and writes.

One rule: a text that is read by a shell is parsed as one; what can't be parsed or isn't known is a part that may be
anything.
Known weakness: programs that run others in their own ways (``python -c``, ``make``) are ordinary commands.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from typing import Final

import msgspec

from a3s_code.core.policy import texts
from a3s_code.core.policy.glob import ANY, Text
from a3s_code.core.policy.line import Body, Line, Parse, Unknown, Word, Write
from a3s_code.core.policy.wrappers import ASSIGNMENT, ELSEWHERE, HARMLESS, KEYWORDS, unwrap

MAX_LAYERS: Final = 8
NEUTRAL: Final = frozenset("pwd true false : echo printf test [ exit wait set".split())
_HOLE: Final = "${A3S_UNKNOWN}"
_RISKY: Final = re.compile(r"(?:PATH|ENV|BASH_ENV|LD_\w*|DYLD_\w*)\+?=.*", re.DOTALL)
_MANY_DIRECTORIES: Final = 8
_NOWHERE: Final = ("/dev/null", "/dev/stdout", "/dev/stderr")


class Layer(msgspec.Struct, frozen=True):
    """One stage of a command. ``fixed`` and ``open`` are the texts for deny and ask, ``words`` for rules on flags.

    ``allow`` are the texts for allow rules, each with the length at which the innermost program or text ends.
    """

    shown: str
    fixed: tuple[str, ...]
    open: tuple[Text, ...]
    words: tuple[Word, ...]
    allow: tuple[tuple[str, int], ...]


class Part(msgspec.Struct, frozen=True):
    """A command. What it wraps is ``inner``; ``transparent`` wrappers count for nothing themselves."""

    layer: Layer
    neutral: bool = False
    inner: tuple[Part, ...] = ()
    transparent: bool = False
    reach: int = 0

    def layers(self) -> Iterator[Layer]:
        yield self.layer
        for part in self.inner:
            yield from part.layers()


class Target(msgspec.Struct, frozen=True):
    """A file opened for writing. ``path`` is ``None`` when unknown parts are in it; then ``open`` describes it."""

    shown: str
    path: str | None
    open: Text


class Analysed(msgspec.Struct, frozen=True):
    """``directories`` are those the line may be in when it writes, relative to where it began; ``None``: any."""

    parts: tuple[Part, ...]
    targets: tuple[Target, ...] = ()
    directories: tuple[str | None, ...] = (".",)


UNKNOWN: Final = Part(Layer("(unknown command)", (), ((ANY,),), (), ()))


def analyse(text: str, parse: Parse) -> Analysed:
    reader = _Reader(parse)
    line = parse(text)
    if line is None:
        return Analysed((UNKNOWN,))
    parts = reader.line(line, 0)
    return Analysed(parts, tuple(reader.targets), tuple(reader.directories))


class _Reader:
    def __init__(self, parse: Parse) -> None:
        self._parse = parse
        self.targets: list[Target] = []
        self.directories: list[str | None] = ["."]

    def line(self, line: Line, depth: int) -> tuple[Part, ...]:
        parts = []
        for item in line:
            if isinstance(item, Write):
                if item.target.text in _NOWHERE:
                    continue
                self.targets.append(_target(item.target))
            elif item.test:
                parts.append(Part(_layer(item.words, (), 1), neutral=True))
            elif item.words:
                self._changes_directory(item.words)
                parts.append(self.command(item.words, item.assigns, item.body, depth))
            elif item.assigns:
                risky = any(_RISKY.fullmatch(str(word.segments[0])) for word in item.assigns)
                parts.append(Part(_layer((), item.assigns, 0), neutral=not risky))
        return tuple(parts)

    def command(self, words: tuple[Word, ...], assigns: tuple[Word, ...], body: Body | None, depth: int) -> Part:
        if depth >= MAX_LAYERS:
            return UNKNOWN
        name = texts.based(words[0]).text
        wrapped = unwrap(name, words, body) if name is not None else None
        if wrapped is None:
            return Part(_layer(words, assigns, 1), _is_neutral(words), reach=1)
        inner = []
        for found in wrapped.commands:
            front = _assignments(found) if name in KEYWORDS else 0
            if found[front:]:
                inner.append(self.command(found[front:], found[:front], body, depth + 1))
        for text in wrapped.texts:
            inner += self._text(text, depth + 1)
        if wrapped.unknown:
            inner.append(UNKNOWN)
        reach = wrapped.reach + (inner[0].reach if wrapped.commands and inner else 0)
        harmful = any(not HARMLESS.fullmatch(word.text or "") for word in assigns)
        transparent = wrapped.transparent and not harmful
        return Part(_layer(words, assigns, reach), False, tuple(inner), transparent, reach)

    def _text(self, word: Word, depth: int) -> tuple[Part, ...]:
        """What a shell makes of a text. Unknown parts of it may be anything, a separator too."""
        if depth >= MAX_LAYERS:
            return (UNKNOWN,)
        known = all(isinstance(segment, str) for segment in word.segments)
        text = "".join(_HOLE if isinstance(segment, Unknown) else segment for segment in word.segments)
        line = self._parse(text)
        if line is None:
            return (UNKNOWN,)
        parts = self.line(line, depth)
        return parts if known else (*parts, UNKNOWN)

    def _changes_directory(self, words: tuple[Word, ...]) -> None:
        name = words[0].text
        if name == "cd" and len(words) == 2 and words[1].text and not words[1].text.startswith(("-", "~")):
            known = [here for here in self.directories if here is not None]
            below = [posixpath.normpath(posixpath.join(here, words[1].text)) for here in known]
            self.directories += [here for here in below if here not in self.directories]
        elif name in ("cd", "pushd", "popd") and None not in self.directories:
            self.directories.append(None)
        if len(self.directories) > _MANY_DIRECTORIES:
            self.directories = [".", None]


def _assignments(words: tuple[Word, ...]) -> int:
    """How many words in front are assignments; quoted ones are not."""
    return next((i for i, word in enumerate(words) if not ASSIGNMENT.fullmatch(word.source)), len(words))


def _is_neutral(words: tuple[Word, ...]) -> bool:
    name = words[0].text
    if name != "cd":
        return name in NEUTRAL
    target = words[1].text if len(words) == 2 else None
    if not target or target.startswith(("/", "-")) or words[1].home:
        return False
    return posixpath.normpath(target).split("/")[0] != ".."


def _layer(words: tuple[Word, ...], assigns: tuple[Word, ...], reach: int) -> Layer:
    fixed: list[str] = [texts.source((*assigns, *words))]
    unknown: list[Text] = []
    for form in texts.variants(words) if words else ():
        made = texts.plain(form)
        if isinstance(made, str):
            fixed.append(made)
        else:
            unknown.append(made)
    return Layer(
        fixed[0],
        tuple(dict.fromkeys(fixed)),
        tuple(dict.fromkeys(unknown)),
        texts.based_words(words) if words else (),
        tuple(_allow_texts(words, assigns, reach)),
    )


def _allow_texts(words: tuple[Word, ...], assigns: tuple[Word, ...], reach: int) -> Iterator[tuple[str, int]]:
    """As written, and as words; with the assignments that aren't harmless, and with all of them."""
    kept = tuple(word for word in assigns if not HARMLESS.fullmatch(word.text or ""))
    for front in (kept, assigns) if len(kept) != len(assigns) else (assigns,):
        whole = (*front, *words)
        beyond = 0 if reach <= len(words) else ELSEWHERE
        yield texts.source(whole), beyond or len(texts.source((*front, *words[:reach])))
        flat = texts.plain_for_allow(whole)
        if flat is not None:
            yield flat, beyond or len(texts.plain_for_allow((*front, *words[:reach])) or flat)


def _target(word: Word) -> Target:
    parts: list[str | None] = [ANY if isinstance(s, Unknown) else s for s in word.segments]
    if word.home and isinstance(parts[0], str):
        parts = [ANY, "/" + parts[0].partition("/")[2], *parts[1:]]
        return Target(word.source, None, tuple(parts))
    return Target(word.source, word.text, tuple(parts))
