"""The tools of one session. In: a name. Out: the registered tool with its compiled argument check.

One rule: names are unique, and their order is the same in every request, whatever order they were registered in.
Known weakness: none known.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias

import msgspec

from a3s_code.core.content import JsonObject
from a3s_code.ports.model import ToolSpec
from a3s_code.ports.tool import Tool

ArgumentCheck: TypeAlias = Callable[[object], tuple[JsonObject | None, str | None]]
"""Gives the arguments with defaults filled in, or what is wrong with them (tools.md §1.3)."""


class RegisteredTool(msgspec.Struct, frozen=True):
    """``host`` marks a tool that the host gave: its coroutines run on the host's loop."""

    name: str
    tool: Tool
    check: ArgumentCheck
    host: bool = False


class Toolbox(Protocol):
    def get(self, name: str) -> RegisteredTool | None: ...

    def names(self) -> list[str]: ...

    def specs(self) -> tuple[ToolSpec, ...]:
        """What a model is shown; the same tuple until a tool is added or removed."""

    def near(self, name: str) -> list[str]:
        """Up to three registered names that look like ``name``."""
