"""``a3s-code chat``. In: typed lines. Out: one session's runs as they happen, until the person leaves.

Lines come from prompt-toolkit on a terminal that has it (extra ``cli``), else from the standard input as it is.
Lines that begin with ``/`` and name a command below are the program's own; any other goes to the agent.

One rule: Ctrl-C ends what is at work, or clears the line, and never the program; Ctrl-D leaves.
Known weakness: while a run is at work nothing can be typed ahead but by the terminal itself.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from a3s_code.api.agent import Agent
from a3s_code.api.session import Session
from a3s_code.cli.asking import Answers, answers_for
from a3s_code.cli.governed import NOBODY, Governed, governed
from a3s_code.cli.known import look_up
from a3s_code.cli.main import told
from a3s_code.cli.render import choose_renderer
from a3s_code.cli.run import WAITS, leave_open, watch
from a3s_code.cli.setup import Setup, agent_of, command_line, notice, open_session, set_up, tell, workspace_of
from a3s_code.cli.stores import named_store, with_store
from a3s_code.cli.waiting import warn_of_what_waits
from a3s_code.cli.words import clean, count
from a3s_code.errors import CodeError

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession

HELP: Final = """\
/help     this list
/history  the conversation so far
/new      begin a new session
/exit     leave (Ctrl-D does the same)
Alt-Enter begins a new line, Ctrl-C interrupts the run or clears the line."""
_PROMPT: Final = "> "
_SHOWN: Final = 2000


class Lines(Protocol):
    async def read(self) -> str | None:
        """The next text; empty when the line was cleared, ``None`` at the end."""


def go(args: argparse.Namespace) -> int:
    workspace = workspace_of(args.workspace)
    chosen = named_store(args, os.environ)
    session_id = None
    if args.session:
        session_id = asyncio.run(look_up(workspace, chosen, args.session)).id
    setup, rights = with_store(
        set_up(workspace, args.config, args.model, os.environ), governed(args, os.environ), chosen
    )
    tell(setup)
    try:
        return asyncio.run(_chat(setup, rights, session_id, choose_lines()))
    except asyncio.CancelledError:
        return 130


async def _chat(setup: Setup, rights: Governed, session_id: str | None, lines: Lines) -> int:
    async with agent_of(setup) as agent:
        talk = Talk(agent, setup, rights, await open_session(agent, setup, session_id, rights.options()))
        talk.greet()
        while (line := await lines.read()) is not None and await talk.take(line):
            continue
        talk.leave()
    return WAITS if talk.waits else 0


class Talk:
    """One session at a time. ``waits`` says that its run was left open, waiting for an answer."""

    def __init__(self, agent: Agent, setup: Setup, rights: Governed, session: Session) -> None:
        self._agent = agent
        self._setup = setup
        self._rights = rights
        self._use(session)
        self.waits = False

    def _use(self, session: Session) -> None:
        self._session = session
        self._answers: Answers = answers_for(session, self._rights)

    def greet(self) -> None:
        model = self._setup.model or self._setup.config.default_model
        earlier = len(self._session.runs())
        more = f", going on after {count(earlier, 'run')}" if earlier else ""
        print(f"{model} in {self._setup.workspace}, session {self._session.session_id}{more}. /help for help.")
        warn_of_what_waits(self._session, self._setup.workspace, self._rights.words)

    def leave(self) -> None:
        if self._session.runs() and not self.waits:
            words = ("chat", "--session", self._session.session_id, *self._rights.words)
            again = command_line(*words, workspace=self._setup.workspace)
            notice(f"go on with `{again}`")

    async def take(self, line: str) -> bool:
        """Acts on one text; false when the person leaves."""
        match line.strip():
            case "":
                return True
            case "/exit" | "/quit":
                return False
            case "/help":
                print(HELP)
            case "/history":
                self._history()
            case "/new":
                await self._session.close_async()
                self._use(await open_session(self._agent, self._setup, None, self._rights.options()))
                self.greet()
            case word if word.startswith("/") and word[1:].isalpha():
                print(f"there is no command {word}; /help lists them")
            case _:
                return await self._send(line)
        return True

    async def _send(self, prompt: str) -> bool:
        """A run that fails is told by its events; one that can't begin by its error. False when the person left it
        unanswered."""
        try:
            events = await self._session.stream_async(prompt)
        except CodeError as error:
            print(told(error), file=sys.stderr)
            return True
        with choose_renderer(sys.stdout) as renderer:
            watched = await watch(events, self._session, renderer, self._answers)
        if watched.refused:
            notice(NOBODY)
        if watched.code == WAITS:
            self.waits = True
            await leave_open(self._session, self._setup.workspace, self._rights)
        return not self.waits

    def _history(self) -> None:
        said = [m for m in self._session.history() if m["role"] in ("user", "assistant") and m["content"]]
        for message in said:
            mark = _PROMPT if message["role"] == "user" else "  "
            print(f"{mark}{clean(str(message['content']))[:_SHOWN].strip()}\n")
        if not said:
            print("nothing was said yet")


class PlainLines:
    """The standard input, a line at a time. Nothing else is at work meanwhile, so waiting may hold the loop."""

    async def read(self) -> str | None:
        terminal = sys.stdin.isatty()
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            if terminal:
                print(_PROMPT, end="", flush=True)
            line = sys.stdin.readline()
        except KeyboardInterrupt:
            if not terminal:
                raise
            print()
            return ""
        finally:
            signal.signal(signal.SIGINT, before)
        return line.removesuffix("\n") if line else None


class EditedLines:
    """prompt-toolkit: history over sessions, several lines with Alt-Enter."""

    def __init__(self, session: PromptSession[str]) -> None:
        self._session = session

    async def read(self) -> str | None:
        try:
            return await self._session.prompt_async(_PROMPT)
        except KeyboardInterrupt:
            return ""
        except EOFError:
            return None


def choose_lines() -> Lines:
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return PlainLines()
    try:
        from prompt_toolkit import PromptSession
        from prompt_toolkit.history import FileHistory, History, InMemoryHistory
        from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "prompt_toolkit":
            raise
        return PlainLines()
    keys = KeyBindings()

    @keys.add("escape", "enter")
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    kept = history_file()
    history: History = InMemoryHistory() if kept is None else FileHistory(str(kept))
    return EditedLines(PromptSession(history=history, key_bindings=keys))


def history_file() -> Path | None:
    """Where typed lines are kept, for this user only; ``None`` when that place can't be written."""
    state = os.environ.get("XDG_STATE_HOME") or os.path.join(os.path.expanduser("~"), ".local", "state")
    path = Path(state) / "a3s-code" / "chat-history"
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.touch(mode=0o600)
    except OSError:
        return None
    return path if os.access(path, os.W_OK) else None
