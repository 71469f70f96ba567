"""Words of a shell line. In: nodes of the syntax tree. Out: words without quotes and escapes, unknown parts marked.

One rule: a node of a kind that isn't known here is unknown text over any number of words.
Known weakness: brace expansion is not carried out: it is unknown text, as file names are.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from a3s_code.core.policy.line import Segment, Unknown, Word
from a3s_code.tools.shell.ansi import ansi_c

if TYPE_CHECKING:
    from tree_sitter import Node

_ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)
_IN_QUOTES: Final = re.compile(r'\\([$`"\\\n])')
_PATTERN: Final = re.compile(r"(\\.)|(\*|\?|\[|[?*+@!]\()", re.DOTALL)
_LEAVES: Final = frozenset(
    "word extglob_pattern number variable_name file_descriptor test_operator regex special_variable_name".split()
)
_EXPANSIONS: Final = frozenset({"simple_expansion", "expansion", "command_substitution", "arithmetic_expansion"})
_MANY: Final = re.compile(r"\$@|\$\{.*@|\$\{.*:?\+", re.DOTALL)


class Piece(NamedTuple):
    """A literal text, quoted or not, or an unknown one."""

    value: Segment
    quoted: bool = False


def raw(node: Node) -> str:
    text = node.text
    return text.decode("utf-8", "surrogateescape") if text is not None else ""


def word(nodes: Sequence[Node]) -> Word:
    """One word out of the nodes that stand side by side."""
    source = "".join(raw(node) for node in nodes)
    pieces: list[Piece] = []
    for position, node in enumerate(nodes):
        translated = node.type == "$" and position + 1 < len(nodes) and nodes[position + 1].type == "string"
        if not translated:
            pieces += _pieces(node)
    home = bool(pieces) and isinstance(pieces[0].value, str) and not pieces[0].quoted and pieces[0].value[:1] == "~"
    return Word(_unfold(source), _merged(_braces(pieces)), home)


def assigned(name: Node, operator: Node, value: Sequence[Node]) -> Word:
    """An assignment as one word; the value is not split by the shell."""
    found = word(value)
    head = raw(name) + raw(operator)
    inside = tuple(Unknown.INSIDE if isinstance(s, Unknown) else s for s in found.segments)
    return Word(head + found.source, _merged([Piece(head), *map(Piece, inside)]))


def body_segments(text: str, holes: Sequence[tuple[int, int]]) -> tuple[Segment, ...]:
    """The text of a here-document whose unquoted expansions stand at ``holes``."""
    pieces, at = [], 0
    for start, end in holes:
        pieces += [Piece(_IN_QUOTES.sub(_kept, text[at:start])), Piece(Unknown.INSIDE)]
        at = end
    return _merged([*pieces, Piece(_IN_QUOTES.sub(_kept, text[at:]))])


def _pieces(node: Node) -> list[Piece]:
    kind = node.type
    if kind == "raw_string":
        return [Piece(raw(node)[1:-1], True)]
    if kind == "ansi_c_string":
        return [Piece(ansi_c(raw(node)[2:-1]), True)]
    if kind in ("string", "translated_string"):
        return _quoted(node)
    if kind == "concatenation" or (kind == "command_name" and node.child_count):
        return [piece for child in node.children for piece in _pieces(child)]
    if kind in _EXPANSIONS:
        return [Piece(Unknown.SPLIT)]
    if kind == "process_substitution":
        return [Piece("/dev/fd/", True), Piece(Unknown.INSIDE)]
    if kind == "brace_expression":
        return [Piece(Unknown.GLOB)]
    if not node.child_count and (kind in _LEAVES or not node.is_named):
        return _bare(raw(node))
    return [Piece(Unknown.SPLIT)]


def _quoted(node: Node) -> list[Piece]:
    """A string in double quotes. What stands between its expansions is text, blanks included."""
    pieces = [Piece("", True)]
    whole, base = node.text or b"", node.start_byte
    at = whole.index(b'"') + 1
    for child in node.children:
        if child.type in _EXPANSIONS or child.type == "translated_string":
            start = child.start_byte - base
            start += len(raw(child)) - len(raw(child).lstrip())
            pieces.append(Piece(_dequoted(whole[at:start]), True))
            pieces.append(Piece(Unknown.SPLIT if _MANY.match(raw(child).lstrip()) else Unknown.INSIDE))
            at = child.end_byte - base
    pieces.append(Piece(_dequoted(whole[at:-1]), True))
    return pieces


def _dequoted(text: bytes) -> str:
    return _IN_QUOTES.sub(_kept, text.decode("utf-8", "surrogateescape"))


def _bare(text: str) -> list[Piece]:
    """An unquoted text: escapes are quotes, and the signs of a file name pattern are unknown text."""
    pieces: list[Piece] = []
    at = 0
    for found in _PATTERN.finditer(text):
        if found.start() > at:
            pieces.append(Piece(text[at : found.start()]))
        at = found.end()
        if found[1]:
            pieces.append(Piece(_kept(found, 1), True))
        elif found[2] == "[" and "]" not in text[at:]:
            pieces.append(Piece("["))
        else:
            pieces.append(Piece(Unknown.GLOB))
            at = len(text) if len(found[2]) == 2 else text.index("]", at) + 1 if found[2] == "[" else at
    return [*pieces, Piece(text[at:])]


def _kept(found: re.Match[str], group: int = 0) -> str:
    """What an escape stands for; an escaped line end is nothing."""
    sign = found[group][1:]
    return "" if sign == "\n" else sign


def _braces(pieces: list[Piece]) -> list[Piece]:
    """``{a,b}`` and ``{1..3}`` outside of quotes, wherever their texts stand, as one unknown text."""
    opened = [i for i, p in enumerate(pieces) if isinstance(p.value, str) and not p.quoted and "{" in p.value]
    closed = [i for i, p in enumerate(pieces) if isinstance(p.value, str) and not p.quoted and "}" in p.value]
    if not opened or not closed:
        return pieces
    first, last = opened[0], closed[-1]
    head, tail = pieces[first].value, pieces[last].value
    if not isinstance(head, str) or not isinstance(tail, str):
        return pieces
    start, end = head.index("{"), tail.rindex("}")
    if first > last or (first == last and start > end):
        return pieces
    within = "".join(p.value for p in pieces[first : last + 1] if isinstance(p.value, str) and not p.quoted)
    within = within[within.index("{") : within.rindex("}")]
    if "," not in within and ".." not in within:
        return pieces
    split = any(p.value is Unknown.SPLIT for p in pieces[first:last])
    made = [Piece(head[:start]), Piece(Unknown.SPLIT if split else Unknown.GLOB), Piece(tail[end + 1 :])]
    return [*pieces[:first], *made, *pieces[last + 1 :]]


def _merged(pieces: Sequence[Piece]) -> tuple[Segment, ...]:
    """``["x"]`` in two nodes is a pattern too, so a bracket is looked for once more here."""
    segments: list[Segment] = []
    for value, quoted in _brackets(pieces):
        if isinstance(value, str) and segments and isinstance(segments[-1], str):
            segments[-1] += value
        elif value or not segments or quoted:
            segments.append(value)
    return tuple(segment for segment in segments if segment != "" or len(segments) == 1)


def _brackets(pieces: Sequence[Piece]) -> list[Piece]:
    bare = [i for i, p in enumerate(pieces) if isinstance(p.value, str) and not p.quoted]
    first = next((i for i in bare if "[" in str(pieces[i].value)), None)
    last = next((i for i in reversed(bare) if "]" in str(pieces[i].value)), None)
    if first is None or last is None or first >= last:
        return list(pieces)
    head, tail = str(pieces[first].value), str(pieces[last].value)
    unknown = [p for p in pieces[first : last + 1] if p.value is Unknown.SPLIT][:1]
    made = [Piece(head[: head.index("[")]), Piece(Unknown.GLOB), *unknown, Piece(tail[tail.rindex("]") + 1 :])]
    return [*pieces[:first], *made, *pieces[last + 1 :]]


def _unfold(source: str) -> str:
    return source.replace("\\\n", "") if "\\\n" in source and "'" not in source else source
