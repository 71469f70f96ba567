"""The live view of a run on a terminal (extra ``cli``). In: events. Out: the story above, what is going on below.

The region at the bottom holds the unsettled draft and one status line; it is redrawn in place and vanishes at the
end. What is settled is printed above it for good, answers as Markdown.

One rule: text of models and tools is never markup and never a link target; it is printed as text.
Known weakness: the elapsed time moves with events, so it stands still during a silent command; the spinner doesn't.
"""

from __future__ import annotations

from typing import Final, TextIO

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.markdown import Markdown
from rich.padding import Padding
from rich.spinner import Spinner
from rich.text import Text

from a3s_code.cli.narrate import Answer, Event, Line, Narrator, Say, Style
from a3s_code.cli.render import _Base
from a3s_code.cli.words import count, duration

_LOOK: Final[dict[Style, tuple[str, str]]] = {
    "call": ("● ", "bold cyan"),
    "ok": ("✓ ", "green"),
    "failed": ("✗ ", "red"),
    "note": ("~ ", "dim"),
    "warning": ("! ", "yellow"),
    "question": ("? ", "bold magenta"),
    "error": ("✗ ", "bold red"),
    "summary": ("", "dim"),
}
_PARKS: Final = frozenset(["confirmation_required", "user_question"])
_ENDS: Final = frozenset(["agent_end", "error"])
_REDRAW_MS: Final = 50


class LiveRenderer(_Base):
    """``animate`` lets the spinner turn in a thread of rich's; off, the region changes with events only."""

    def __init__(self, console: Console, *, animate: bool = True) -> None:
        self._console = console
        self._animate = animate
        self._narrator = Narrator()
        self._spinner = Spinner("dots", style="cyan")
        self._live: Live | None = None
        self._drawn_ms = 0

    @classmethod
    def on(cls, out: TextIO) -> LiveRenderer | None:
        """One on the terminal ``out``, or ``None`` when that can't redraw."""
        console = Console(file=out, highlight=False)
        return None if console.is_dumb_terminal or not console.is_terminal else cls(console)

    def render(self, event: Event) -> None:
        said = self._narrator.tell(event)
        stops = event.type in _PARKS or event.type in _ENDS
        if stops:
            self.close()
        for say in said:
            self._console.print(self._settled(say))
        if self._narrator.doing and not stops:
            self._redraw(at_once=bool(said) or self._live is None)

    def close(self) -> None:
        """Takes the region away; the next event brings it back (a person may type in between)."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _redraw(self, *, at_once: bool) -> None:
        """Deltas come by the thousand, so the region is drawn at most once in ``_REDRAW_MS`` of the events' time."""
        if self._live is None:
            self._live = Live(
                console=self._console,
                get_renderable=self._region,
                auto_refresh=self._animate,
                refresh_per_second=10,
                transient=True,
                redirect_stdout=False,
                redirect_stderr=False,
            )
            self._live.start()
        now = self._narrator.elapsed_ms
        if at_once or not 0 <= now - self._drawn_ms < _REDRAW_MS:
            self._drawn_ms = now
            self._live.refresh()

    def _settled(self, say: Say) -> RenderableType:
        match say:
            case Answer(text=text):
                return Padding(Markdown(text, hyperlinks=False), (1, 0))
            case Line(style=style, text=text, detail=detail):
                mark, look = _LOOK[style]
                return Text(f"{'  ' if detail else ''}{mark}", look).append(text, look if style != "call" else "bold")

    def _region(self) -> RenderableType:
        """The end of the draft that fits, and the status line."""
        narrator, console = self._narrator, self._console
        status = [narrator.doing, duration(narrator.elapsed_ms)]
        if narrator.tokens:
            status.append(count(narrator.tokens, "token"))
        self._spinner.update(text=Text(" · ".join(status), "dim", no_wrap=True, overflow="ellipsis"))
        room, width = max(1, console.height - 3), max(10, console.width)
        tail = Text(narrator.draft[-room * width :].strip("\n"))
        lines = list(tail.wrap(console, width))[-room:] if tail else []
        return Group(*lines, self._spinner)
