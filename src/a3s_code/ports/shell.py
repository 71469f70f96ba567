"""A parser of shell lines. In: a text for ``bash``. Out: its commands, or that it can't tell.

One rule: a command that ``bash`` would run is never left out; a text that isn't understood to its last character is
``None``.
Known weakness: aliases, and what ``eval`` and its like run, are not seen here.
"""

from __future__ import annotations

from typing import Protocol

from a3s_code.core.policy.line import Line


class Shell(Protocol):
    def parse(self, text: str) -> Line | None:
        """Every simple command and every redirection for writing in ``text``, also those in substitutions, compound
        commands and function bodies, in their order."""
