"""Where a configuration came from. In: a name and its text. Out: ``ConfigError`` with file, line, column and the line.

One rule: a line that may hold a secret is shown masked: only known words, short numbers and signs are left of it.
Known weakness: whether a line may hold a secret is judged by words on and around it, so harmless lines are masked too.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from a3s_code.errors import ConfigError

_SECRETISH = re.compile(
    r"key|token|secret|passw|auth|cookie|bearer|credential|header|\benv\b|\bargs\b|mcp_servers|search|sk-|://[^/\s]*@",
    re.IGNORECASE,
)
# Compiled by the first error (``re`` keeps them), as ``_NUMBER``.
_PIECE = r'"(?:[^"\\]|\\.)*"?|\'[^\']*\'?|#.*|//.*|[A-Za-z0-9_.+/-]+|[^"\'#A-Za-z0-9_.+/-]'
_PLAIN = frozenset(
    """true false null env providers models api_key apiKey base_url baseUrl headers name tool_call limit cost context
    output input cache_read cache_write default_model mcp_servers transport type command args url search""".split()
)
_NUMBER = r"-?[0-9]{1,9}(\.[0-9]{1,4})?"
_WIDTH = 120


def secretish(parts: Sequence[str]) -> bool:
    """Whether a word in ``parts`` (keys, a line) says that a secret may be near."""
    return any(map(_SECRETISH.search, parts))


def _in_provider(path: Sequence[str]) -> bool:
    """Whether ``path`` is of a provider and none of its models: there a misspelt key may hold the API key."""
    return "providers" in path[:1] and "models" not in path


class Source(msgspec.Struct, frozen=True):
    """``text`` is ``None`` for a configuration given as a mapping, whose errors name the field only. ``guarded`` are
    the stretches of the text, from offset to offset, in which the parser found a field that may be a secret."""

    name: str
    text: str | None = None
    guarded: list[tuple[int, int]] = []

    def guard(self, path: Sequence[str], start: int, end: int) -> None:
        """Marks the entry at ``path``, written from ``start`` to ``end``, if what it says may be a secret."""
        if secretish(path) or (_in_provider(path) and len(path) > 2):
            self.guarded.append((start, end))

    def position(self, at: int) -> tuple[int, int]:
        """Line and column of the offset ``at``, both from 1, in characters."""
        before = (self.text or "")[:at]
        return before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1

    def error(self, at: int, message: str, path: Sequence[str] = ()) -> ConfigError:
        """The error at offset ``at``; ``path`` is the field it is about, from the top."""
        about = f"{'.'.join(path)}: " if path else ""
        if self.text is None:
            return ConfigError(f"{self.name}: {about}{message}")
        line, column = self.position(at)
        start = at - (column - 1)
        text = self.text[start:].partition("\n")[0].removesuffix("\r")
        guarded = any(first < start + len(text) and start < last for first, last in self.guarded)
        if guarded or secretish((text, *path)) or _in_provider(path):
            text = "".join(_masked(piece) for piece in re.findall(_PIECE, text))
        text, caret = _window(text, column - 1)
        gutter = " " * len(str(line))
        return ConfigError(
            f"{self.name}:{line}:{column}: {about}{message}\n  {line} | {text}\n  {gutter} | {' ' * caret}^"
        )


def _masked(piece: str) -> str:
    """``piece`` of a line in the same width, without what may be a secret."""
    if len(piece) == 1 or piece in _PLAIN or re.fullmatch(_NUMBER, piece):
        return piece
    if piece[0] in "\"'":
        end = piece[0] if piece[-1] == piece[0] else "*"
        return piece[0] + "*" * (len(piece) - 2) + end
    return "*" * len(piece)


def _window(text: str, caret: int) -> tuple[str, int]:
    """``text`` fit for a terminal: nothing unprintable, at most ``_WIDTH`` characters around the caret."""
    text = "".join(c if c.isprintable() else " " if c == "\t" else "\N{REPLACEMENT CHARACTER}" for c in text)
    if len(text) <= _WIDTH:
        return text, caret
    start = max(0, min(caret - _WIDTH // 2, len(text) - _WIDTH))
    end = start + _WIDTH
    head, tail = "…" if start else "", "…" if end < len(text) else ""
    return f"{head}{text[start:end]}{tail}", caret - start + len(head)
