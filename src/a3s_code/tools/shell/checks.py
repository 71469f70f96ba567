"""Doubts about a syntax tree. In: its nodes and the text. Out: ``Doubtful``, when bash may read the text differently.

One rule: what can't be shown to be read as bash reads it is doubtful, and a doubtful line is not guessed at.
Known weakness: a list of the ways in which the grammar was seen to differ, not a proof that there are no others.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from a3s_code.core.policy.line import Word

if TYPE_CHECKING:
    from tree_sitter import Node

_BLANK: Final = re.compile(rb"(?:[ \t\n]|\\\n)*")
_SUBSTITUTION: Final = re.compile(rb"\$\(|\$\{|\$\[|`|[<>]\(")
_FREE: Final = frozenset({"string", "heredoc_body", "heredoc_redirect", "translated_string"})
_LITERAL: Final = frozenset({"raw_string", "ansi_c_string", "comment"})
_SUBSTITUTING: Final = frozenset({"command_substitution", "process_substitution", "arithmetic_expansion", "expansion"})
_JOINED: Final = frozenset({"variable_assignment", "concatenation", "simple_expansion"})
_COMMANDS: Final = frozenset({"command", "declaration_command", "unset_command", "redirected_statement"})
_KEYWORDS: Final = frozenset(
    "if then else elif fi case esac for select while until do done function { } [[ ]] time ! coproc in".split()
)
_MAY_LEAD: Final = frozenset({"time", "!", "coproc", "in"})
_DASH: Final = re.compile(rb"[ \t]+-[ \t]*")
_BARE: Final = re.compile(rb"(?:\\.|[^\s\\;&|<>()'\"`])*", re.DOTALL)
_BEFORE_COMMENT: Final = b" \t\n;&|()<>`"


class Doubtful(Exception):
    """The tree may not be what bash makes of the text."""


class Seen:
    """What was met on the way: ``literal`` spans, where substitutions begin, commands already taken, and statements
    with a word ``-`` that the grammar drops before a here-document."""

    def __init__(self) -> None:
        self.literal: list[tuple[int, int]] = []
        self.strings: list[tuple[int, int]] = []
        self.starts: set[int] = set()
        self.taken: set[int] = set()
        self.dashes: set[int] = set()


def node(node: Node, source: bytes, seen: Seen) -> None:
    """One node: what lies between its children is blank, and a comment is one for bash too."""
    kind = node.type
    if kind in _LITERAL:
        seen.literal.append((node.start_byte, node.end_byte))
    elif kind in ("string", "heredoc_body"):
        seen.strings.append((node.start_byte, node.end_byte))
    elif kind in _SUBSTITUTING:
        _start(node, source, seen)
    elif kind == "word" and not node.child_count and not _BARE.fullmatch(node.text or b"") and not _expanded(node):
        raise Doubtful
    if kind == "heredoc_body" and node.parent is not None and quoted_delimiter(node.parent):
        seen.literal.append((node.start_byte, node.end_byte))
    elif kind == "comment":
        _comment(node, source)
    if node.child_count and kind not in _FREE:
        _gaps(node, source, seen)


def _expanded(node: Node) -> bool:
    """Within ``${…}`` blanks are part of a word."""
    parent = node.parent
    if parent is not None and parent.type == "concatenation":
        parent = parent.parent
    return parent is not None and parent.type == "expansion"


def _start(node: Node, source: bytes, seen: Seen) -> None:
    text = node.text or b""
    seen.starts.add(node.start_byte + len(text) - len(text.lstrip()))
    if text.lstrip()[:1] == b"`":
        seen.starts.add(node.end_byte - 1)
    if text.lstrip()[:3] == b"$((" and node.type == "command_substitution":
        raise Doubtful  # arithmetic for bash, unless it can't be


def _gaps(node: Node, source: bytes, seen: Seen) -> None:
    at = node.start_byte
    for child in node.children:
        between = source[at : child.start_byte]
        if child.type == "heredoc_redirect" and _DASH.fullmatch(between):
            seen.dashes.add(node.id)
        elif between and (node.type in _JOINED or not _is_blank(between)):
            raise Doubtful
        at = child.end_byte
    if source[at : node.end_byte].strip(b" \t\n"):
        raise Doubtful


def _is_blank(between: bytes) -> bool:
    """A continuation without a blank beside it joins what stands around it."""
    return _BLANK.fullmatch(between) is not None and (b"\\" not in between or between.replace(b"\\\n", b"") != b"")


def _comment(node: Node, source: bytes) -> None:
    """Begins where a word may begin, and ends the command that it stands in."""
    before = source[node.start_byte - 1 : node.start_byte]
    if before and (before not in _BEFORE_COMMENT or _escaped(source, node.start_byte - 1)):
        raise Doubtful
    if node.parent is not None and node.parent.type in _COMMANDS and node.next_sibling is not None:
        raise Doubtful


def _escaped(source: bytes, at: int) -> bool:
    count = 0
    while at > count and source[at - count - 1 : at - count] == b"\\":
        count += 1
    return count % 2 == 1


def program(word: Word) -> None:
    """A keyword in the place of a program was not read as one."""
    if word.source in _KEYWORDS and word.source not in _MAY_LEAD:
        raise Doubtful


def quoted_delimiter(redirect: Node) -> bool:
    start = next((c for c in redirect.children if c.type == "heredoc_start"), None)
    return start is not None and any(sign in (start.text or b"") for sign in b"'\"\\")


def heredoc(redirect: Node, source: bytes) -> None:
    """The body ends at the first line that is the delimiter, and not elsewhere."""
    parts = {child.type: child for child in redirect.children}
    start, end, body = parts.get("heredoc_start"), parts.get("heredoc_end"), parts.get("heredoc_body")
    if start is None or end is None:
        raise Doubtful
    delimiter = re.sub(rb"['\"\\]", b"", start.text or b"")
    if not delimiter or re.search(rb"[$`\n]", start.text or b""):
        raise Doubtful
    tabs = "<<-" in parts
    at = body.start_byte if body is not None else source.rindex(b"\n", 0, end.end_byte) + 1
    if source[at - 1 : at] != b"\n":
        at = source.rindex(b"\n", 0, at) + 1
    last = source.find(b"\n", end.end_byte)
    lines = source[at : len(source) if last < 0 else last].split(b"\n")
    if tabs:
        lines = [line.lstrip(b"\t") for line in lines]
    if lines[-1] != delimiter or delimiter in lines[:-1]:
        raise Doubtful
    if source.count(b"\n", redirect.start_byte, at) != 1:
        raise Doubtful


def in_double_quotes(node: Node) -> bool:
    parent = node.parent
    while parent is not None and parent.type not in ("command_substitution", "process_substitution"):
        if parent.type == "string":
            return True
        parent = parent.parent
    return False


def nothing_hidden(source: bytes, seen: Seen) -> None:
    """Every sign of a substitution is one that was taken, or is quoted."""
    for found in _SUBSTITUTION.finditer(source):
        at = found.start()
        if at in seen.starts or _escaped(source, at) or _within(at, seen.literal):
            continue
        if found[0] in (b"<(", b">(") and _within(at, seen.strings):
            continue
        if found[0] == b"<(" and source[at - 1 : at] == b"<":
            continue
        raise Doubtful


def _within(at: int, spans: list[tuple[int, int]]) -> bool:
    return any(start <= at < end for start, end in spans)
