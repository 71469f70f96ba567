"""Where a run's story goes. In: events that look like ``AgentEvent``. Out: plain lines, JSON lines or a live view.

One rule: a renderer writes to the stream it was given and asks nothing else: no clock, no environment.
Known weakness: a plain stream can't take back what was printed, so plain text appears when its turn is settled
(``as_it_comes`` prints it at once and says when it became void).
"""

from __future__ import annotations

import json
from types import TracebackType
from typing import Final, Protocol, Self, TextIO

from a3s_code.cli.narrate import Answer, Event, Line, Narrator, Style

_MARKS: Final[dict[Style, str]] = {
    "call": "> ",
    "ok": "- ",
    "failed": "x ",
    "note": "~ ",
    "warning": "! ",
    "question": "? ",
    "error": "",
    "summary": "",
}


class Renderer(Protocol):
    """``render`` each event in order, then ``close``; a context manager closes by itself."""

    def render(self, event: Event) -> None: ...
    def close(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class _Base:
    def close(self) -> None:
        """Nothing is held."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class PlainRenderer(_Base):
    """Lines without escape codes, for files, pipes and simple terminals."""

    def __init__(self, out: TextIO, *, as_it_comes: bool = False) -> None:
        self._out = out
        self._as_it_comes = as_it_comes
        self._narrator = Narrator()
        self._shown = 0
        self._in_line = False

    def render(self, event: Event) -> None:
        for say in self._narrator.tell(event):
            match say:
                case Answer(text=text):
                    self._write(text[self._shown :])
                    self._end_line()
                case Line(style=style, text=text, detail=detail):
                    self._end_line()
                    self._write(f"{'  ' if detail else ''}{_MARKS[style]}{text}\n")
        if self._as_it_comes and event.type == "text_delta":
            draft = self._narrator.draft.lstrip("\n")
            self._write(draft[self._shown :])
            self._shown = len(draft)
        elif self._shown and not self._narrator.draft:
            self._end_line()
        self._out.flush()

    def close(self) -> None:
        """Ends a line that was begun."""
        self._end_line()
        self._out.flush()

    def _end_line(self) -> None:
        self._shown = 0
        if self._in_line:
            self._write("\n")

    def _write(self, text: str) -> None:
        """A character that the stream's encoding lacks becomes ``?``."""
        self._in_line = not text.endswith("\n") if text else self._in_line
        encoding = getattr(self._out, "encoding", None) or "utf-8"
        self._out.write(text.encode(encoding, "replace").decode(encoding))


class JsonRenderer(_Base):
    """One JSON object a line: ``version``, ``type``, ``payload``, ``metadata``, as they came. ASCII only."""

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def render(self, event: Event) -> None:
        whole = {
            "version": event.version,
            "type": event.type,
            "payload": event.payload,
            "metadata": event.metadata,
        }
        self._out.write(json.dumps(whole, separators=(",", ":")) + "\n")
        self._out.flush()


def choose_renderer(out: TextIO, *, as_json: bool = False, plain: bool = False) -> Renderer:
    """JSON lines when asked for, a live view on a terminal, plain lines elsewhere.

    The live view needs the extra ``cli`` (rich); without it, or on a dumb terminal, text is printed as it comes.
    """
    if as_json:
        return JsonRenderer(out)
    if plain or not out.isatty():
        return PlainRenderer(out)
    try:
        from a3s_code.cli.live import LiveRenderer
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "rich":
            raise
        return PlainRenderer(out, as_it_comes=True)
    return LiveRenderer.on(out) or PlainRenderer(out, as_it_comes=True)
