"""Search by relevance. In: words and files. Out: the pieces of files that are most about them, best first.

One rule: the order depends on the files and the words only; equal scores go by path and line.
Known weakness: nothing is kept between searches, so each one reads the files again.
"""

from __future__ import annotations

import functools
import heapq
import itertools
import math
import os
import re
from collections.abc import Callable
from typing import NamedTuple

from a3s_code.tools.search.candidates import Candidate
from a3s_code.tools.search.text import Reader, lines_of, text_of

MAX_FILES = 256
MAX_FILE_BYTES = 512 * 1024
MAX_BYTES = 16 * 1024 * 1024
_CHUNK = 80
_K1, _B = 1.2, 0.75
_HAN = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
_PIECES = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")


@functools.cache
def _beyond_ascii() -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Words, and signs that are words by themselves. Compiling these ranges takes milliseconds."""
    return re.compile(rf"[{_HAN}]+|[0-9]+|[^\W\d_{_HAN}]+"), re.compile(rf"[{_HAN}]")


def terms(text: str) -> list[str]:
    """``parseHTTP_2xx`` gives parse, http, 2, xx; ``北京`` gives both signs and the pair."""
    if text.isascii():
        return [piece.lower() for piece in _PIECES.findall(text)]
    found: list[str] = []
    words, wide = _beyond_ascii()
    for word in words.findall(text):
        if wide.match(word):
            found += word
            found += map("".join, itertools.pairwise(word))
        elif word.isascii():
            found += [piece.lower() for piece in _PIECES.findall(word)]
        else:
            found.append(word.lower())
    return found


class Chunk(NamedTuple):
    path: str
    start: int
    lines: list[str]
    counts: dict[str, int]
    size: int


class Hit(NamedTuple):
    score: float
    path: str
    start: int
    lines: list[str]
    best: int  # index into lines


class Ranking(NamedTuple):
    hits: list[Hit]
    left_out: int  # files that mention a word but were beyond the bounds


def rank(query: str, files: list[Candidate], reader: Reader, limit: int, check: Callable[[], None]) -> Ranking:
    wanted = set(terms(query))
    texts, left_out = _most_promising(wanted, files, reader, check)
    chunks: list[Chunk] = []
    for path, lines in texts:
        check()
        chunks.extend(_chunks(path, lines, wanted))
    return Ranking(_best(chunks, limit), left_out)


def _most_promising(
    wanted: set[str], files: list[Candidate], reader: Reader, check: Callable[[], None]
) -> tuple[list[tuple[str, list[str]]], int]:
    """The files with the most of the words in them, within the bounds, by path."""
    kept: list[tuple[int, int, Candidate, bytes]] = []  # a heap, the least promising first
    size = left_out = 0
    for place, candidate in enumerate(files if wanted else ()):
        check()
        data = reader.read(candidate)
        if data is None:
            continue
        text = text_of(data).lower()
        mentions = sum(word in text for word in wanted)
        if mentions:
            heapq.heappush(kept, (mentions, -place, candidate, data))
            size += len(data)
        while len(kept) > MAX_FILES or size > MAX_BYTES:
            size -= len(heapq.heappop(kept)[3])
            left_out += 1
    kept.sort(key=lambda item: -item[1])
    return [(candidate.path, lines_of(data)) for _, _, candidate, data in kept], left_out


def _chunks(path: str, lines: list[str], wanted: set[str]) -> list[Chunk]:
    chunks = []
    for start in range(0, len(lines), _CHUNK):
        part = lines[start : start + _CHUNK]
        found = terms("\n".join(part))
        counts: dict[str, int] = {}
        for word in found:
            if word in wanted:
                counts[word] = counts.get(word, 0) + 1
        chunks.append(Chunk(path, start, part, counts, len(found)))
    return chunks


def _best(chunks: list[Chunk], limit: int) -> list[Hit]:
    average = sum(chunk.size for chunk in chunks) / max(1, len(chunks)) or 1.0
    holders: dict[str, int] = {}
    for chunk in chunks:
        for word in chunk.counts:
            holders[word] = holders.get(word, 0) + 1
    weight = {word: math.log(1 + (len(chunks) - n + 0.5) / (n + 0.5)) for word, n in holders.items()}
    scored = [(_score(chunk, weight, average), chunk) for chunk in chunks if chunk.counts]
    scored.sort(key=lambda item: (-item[0], os.fsencode(item[1].path), item[1].start))
    return [
        Hit(score, chunk.path, chunk.start, chunk.lines, _best_line(chunk, weight)) for score, chunk in scored[:limit]
    ]


def _score(chunk: Chunk, weight: dict[str, float], average: float) -> float:
    norm = _K1 * (1 - _B + _B * chunk.size / average)
    # fsum: the order of the words must not show in the last digit
    return math.fsum(weight[word] * n * (_K1 + 1) / (n + norm) for word, n in chunk.counts.items())


def _best_line(chunk: Chunk, weight: dict[str, float]) -> int:
    """The first line with the weightiest words."""

    def worth(index: int) -> float:
        return math.fsum(weight[word] for word in chunk.counts.keys() & set(terms(chunk.lines[index])))

    return max(range(len(chunk.lines)), key=worth)
