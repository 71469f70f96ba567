"""Unified diffs. In: two texts. Out: how many lines were added and removed, and a diff as long as one likes.

One rule: time grows with the length of the texts, never with its square; the diff is always a right one.
Known weakness: where many changes follow each other the path is chosen greedily, so the diff may be longer than the
shortest one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from a3s_code.core.text.clip import clip_chars
from a3s_code.core.text.encoding import shown, split_lines

_CONTEXT = 3
_EFFORT = 40  # edits searched for at a time: costs at most half its square in steps, and gets at least that far
_LINE_CHARS = 2000

Block = tuple[int, int, int, int]  # lines [a, b) of the old text became lines [c, d) of the new one
Run = tuple[int, int, int]  # from line x of the old and y of the new text on, so many lines are equal


class Diff:
    """Two texts compared by lines; ``before`` is ``None`` for a new file."""

    __slots__ = ("_blocks", "_created", "_new", "_old", "_path", "added", "removed")

    def __init__(self, before: str | None, after: str, path: str) -> None:
        self._created = before is None
        self._path = path
        self._old, self._new = split_lines(before or ""), split_lines(after)
        self._blocks = changed_blocks(self._old, self._new)
        self.removed = sum(b - a for a, b, _, _ in self._blocks)
        self.added = sum(d - c for _, _, c, d in self._blocks)

    def text(self, max_lines: int, max_bytes: int) -> tuple[str, bool]:
        """The unified diff with three lines of context, and whether it had to be cut: then its last line, beyond
        the two bounds, says how much there is. No change gives an empty text."""
        kept: list[str] = []
        size = 0
        cut = False
        for line in self._lines():
            line, whole = clip_chars(line, _LINE_CHARS), line
            size += len(line.encode("utf-8", "replace")) + 1
            if len(kept) == max_lines or size > max_bytes:
                kept.append(f"[diff cut after {len(kept)} lines; +{self.added} -{self.removed} lines in all]")
                return "\n".join(kept), True
            cut = cut or line is not whole
            kept.append(line)
        return "\n".join(kept), cut

    def _lines(self) -> Iterator[str]:
        if self._blocks:
            yield "--- /dev/null" if self._created else f"--- a/{self._path}"
            yield f"+++ b/{self._path}"
        for group in _grouped(self._blocks):
            first, last = group[0], group[-1]
            lead = min(_CONTEXT, first[0])
            old_start, new_start = first[0] - lead, first[2] - lead
            trail = min(_CONTEXT, len(self._old) - last[1])
            yield f"@@ -{_span(old_start, last[1] + trail)} +{_span(new_start, last[3] + trail)} @@"
            at = old_start
            for a, b, c, d in group:
                yield from _marked(" ", self._old[at:a])
                yield from _marked("-", self._old[a:b])
                yield from _marked("+", self._new[c:d])
                at = b
            yield from _marked(" ", self._old[at : at + trail])


def _marked(sign: str, lines: Sequence[str]) -> Iterator[str]:
    for line in lines:
        if line.endswith("\n"):
            yield sign + shown(line[:-1])
        else:
            yield sign + shown(line)
            yield "\\ No newline at end of file"


def _span(start: int, end: int) -> str:
    count = end - start
    if count == 1:
        return str(start + 1)
    return f"{start + 1 if count else start},{count}"


def _grouped(blocks: Sequence[Block]) -> Iterator[list[Block]]:
    group: list[Block] = []
    for block in blocks:
        if group and block[0] - group[-1][1] > 2 * _CONTEXT:
            yield group
            group = []
        group.append(block)
    if group:
        yield group


def changed_blocks(old: Sequence[str], new: Sequence[str]) -> list[Block]:
    """The stretches in which the two differ, in order; what lies between them is equal."""
    shorter = min(len(old), len(new))
    start = 0
    while start < shorter and old[start] == new[start]:
        start += 1
    tail = 0
    while tail < shorter - start and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    blocks: list[Block] = []
    x = y = start
    for run_x, run_y, length in _equal_runs(old, new, start, len(old) - tail, len(new) - tail):
        if (run_x, run_y) != (x, y):
            blocks.append((x, run_x, y, run_y))
        x, y = run_x + length, run_y + length
    return blocks


def _equal_runs(old: Sequence[str], new: Sequence[str], start: int, n: int, m: int) -> Iterator[Run]:
    x = y = start
    while x < n and y < m:
        runs, x, y = _advance(old, new, x, y, n, m)
        yield from runs
    yield n, m, 0


def _advance(old: Sequence[str], new: Sequence[str], x0: int, y0: int, n: int, m: int) -> tuple[list[Run], int, int]:
    """Myers' search from (x0, y0) for at most ``_EFFORT`` edits: the equal runs on the way to the end, or to the
    furthest point reached, and that point."""
    reach = {1: x0}  # diagonal → furthest x on it
    rounds: list[dict[int, int]] = []
    best = (x0, y0, 0)
    for edits in range(_EFFORT + 1):
        rounds.append(reach.copy())
        best = (-1, -1, 0)
        for k in range(-edits, edits + 1, 2):
            down = k == -edits or (k != edits and reach[k - 1] < reach[k + 1])
            x = reach[k + 1] if down else reach[k - 1] + 1
            y = y0 + x - x0 - k
            while x < n and y < m and old[x] == new[y]:
                x += 1
                y += 1
            reach[k] = x
            if x <= n and y <= m and x + y > best[0] + best[1]:
                best = (x, y, k)
        if best[0] == n and best[1] == m:
            break
    return _traced(rounds, best, x0, y0), best[0], best[1]


def _traced(rounds: list[dict[int, int]], end: tuple[int, int, int], x0: int, y0: int) -> list[Run]:
    runs: list[Run] = []
    x, _, k = end
    for edits in range(len(rounds) - 1, -1, -1):
        reach = rounds[edits]
        down = k == -edits or (k != edits and reach[k - 1] < reach[k + 1])
        start = reach[k + 1] if down else reach[k - 1] + 1
        if x > start:
            runs.append((start, y0 + start - x0 - k, x - start))
        x, k = (start, k + 1) if down else (start - 1, k - 1)
    runs.reverse()
    return runs
