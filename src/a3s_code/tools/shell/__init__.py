"""Shell lines read with the grammar tree-sitter-bash, behind ``ports.shell``."""

from __future__ import annotations

from a3s_code.tools.shell.parser import BashGrammar

__all__ = ["BashGrammar"]
