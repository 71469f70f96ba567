"""What waits for an answer. In: a session's log, or what an open session says. Out: one row a call or question.

One rule: what is listed is read off the log; nothing is written and no lock is taken.
Known weakness: a call that can't park (one inside another) waits in its process only, and isn't listed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from a3s_code.api.session import Session
from a3s_code.cli.found import read_view
from a3s_code.cli.setup import command_line, notice
from a3s_code.cli.words import call_words, count, one_line, text_of
from a3s_code.core.content import JsonObject
from a3s_code.core.rules import Rules
from a3s_code.core.state import View
from a3s_code.engine.approvals import pending_confirmations, pending_questions


class Waiting(msgspec.Struct, frozen=True):
    """``asked`` is what the session would say of it; ``question`` tells a question from a call."""

    asked: JsonObject
    question: bool

    @property
    def call(self) -> str:
        return str(self.asked["tool_id"])

    @property
    def words(self) -> str:
        return words_of(self.asked)

    @property
    def reason(self) -> str:
        return "a question" if self.question else text_of(self.asked, "reason")


def waiting_in(path: str) -> list[Waiting]:
    """What waits in this log; nothing in a damaged one, which `sessions` tells about."""
    view = read_view(path)
    return [] if view is None else waiting_of(view)


def waiting_of(view: View) -> list[Waiting]:
    calls = [Waiting(each, question=False) for each in pending_confirmations(view, Rules())]
    return [*calls, *(Waiting(each, question=True) for each in pending_questions(view))]


def words_of(asked: Mapping[str, Any]) -> str:
    """The call, or the question, in a few words."""
    if "tool_name" in asked:
        return call_words(str(asked["tool_name"]), asked.get("args"))
    return one_line(str(asked.get("question") or ""))


def say_what_waits(
    session_id: str, waiting: Sequence[Mapping[str, Any]], workspace: Path, rights: Sequence[str] = ()
) -> None:
    """What waits, how to answer it, and how the run goes on then."""
    for asked in waiting:
        what = "yes" if "tool_name" in asked else "TEXT"
        answer = command_line("answer", session_id, str(asked["tool_id"]), what, workspace=workspace)
        notice(f"waiting: {words_of(asked)}; answer with `{answer}`")
    resume = command_line("run", "--resume", "--session", session_id, *rights, workspace=workspace)
    notice(f"session {session_id}: {'then ' if waiting else ''}go on with `{resume}`")


def warn_of_what_waits(session: Session, workspace: Path, rights: Sequence[str]) -> None:
    """A new prompt settles the run that was left open, and with it what waits."""
    waiting = len(session.pending_confirmations()) + len(session.pending_questions())
    if waiting:
        resume = command_line("run", "--resume", "--session", session.session_id, *rights, workspace=workspace)
        notice(f"{count(waiting, 'open call')} of this session: `{resume}` asks; a new prompt withdraws what waits")
