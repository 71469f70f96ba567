"""Where in a Markdown text a place is. In: the text, token by token. Out: whether it quotes something there.

One rule: in doubt it is a quotation: a fence, a block quote or inline code ends only where nothing else can be meant.
Known weakness: an escaped or unpaired backtick makes the rest of its paragraph code; file content that is quoted
without any sign can't be told from the model's own words.
"""

from __future__ import annotations

from typing import Final

_SENTENCE_ENDS: Final = frozenset(".!?…。！？")
_FENCE: Final = 3
_INDENTED: Final = 4
_BLANKS: Final = " \t\r"


class Quoting:
    """Told of every token in order: ``words`` (no line break in it), ``newline``, ``angle`` (a ``>``), ``run``."""

    __slots__ = ("_blank", "_closing", "_fence", "_indent", "_info", "_last", "_line_quoted", "_quote", "_ticks")

    def __init__(self) -> None:
        self._fence = ""
        self._closing = False  # this line may close the fence
        self._info = False  # this line opened the fence
        self._ticks = 0
        self._quote = False
        self._line_quoted = False
        self._blank = True
        self._indent = 0
        self._last = ""

    def own(self) -> bool:
        """Whether the model speaks for itself here, at the beginning of a line or after a sentence."""
        if self._fence or self._ticks or self._quote:
            return False
        return self._indent < _INDENTED if self._blank else self._last in _SENTENCE_ENDS

    def words(self, text: str) -> None:
        said = text.strip(_BLANKS)
        if self._blank:
            before = text[: len(text) - len(text.lstrip(_BLANKS))]
            self._indent += len(before) + before.count("\t") * _INDENTED
        if said:
            self._blank = self._closing = False
            self._last = said[-1]

    def newline(self) -> None:
        if self._closing:
            self._fence = ""
        elif self._blank and not self._fence:
            self._quote = False
            if self._ticks < _FENCE:
                self._ticks = 0
        self._closing = self._info = self._line_quoted = False
        self._blank, self._indent, self._last = True, 0, ""

    def angle(self) -> None:
        if self._blank and not self._fence and not self._ticks:
            self._quote = self._line_quoted = True
        self.words(">")

    def run(self, run: str) -> None:
        """A whole run of backticks, or of three and more tildes."""
        begins_line = self._blank
        self.words(run)
        if self._fence:
            if not (self._info and run[0] == "`" == self._fence[0]):
                self._closing = begins_line and run.startswith(self._fence)
                return
            self._ticks, self._fence, self._info = len(self._fence), "", False  # ```code``` in one line
        if self._line_quoted:
            return
        if self._ticks:
            if run == "`" * self._ticks:
                self._ticks = 0
                return
            if self._ticks >= _FENCE:
                return
        if begins_line and len(run) >= _FENCE:
            self._fence, self._info, self._ticks, self._quote = run, True, 0, False
        elif run[0] == "`" and not self._ticks:
            self._ticks = len(run)
