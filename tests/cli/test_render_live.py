"""What a terminal shows of a run, and which view is chosen for a stream."""

from __future__ import annotations

import builtins
import io
import json
import re
import threading
from typing import Any

import pytest
from recorded_events import RETRIED, TYPICAL, Recorded, deltas, end, record
from rich.console import Console

from a3s_code.cli.live import LiveRenderer
from a3s_code.cli.render import JsonRenderer, PlainRenderer, choose_renderer


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def screen(written: str) -> list[str]:
    """The lines that a terminal shows after ``written``: just the codes that the view uses, anything else fails."""
    lines, row, column = [""], 0, 0
    for piece in re.findall(r"\x1b\[[0-9;?]*[A-Za-z]|\r|\n|[^\x1b\r\n]+", written):
        if piece == "\r":
            column = 0
        elif piece == "\n":
            row, column = row + 1, 0
            lines.extend([""] * (row + 1 - len(lines)))
        elif piece == "\x1b[2K":
            lines[row] = ""
        elif match := re.fullmatch(r"\x1b\[([0-9]+)A", piece):
            row -= int(match[1])
        elif piece.startswith("\x1b["):
            assert piece in ("\x1b[?25l", "\x1b[?25h") or piece.endswith("m")
        else:
            lines[row] = lines[row][:column].ljust(column) + piece + lines[row][column + len(piece) :]
            column += len(piece)
    return [line.rstrip() for line in lines]


def live(events: list[Recorded], *, close: bool = True, width: int = 60, height: int = 12) -> list[str]:
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=width, height=height, color_system="truecolor")
    renderer = LiveRenderer(console, animate=False)
    for event in events:
        renderer.render(event)
    shown = screen(out.getvalue())
    renderer.close()
    return screen(out.getvalue()) if close else shown


def test_a_whole_run() -> None:
    """At the end the story stands there, answers rendered as Markdown, and nothing of the moving region."""
    assert [line for line in live(TYPICAL) if line] == [
        "I'll look around.",
        "● read README.md",
        "  ✓ ok, 2 lines, 12 ms",
        "● bash $ make test ...",
        "  ✗ exit 2, 1.7 s: make: *** [test] Error 1",
        "It is a library.",
        "That's all.",
        "done: 2 tool calls, 2,234 tokens, 3.2 s",
    ]


def test_the_draft_is_seen_as_it_comes() -> None:
    """While a turn speaks, its text so far and what is going on are on the screen."""
    events = record(
        (0, "agent_start", {}), (0, "turn_start", {"turn": 1}), *deltas(100, ["Hel"]), *deltas(2000, ["lo"])
    )
    assert live(events, close=False)[-2:] == ["Hello", "⠋ answering · 2.0 s"]


def test_a_void_draft_leaves_the_screen() -> None:
    """A repeated ``turn_start`` takes the void text away, at once and for good."""
    begun = record(
        (0, "turn_start", {"turn": 1}), *deltas(100, ["The answer is fou"]), (150, "turn_start", {"turn": 1})
    )
    assert live(begun[:2], close=False)[0] == "The answer is fou"
    assert [line for line in live(begun, close=False) if line] == [
        "~ the model's answer broke off and begins again",
        "⠋ waiting for the model · 150 ms",
    ]
    assert "fou\n" not in "\n".join(live(RETRIED)) + "\n"


def test_a_long_draft_shows_its_end() -> None:
    """A draft that is longer than the screen shows its last lines and never scrolls the story away."""
    text = "".join(f"line {i}\n\n" for i in range(300))
    shown = live(
        record((0, "turn_start", {"turn": 1}), *deltas(100, [text]), *deltas(200, ["the end"])), close=False, height=10
    )
    assert len(shown) <= 10
    assert shown[-2] == "the end"


def test_a_running_call_shows_its_last_output() -> None:
    """The status line has the call at work and the last line it printed."""
    call = {"id": "1", "name": "bash"}
    events = record(
        (0, "tool_execution_start", {**call, "args": {"command": "make"}}),
        (60, "tool_output_delta", {**call, "text": "cc a.c\ncc b.c\n"}),
    )
    assert live(events, close=False)[-1] == "⠋ bash $ make: cc b.c · 60 ms"


def test_the_region_makes_room_for_a_person() -> None:
    """A question ends the region, so that an answer can be typed; the next event brings it back."""
    call = {"tool_id": "1", "tool_name": "bash", "args": {"command": "rm x"}, "reason": "it removes"}
    events = record(
        (0, "turn_start", {"turn": 1}),
        (10, "confirmation_required", call),
        (9000, "confirmation_received", {"tool_id": "1", "approved": True}),
    )
    asked = live(events[:2], close=False)
    assert asked == ["? bash $ rm x needs your approval: it removes", ""]
    assert live(events, close=False)[1] == "  ✓ approved"


def test_markup_and_links_of_a_model_are_text() -> None:
    """What looks like rich's markup stays as written, and no hyperlink code comes out."""
    out = io.StringIO()
    renderer = LiveRenderer(Console(file=out, force_terminal=True, width=80), animate=False)
    call = {"id": "1", "name": "bash", "args": {"command": "echo [bold]x[/nope] :smile:"}}
    for event in record((0, "tool_execution_start", call), *deltas(1, ["[red]a[/b] [site](http://evil)"]), end(2)):
        renderer.render(event)
    renderer.close()
    told = "\n".join(screen(out.getvalue()))
    assert "echo [bold]x[/nope] :smile:" in told
    assert "[red]a[/b] site (http://evil)" in told
    assert "\x1b]8" not in out.getvalue()


def test_the_spinner_turns_in_a_thread_that_ends() -> None:
    """The animated view stops its thread when it is closed, also after an exception."""
    console = Console(file=io.StringIO(), force_terminal=True, width=60)
    renderer = LiveRenderer(console)
    before = set(threading.enumerate())
    renderer.render(TYPICAL[0])
    (spinner,) = set(threading.enumerate()) - before
    with pytest.raises(KeyboardInterrupt), renderer:
        raise KeyboardInterrupt
    spinner.join(5)
    assert not spinner.is_alive()


def test_json_lines() -> None:
    """Each event is one line of ASCII with version, type, payload and metadata as they came."""
    out = io.StringIO()
    events = [*TYPICAL, Recorded("odd", {"text": "é\u2028\ud800\n"}, {})]
    with JsonRenderer(out) as renderer:
        for event in events:
            renderer.render(event)
    assert out.getvalue().isascii()
    read = [json.loads(line) for line in out.getvalue().split("\n")[:-1]]
    assert read == [{"version": 1, "type": e.type, "payload": e.payload, "metadata": e.metadata} for e in events]


def test_the_view_fits_the_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    """JSON when asked, plain for pipes and when asked, live on a terminal, plain at once on one that can't redraw."""
    monkeypatch.setenv("TERM", "xterm-256color")
    assert isinstance(choose_renderer(io.StringIO(), as_json=True), JsonRenderer)
    assert isinstance(choose_renderer(io.StringIO()), PlainRenderer)
    assert isinstance(choose_renderer(Terminal(), plain=True), PlainRenderer)
    assert isinstance(choose_renderer(Terminal()), LiveRenderer)
    monkeypatch.setenv("TERM", "dumb")
    assert isinstance(choose_renderer(Terminal()), PlainRenderer)


def test_without_the_extra_the_view_is_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """When rich is missing a terminal gets plain text as it comes; another missing module is an error."""
    missing = "rich"
    real = builtins.__import__

    def refuse(name: str, *args: Any, **kwargs: Any) -> Any:
        if name == "a3s_code.cli.live":
            raise ModuleNotFoundError(f"No module named {missing!r}", name=missing)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", refuse)
    out = Terminal()
    renderer = choose_renderer(out)
    for event in RETRIED[:4]:
        renderer.render(event)
    assert out.getvalue() == "The answer is fou"
    missing = "other"
    with pytest.raises(ModuleNotFoundError, match="other"):
        choose_renderer(out)
