"""Finding and replacing exact text (tools.md §3.3). In: a file's text, the old and the new. Out: regions, new text.

One rule: characters outside the regions found are never touched.
Known weakness: the most similar region is looked for among the few that share most words with the old text, and
compared by its first 2,000 characters.

Where §3.3 is silent: text that matches only by cutting a ``\\r\\n`` in two is matched with terminators normalised
instead (else deleting ``"\\nfoo"`` would leave a stray ``\\r``), and the new lines of a single-line old text also
take the terminator of their line, unless the new text has ``\\r\\n`` itself.
"""

from __future__ import annotations

import heapq
import re
from bisect import bisect_left

import msgspec

from a3s_code.core.text.encoding import split_lines

_WORD = re.compile(r"\w+")
_COMPARED = 2000
_CANDIDATES = 16


class Found(msgspec.Struct, frozen=True):
    """``regions`` are (start, end) offsets, in order, not overlapping. ``normalised``: terminators were ignored."""

    regions: list[tuple[int, int]]
    normalised: bool = False


def find(text: str, old: str) -> Found:
    """All matches of the non-empty ``old``, left to right."""
    regions = _occurrences(text, old)
    if regions and not any(_splits_terminator(text, start) for start, _ in regions):
        return Found(regions)
    plain_old = old.replace("\r\n", "\n")
    if "\r\n" not in text:
        return Found(_occurrences(text, plain_old), True)
    pairs = [match.start() - i for i, match in enumerate(re.finditer("\r\n", text))]
    plain = _occurrences(text.replace("\r\n", "\n"), plain_old)
    return Found([(a + bisect_left(pairs, a), b + bisect_left(pairs, b)) for a, b in plain], True)


def _occurrences(text: str, old: str) -> list[tuple[int, int]]:
    regions = []
    at = text.find(old)
    while at >= 0:
        regions.append((at, at + len(old)))
        at = text.find(old, at + len(old))
    return regions


def _splits_terminator(text: str, start: int) -> bool:
    return start > 0 and text[start] == "\n" and text[start - 1] == "\r"


def replace(text: str, old: str, new: str, found: Found) -> str:
    """``text`` with ``new`` in place of every region."""
    adapts = found.normalised or ("\n" not in old and "\r\n" not in new)
    adapts = adapts and "\n" in new
    pieces: list[str] = []
    kept = 0
    for start, end in found.regions:
        pieces += text[kept:start], _with_terminator(new, text, start) if adapts else new
        kept = end
    pieces.append(text[kept:])
    return "".join(pieces)


def _with_terminator(new: str, text: str, start: int) -> str:
    plain = new.replace("\r\n", "\n")
    end = text.find("\n", start)
    if end < 0:
        end = text.rfind("\n", 0, start)
    return plain.replace("\n", "\r\n") if end > 0 and text[end - 1] == "\r" else plain


def line_number(text: str, offset: int) -> int:
    """The 1-based line that ``offset`` lies in."""
    return text.count("\n", 0, offset) + 1


def most_similar(text: str, old: str, at_least: float = 0.6) -> tuple[int, list[str]] | None:
    """The first line number (1-based) and the lines, at most five, of the region most like ``old``."""
    lines = [line.rstrip("\r\n") for line in split_lines(text)]
    wanted = [line.rstrip("\r\n") for line in split_lines(old)]
    height = min(len(wanted), len(lines))
    if not height:
        return None
    target = "\n".join(wanted)[:_COMPARED]
    masks = _masks(target)
    best, best_at = 0.0, 0
    for at in _likely(lines, wanted, height):
        similarity = _similarity(masks, len(target), "\n".join(lines[at : at + height])[:_COMPARED])
        if similarity > best:
            best, best_at = similarity, at
    return (best_at + 1, lines[best_at : best_at + min(height, 5)]) if best >= at_least else None


def _masks(text: str) -> dict[str, int]:
    """For each character the set of its places in ``text``, as bits."""
    masks: dict[str, int] = {}
    for at, character in enumerate(text):
        masks[character] = masks.get(character, 0) | 1 << at
    return masks


def _similarity(masks: dict[str, int], length: int, other: str) -> float:
    """Twice the longest common subsequence over both lengths, found with the bits of one integer (Hyyrö 2004):
    difflib needs seconds for a thousand characters that repeat."""
    full = row = (1 << length) - 1
    for character in other:
        common = row & masks.get(character, 0)
        row = ((row + common) | (row - common)) & full
    return 2 * (length - row.bit_count()) / (length + len(other))


def _likely(lines: list[str], wanted: list[str], height: int) -> list[int]:
    """Starts of the windows that share most words and lines with ``wanted``, best first, earliest first."""
    words = set(_WORD.findall("\n".join(wanted)))
    stripped = {line.strip() for line in wanted}
    sums = [0]
    for line in lines:
        shared = len(words.intersection(_WORD.findall(line[:_COMPARED]))) + 2 * (line.strip() in stripped)
        sums.append(sums[-1] + shared)
    starts = range(len(lines) - height + 1)
    return heapq.nlargest(_CANDIDATES, starts, key=lambda at: (sums[at + height] - sums[at], -at))
