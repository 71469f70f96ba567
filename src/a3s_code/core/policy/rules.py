"""Rules (tools.md §5.2). In: the text of a rule. Out: the tools it names and the pattern their arguments must match.

One rule: a rule that isn't understood is an error that shows it, never ignored.
Known weakness: none known.
"""

from __future__ import annotations

import posixpath
import re
import unicodedata
from typing import Final

import msgspec

from a3s_code.core.content import Decision
from a3s_code.core.policy.flags import FlagForm, flag_form
from a3s_code.core.policy.glob import Pattern

_RULE: Final = re.compile(r"(?P<tool>[^()\s]+)(?:\((?P<pattern>.+)\))?", re.DOTALL)
_SEARCH_MODES: Final = frozenset({"grep", "glob", "bm25"})


class PolicyError(ValueError):
    """A rule is malformed; the message shows it."""


class Scope(msgspec.Struct, frozen=True):
    """Where the rules apply. ``root`` is the workspace, below which absolute patterns are made relative; ``fold``
    says that its file system takes ``A`` for ``a``."""

    root: str | None = None
    fold: bool = False


class Rule:
    """``pattern`` is ``None`` for a rule that matches whatever the arguments are (*universal*).

    One text is three patterns: of a shell line, of a path, of anything else. Each is made when first asked for.
    """

    def __init__(self, text: str, decision: Decision, scope: Scope) -> None:
        self.text = text.strip()
        form = _RULE.fullmatch(self.text)
        if form is None:
            raise PolicyError(f"malformed {decision} rule {text!r}: expected `Tool` or `Tool(pattern)`")
        tool, pattern = form["tool"], form["pattern"]
        if pattern in ("*", "**"):
            pattern = None
        self.mode = tool.lower() if tool.lower() in _SEARCH_MODES else None
        if self.mode is not None:
            tool, pattern = "search", f"{self.mode} {pattern or '**'}"
        self.pattern = pattern
        self._fold = scope.fold and decision != "allow"
        self._scope = scope
        names = ".*".join(re.escape(piece) for piece in tool.split("*"))
        self._names = re.compile(names, re.IGNORECASE | re.DOTALL)
        self._named: dict[str, bool] = {}
        self._shell: Pattern | None = None
        self._path: Pattern | None = None
        self._other: Pattern | None = None
        self._flags: FlagForm | None = None

    @property
    def universal(self) -> bool:
        return self.pattern is None

    def names(self, tool: str) -> bool:
        found = self._named.get(tool)
        if found is None:
            found = self._named[tool] = self._names.fullmatch(tool) is not None
        return found

    def shell(self) -> Pattern:
        if self._shell is None:
            self._shell = Pattern(self.pattern or "**", crossing=True, fold=self._fold)
            self._flags = flag_form(self.pattern or "", fold=self._fold)
        return self._shell

    def flags(self) -> FlagForm | None:
        self.shell()
        return self._flags

    def path(self) -> Pattern:
        if self._path is None:
            self._path = Pattern(self._relative(self.pattern or "**"), crossing=False, fold=self._fold)
        return self._path

    def other(self) -> Pattern:
        if self._other is None:
            self._other = Pattern(self.pattern or "**", crossing=False)
        return self._other

    def _relative(self, pattern: str) -> str:
        pattern = unicodedata.normalize("NFC", pattern)
        root = self._scope.root
        if root is not None and pattern.startswith("/"):
            base = root.rstrip("/") + "/"
            if pattern.startswith(base):
                pattern = pattern[len(base) :]
            elif pattern.rstrip("/") == root.rstrip("/"):
                pattern = "."
        while pattern.startswith("./"):
            pattern = pattern[2:].lstrip("/")
        return pattern or "."


def normal_path(path: str, root: str | None) -> str:
    """A path as rules see it: relative to the workspace where it is inside, without ``.`` and ``..``."""
    path = unicodedata.normalize("NFC", path)
    if root is not None:
        base = root.rstrip("/") or "/"
        whole = posixpath.normpath(posixpath.join(base, path))
        whole = whole[1:] if whole.startswith("//") else whole
        if whole == base:
            return "."
        prefix = base if base == "/" else base + "/"
        return whole[len(prefix) :] if whole.startswith(prefix) else whole
    return posixpath.normpath(path) if path else "."
