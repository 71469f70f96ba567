"""The texts of one layer of a command (tools.md §5.4, 4). In: its words. Out: what rules are matched against.

One rule: more texts for deny and ask never mean more for allow.
Known weakness: none known.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from a3s_code.core.policy.glob import ANY, SOLID, Maybe, Text
from a3s_code.core.policy.line import Unknown, Word

_GIT_VALUES: Final = frozenset(
    "-C -c --git-dir --work-tree --namespace --exec-path --super-prefix --config-env --attr-source".split()
)
_NOT_PLAIN: Final = re.compile(r"[\s|&;()<>$`\"'\\]")


def source(words: Sequence[Word]) -> str:
    return " ".join([word.source for word in words])


def plain(words: Sequence[Word]) -> str | Text:
    """The words after quote removal: a text, or one with unknown parts. An unknown directory in front of a known
    program brings no blanks with it, so that ``"$HOME/bin/x"`` isn't taken for any command there is."""
    texts = [word.text for word in words]
    if None not in texts:
        return " ".join(text for text in texts if text is not None)
    parts: list[str | Maybe | None] = []
    for position, word in enumerate(words):
        pieces = tuple(ANY if isinstance(s, Unknown) else s for s in word.segments)
        if position and word.splits and len(pieces) == 1:
            parts.append(Maybe((" ", *pieces)))
        elif position:
            parts += [" ", *pieces]
        elif len(words) > 1 and isinstance(word.segments[0], Unknown) and len(pieces) == 1:
            parts.append(Maybe((*pieces, " ")))
            return (*parts, *_as_text(plain(words[1:])))
        elif not word.splits and based(word).text is not None:
            parts += [SOLID if piece is ANY else piece for piece in pieces]
        else:
            parts += pieces
    return tuple(parts)


def _as_text(text: str | Text) -> Text:
    return (text,) if isinstance(text, str) else text


def plain_for_allow(words: Sequence[Word]) -> str | None:
    """``None`` when a word holds blanks, signs that mean something to a shell, or something unknown."""
    texts = [word.text for word in words]
    if any(not text or _NOT_PLAIN.search(text) for text in texts):
        return None
    return " ".join(text for text in texts if text)


def based(word: Word) -> Word:
    """A program's path as its base name."""
    segments = word.segments
    for position in range(len(segments) - 1, -1, -1):
        segment = segments[position]
        if isinstance(segment, str) and "/" in segment:
            tail = segment.rpartition("/")[2]
            if Unknown.INSIDE in segments[position + 1 :] or Unknown.SPLIT in segments[position + 1 :]:
                return Word(word.source, (Unknown.SPLIT,))
            rest = segments[position + 1 :]
            return Word(word.source, (tail, *rest) if tail or not rest else rest)
    return word


def based_words(words: tuple[Word, ...]) -> tuple[Word, ...]:
    """The words with the program's base name, without ``git``'s global options."""
    base = (based(words[0]), *words[1:])
    end = _past_git_options(base) if base[0].text == "git" else 1
    return (base[0], *base[end:]) if 1 < end < len(base) else base


def variants(words: tuple[Word, ...]) -> Iterator[tuple[Word, ...]]:
    """The words as they are, with the program's base name, without ``git``'s global options or leading flags."""
    yield words
    yield (based(words[0]), *words[1:])
    base = based_words(words)
    yield base
    end = _past_flags(base)
    if 1 < end < len(base):
        yield (base[0], *base[end:])


def _past_git_options(words: tuple[Word, ...]) -> int:
    at = 1
    while at < len(words):
        first = words[at].segments[0] if words[at].segments else ""
        if not isinstance(first, str) or not first.startswith("-"):
            break
        takes = first in _GIT_VALUES and len(words[at].segments) == 1
        if takes and at + 1 < len(words) and words[at + 1].splits:
            return at + 1
        at += 2 if takes else 1
    return at


def _past_flags(words: tuple[Word, ...]) -> int:
    """Behind ``--`` what looks like a flag is none, so nothing is taken away there."""
    at = 1
    while at < len(words) and (words[at].text or "").startswith("-"):
        if words[at].text == "--":
            return 1
        at += 1
    return at
