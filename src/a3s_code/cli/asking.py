"""Who answers what a run asks. In: its parked events, one at a time. Out: answers to the session, or the run is left.

One rule: an answer is what a person typed for this call, or what the person said would answer it: never a default.
Known weakness: "always" lasts as long as the program; a session that is opened again asks anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Literal, Protocol, TypeAlias

from a3s_code.api.judge import explain_parts
from a3s_code.api.session import Session
from a3s_code.cli.asked import parts_table, what_would_run, why
from a3s_code.cli.governed import Governed
from a3s_code.cli.keyboard import Keyboard, rows_of
from a3s_code.cli.narrate import Event
from a3s_code.cli.standing import Standing, standing
from a3s_code.cli.table import table_lines
from a3s_code.core.content import Json, JsonObject

Outcome: TypeAlias = Literal["answered", "left", "interrupted"]
CONFIRMATION: Final = "confirmation_required"
QUESTION: Final = "user_question"
PARKS: Final = frozenset({CONFIRMATION, QUESTION})
_GONE: Final = "a3s-code: that call doesn't wait any more"
_NAME_WIDTH: Final = 9
_BAR: Final = "  | "


class Answers(Protocol):
    """``take`` answers one parked event, or says why it stays open. ``begin`` is called before each run's events."""

    async def take(self, event: Event) -> Outcome: ...
    def begin(self) -> None: ...
    def interrupt(self) -> None: ...


def answers_for(session: Session, governed: Governed) -> Answers:
    if governed.yes:
        return Everything(session)
    return Person(session, governed, Keyboard()) if governed.asks else Nobody()


class Nobody:
    """Without a terminal a call that waits in the log stays there, until somebody answers it."""

    async def take(self, event: Event) -> Outcome:
        return "left"

    def begin(self) -> None:
        """Nothing is kept."""

    def interrupt(self) -> None:
        """Nothing is asked."""


class Everything(Nobody):
    """``--yes``, for calls that an earlier process parked. A question has no yes."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def take(self, event: Event) -> Outcome:
        if event.type == QUESTION:
            return "left"
        await self._session.confirm_tool_use_async(str(event.payload["tool_id"]), True, "--yes was given")
        return "answered"


class Person:
    """One session's person. ``always`` is what was answered for good."""

    def __init__(self, session: Session, governed: Governed, keyboard: Keyboard) -> None:
        self._session = session
        self._governed = governed
        self._keyboard = keyboard
        self._always: set[Standing] = set()

    def begin(self) -> None:
        self._keyboard.interrupted = False

    def interrupt(self) -> None:
        self._keyboard.interrupt()

    async def take(self, event: Event) -> Outcome:
        payload = event.payload
        settled = await (self._question(payload) if event.type == QUESTION else self._confirmation(payload))
        if settled:
            return "answered"
        return "interrupted" if self._keyboard.interrupted else "left"

    async def _confirmation(self, payload: Mapping[str, Any]) -> bool:
        confined = payload["tool_name"] != "bash" or self._sandbox()["kind"] != "none"
        may = standing(self._governed.policy, self._place, payload, confined=confined)
        known = next((each for each in may if each in self._always), None)
        if known is not None:
            return await self._confirm(payload, True, f"always {known.words} in this session")
        if not await self._keyboard.show([*self._body(payload), *self._about(payload)]):
            return False
        always = [f"a always {may[0].words} in this session"] if may else []
        choices = ", ".join(["y yes", "n [reason] no", *always, "e explain"])
        while (typed := await self._keyboard.line(f"  {choices}? ")) is not None:
            word, _, reason = typed.strip().partition(" ")
            match word.lower(), reason.strip():
                case (("y" | "yes"), ""):
                    return await self._confirm(payload, True, None)
                case (("n" | "no"), said):
                    return await self._confirm(payload, False, said or None)
                case (("a" | "always"), "") if may:
                    self._always.add(may[0])
                    return await self._confirm(payload, True, f"always {may[0].words} in this session")
                case (("e" | "explain"), ""):
                    if not await self._keyboard.show(self._explained(payload)):
                        return False
                case _:
                    self._keyboard.say("  nothing was decided")
        return False

    async def _confirm(self, payload: Mapping[str, Any], approved: bool, reason: str | None) -> bool:
        if not await self._session.confirm_tool_use_async(str(payload["tool_id"]), approved, reason):
            self._keyboard.say(_GONE)
        return True

    async def _question(self, payload: Mapping[str, Any]) -> bool:
        while (typed := await self._keyboard.line("  your answer? ")) is not None:
            if answer := answer_of(typed.strip(), payload.get("options")):
                if not await self._session.answer_question_async(str(payload["tool_id"]), answer):
                    self._keyboard.say(_GONE)
                return True
        return False

    @property
    def _place(self) -> Path:
        return Path(self._session.workspace)

    def _sandbox(self) -> JsonObject:
        return self._session.sandbox

    def _body(self, payload: Mapping[str, Any]) -> list[str]:
        """Behind a bar, wrapped lines too, so that no line of it can pass for one of ours."""
        whole = what_would_run(str(payload["tool_name"]), payload["args"], self._place)
        return [f"{_BAR}{row}" for line in whole for row in rows_of(line, self._keyboard.width - len(_BAR))]

    def _about(self, payload: Mapping[str, Any]) -> list[str]:
        sandbox = self._sandbox() if payload["tool_name"] == "bash" else None
        return [f"  {name.ljust(_NAME_WIDTH)}{text}" for name, text in why(payload, sandbox)]

    def _explained(self, payload: Mapping[str, Any]) -> list[str]:
        name, args = str(payload["tool_name"]), payload["args"]
        confined = name != "bash" or self._sandbox()["kind"] != "none"
        parts = explain_parts(self._governed.policy, name, args, self._place, sandboxed=confined)
        return [f"  {line}" for line in table_lines(["part", "decision", "rule", "matched with"], parts_table(parts))]


def answer_of(typed: str, options: Json) -> str:
    """What was typed, or the option whose number it is."""
    listed = options if isinstance(options, list) else []
    if typed.isascii() and typed.isdigit() and 0 < int(typed) <= len(listed):
        option = listed[int(typed) - 1]
        label = option.get("label") if isinstance(option, dict) else option
        return str(label)
    return typed
