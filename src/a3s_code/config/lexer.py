"""ACL text into tokens. In: a ``Source``. Out: one token at a time, each with its offset.

One rule: every character is part of a token, a comment or a blank; anything else is a ``ConfigError`` at its place.
Known weakness: no heredocs and no ``${}`` templates; ``${x}`` in a string is those four characters.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Literal

import msgspec

from a3s_code.config.source import Source

Kind = Literal["word", "text", "number", "sign", "end"]

_BLANK = re.compile(r"(?:[ \t\r\n\f\v]+|#[^\n]*|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_AFTER_NUMBER = re.compile(r"[A-Za-z0-9_.]")
_PLAIN_TEXT = re.compile(r'[^"\\\x00-\x08\x0a-\x1f\x7f\ud800-\udfff]*')
_HEX4 = re.compile(r"[0-9a-fA-F]{4}")
_ESCAPES = {'"': '"', "\\": "\\", "/": "/", "n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}
_NUMBER_DIGITS = 40


class Token(msgspec.Struct, frozen=True):
    """``new_line`` says that a line break stands between this token and the one before it."""

    kind: Kind
    value: str | int | float
    at: int
    new_line: bool

    def describe(self) -> str:
        """What it is, without what it says: that may be a key that was pasted to the wrong place."""
        match self.kind:
            case "sign":
                return f"'{self.value}'"
            case "end":
                return "the end of the text"
            case "word":
                return "a bare word"
            case "text":
                return "a string"
            case "number":
                return "a number"


class Lexer:
    """``path`` is the parser's: the keys that are open, for errors."""

    def __init__(self, source: Source, path: Sequence[str]) -> None:
        self._source = source
        self._text = source.text or ""
        self._path = path
        self._at = 0

    def next(self) -> Token:
        text, start = self._text, self._at
        blank = _BLANK.match(text, start)
        at = blank.end() if blank else start
        new_line = "\n" in text[start:at]
        if at >= len(text):
            self._at = at
            return Token("end", "", len(text), new_line)
        char = text[at]
        if char in "{}[]()=:,":
            self._at = at + 1
            return Token("sign", char, at, new_line)
        if char == '"':
            return Token("text", self._string(at), at, new_line)
        if word := _WORD.match(text, at):
            self._at = word.end()
            return Token("word", word.group(), at, new_line)
        if number := _NUMBER.match(text, at):
            return Token("number", self._number(number), at, new_line)
        raise self._unexpected(at)

    def _unexpected(self, at: int) -> Exception:
        char = self._text[at]
        if char == "'":
            return self._source.error(at, 'strings stand in double quotes: "…"', self._path)
        if self._text.startswith("/*", at):
            return self._source.error(at, "this comment has no end: expected */", self._path)
        if self._text.startswith("<<", at):
            return self._source.error(at, 'heredocs are not known here: write a string "…" with \\n in it', self._path)
        name = f"'{char}'" if char.isprintable() else f"the character U+{ord(char):04X}"
        return self._source.error(at, f"expected a key, a value or a sign, found {name}", self._path)

    def _number(self, match: re.Match[str]) -> int | float:
        digits, at = match.group(), match.start()
        if _AFTER_NUMBER.match(self._text, match.end()):
            raise self._source.error(at, "expected a number such as 12, -3 or 2.5e6", self._path)
        if len(digits) > _NUMBER_DIGITS:
            raise self._source.error(at, f"a number has at most {_NUMBER_DIGITS} digits", self._path)
        self._at = match.end()
        if match.group(1) is None and match.group(2) is None:
            return int(digits)
        value = float(digits)
        if math.isinf(value):
            raise self._source.error(at, "this number is too large", self._path)
        return value

    def _string(self, start: int) -> str:
        text, parts, at = self._text, [], start + 1
        while True:
            run = _PLAIN_TEXT.match(text, at)
            if run is not None:
                parts.append(run.group())
                at = run.end()
            if at >= len(text) or text[at] == "\n":
                raise self._source.error(start, 'this string has no end: expected " on the same line', self._path)
            if text[at] == '"':
                self._at = at + 1
                return "".join(parts)
            if text[at] != "\\":
                message = f"the character U+{ord(text[at]):04X} can't stand in a string as it is"
                raise self._source.error(at, message, self._path)
            char, at = self._escape(at)
            parts.append(char)

    def _escape(self, at: int) -> tuple[str, int]:
        """The character that the backslash at ``at`` begins, and the offset after it."""
        kind = self._text[at + 1 : at + 2]
        if kind in _ESCAPES:
            return _ESCAPES[kind], at + 2
        if kind != "u":
            raise self._source.error(at, 'expected one of \\" \\\\ \\/ \\n \\t \\r \\b \\f \\uXXXX', self._path)
        code, end = self._hex(at), at + 6
        if 0xD800 <= code < 0xDC00 and self._text.startswith("\\u", end):
            low = self._hex(end)
            if 0xDC00 <= low < 0xE000:
                code, end = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00), end + 6
        if 0xD800 <= code < 0xE000 or code == 0:
            raise self._source.error(at, "this escape stands for no character", self._path)
        return chr(code), end

    def _hex(self, at: int) -> int:
        digits = _HEX4.match(self._text, at + 2)
        if digits is None:
            raise self._source.error(at, "expected four hexadecimal digits after \\u", self._path)
        return int(digits.group(), 16)
