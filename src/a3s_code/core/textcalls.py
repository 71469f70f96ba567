"""Calls that a model wrote as text (case A26). In: the deltas of one answer, cut anywhere. Out: deltas with calls.

One rule: markup is taken only whole, for an offered tool, where the model speaks for itself (see ``quoting``), and in
an answer without calls of the provider's own; all other text comes out as it came in.
Known weakness: text after a taken call, or after markup that isn't closed, waits for the end of the answer, since only
that tells whether the call counts.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from a3s_code.core.delta import CallDelta, ModelDelta
from a3s_code.core.quoting import Quoting
from a3s_code.core.textforms import ATTEMPTS, MARKERS, STRAYS, Malformed, TextCall, Tools, read_calls

_TOKEN: Final = re.compile(r"\n|`+|~{3,}|<|>|~{1,2}|[^\n`~<>]+")
_SPECIAL: Final = re.compile("[\n`~<>]")
_TAGS: Final = (*MARKERS, *STRAYS)
_BEGINNINGS: Final = frozenset(tag[:size] for tag in _TAGS for size in range(1, len(tag)))
_LONGEST: Final = max(map(len, _TAGS))


class TextCalls:
    """``tools`` are the offered ones with their schemas. ``feed`` takes the answer's deltas in order, ``end`` tells
    that none will follow."""

    def __init__(self, tools: Tools) -> None:
        self._tools = tools
        self._passing = not tools  # nothing (more) is to be taken
        self._quoting = Quoting()
        self._held = ""  # what may become a token or a tag
        self._markup: _Markup | None = None
        self._calls: list[TextCall] = []
        self._raw: list[str] = []  # from the first taken call on: what came …
        self._left: list[str] = []  # … and what of it is no taken markup
        self._stray = False

    def feed(self, delta: ModelDelta) -> Sequence[ModelDelta]:
        if self._passing:
            return (delta,)
        if delta.call is not None:
            before = self._given_up()
            return (ModelDelta(text=before), delta) if before else (delta,)
        text = self._read(delta.text) if delta.text else ""
        if not delta.finish:
            return (delta,) if text == delta.text else _said(replace(delta, text=text))
        rest, calls = self._settled()
        finish = "tool_calls" if calls and delta.finish == "stop" else delta.finish
        if not calls and text + rest == delta.text:
            return (delta,)
        return (*_said(ModelDelta(text=text + rest)), *calls, replace(delta, text="", finish=finish))

    def end(self) -> Sequence[ModelDelta]:
        """What is left of an answer that ended without a ``finish``."""
        if self._passing:
            return ()
        rest, calls = self._settled()
        return (*_said(ModelDelta(text=rest)), *calls)

    def _settled(self) -> tuple[str, tuple[ModelDelta, ...]]:
        self._held, held = "", self._held
        out = self._scan(held, last=True)
        if self._markup is not None:
            out += self._out(self._markup.text())
        calls, self._passing = self._calls, True
        if self._stray:
            return out + "".join(self._raw), ()
        deltas = (ModelDelta(call=CallDelta(i, "", each.name, each.arguments)) for i, each in enumerate(calls))
        return out + "".join(self._left), tuple(deltas)

    def _given_up(self) -> str:
        """Everything held, as it came: the provider sends calls of its own, and may have repeated them in the text."""
        self._passing = True
        markup = "" if self._markup is None else self._markup.text()
        return "".join(self._raw) + markup + self._held

    def _read(self, text: str) -> str:
        """What of ``text``, and of what was held before it, can go out."""
        if self._markup is None:
            if not self._held and not self._calls and _SPECIAL.search(text) is None:
                self._quoting.words(text)
                return text
            self._held, text = "", self._held + text
        return self._scan(text, last=False)

    def _scan(self, text: str, *, last: bool) -> str:
        out: list[str] = []
        at = 0
        while at < len(text):
            if self._markup is not None:
                at = self._in_markup(self._markup, text, at, out)
                continue
            end = self._token(text, at, last)
            if end == at:
                self._held = text[at:]
                break
            if self._markup is None:
                out.append(self._out(text[at:end]))
            at = end
        return "".join(out)

    def _token(self, text: str, at: int, last: bool) -> int:
        """Where the token at ``at`` ends; ``at`` itself when more must come to tell."""
        found = _TOKEN.match(text, at)
        assert found is not None  # the pattern takes every character
        token, end = found[0], found.end()
        match token[0]:
            case "\n":
                self._quoting.newline()
            case ">":
                self._quoting.angle()
            case "<":
                return self._tag(text, at, last)
            case "`" | "~" if end == len(text) and not last:
                return at
            case "`":
                self._quoting.run(token)
            case "~" if len(token) > 2:
                self._quoting.run(token)
            case _:
                self._quoting.words(token)
        return end

    def _tag(self, text: str, at: int, last: bool) -> int:
        ahead = text[at : at + _LONGEST]
        if not last and ahead in _BEGINNINGS:
            return at
        if ahead.startswith(STRAYS) and self._calls:
            self._stray = True
        elif self._quoting.own():
            marker = next((each for each in MARKERS if ahead.startswith(each)), None)
            if marker is not None:
                self._markup = _Markup(marker)
                return at + len(marker)
        self._quoting.words("<")
        return at + 1

    def _in_markup(self, markup: _Markup, text: str, at: int, out: list[str]) -> int:
        """Gives the markup what of ``text`` belongs to it; where that ends."""
        end = markup.add(text, at, self._tools)
        if markup.calls is None:
            return end
        self._markup = None
        if markup.calls:
            self._raw.append(markup.text())
            self._calls += markup.calls
        else:
            out.append(self._out(markup.text()))
            self._quoting.words(">")
        return end

    def _out(self, text: str) -> str:
        """``text``, unless it has to wait for the end."""
        if not self._calls:
            return text
        self._raw.append(text)
        self._left.append(text)
        return ""


class _Markup:
    """Markup from its marker on. ``calls`` is ``None`` until it is whole, empty when it calls what isn't offered."""

    __slots__ = ("_attempts", "_end", "_marker", "_pieces", "_tail", "calls")

    def __init__(self, marker: str) -> None:
        self.calls: list[TextCall] | None = None
        self._marker = marker
        self._end = MARKERS[marker][0]
        self._pieces = [marker]
        self._tail = ""  # what may be the beginning of the end mark
        self._attempts = 0

    def text(self) -> str:
        return "".join(self._pieces)

    def add(self, text: str, at: int, tools: Tools) -> int:
        """Takes ``text`` from ``at`` on; where the markup ends, or ``text`` does."""
        end = self._end
        while self._attempts < ATTEMPTS:
            seam = (self._tail + text[at : at + len(end) - 1]).find(end)
            stop = at + seam - len(self._tail) if seam >= 0 else text.find(end, at)
            if seam < 0 and stop < 0:
                break
            stop += len(end)
            self._pieces.append(text[at:stop])
            self._tail, at = "", stop
            self._attempts += 1
            try:
                self.calls = read_calls(self._marker, self.text(), tools)
            except Malformed:
                continue  # the end mark stood in a value
            return stop
        self._pieces.append(text[at:])
        self._tail = (self._tail + text[max(at, len(text) - len(end)) :])[1 - len(end) :]
        return len(text)


def _said(delta: ModelDelta) -> tuple[ModelDelta, ...]:
    return () if delta == ModelDelta() else (delta,)
