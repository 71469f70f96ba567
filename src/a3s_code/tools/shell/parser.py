"""Commands of a shell line. In: a text for ``bash``. Out: what ``ports.shell`` promises.

One rule: every command of the tree is taken, wherever it stands; what ``checks`` doubts makes the text unparsable.
Known weakness: the grammar knows no ``coproc`` with a compound command, no ``{name}>file`` and no second
here-document on a line; these are unparsable.

The grammar is loaded at the first line, not when this module is imported.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from a3s_code.core.policy.line import Body, Command, Line, Unknown, Word, Write
from a3s_code.tools.shell import checks, words

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

MAX_BYTES: Final = 128 * 1024
MAX_DEPTH: Final = 150
MAX_NODES: Final = 12_000
MAX_NESTED: Final = 4
_COMMANDS: Final = frozenset({"command", "declaration_command", "unset_command"})
_REDIRECTS: Final = frozenset({"file_redirect", "heredoc_redirect", "herestring_redirect"})
_WRITING: Final = frozenset({">", ">>", ">|", "&>", "&>>", ">&"})
_DESCRIPTOR: Final = re.compile(r"[0-9]+-?|-")
_SAFE_TO_FOLD: Final = re.compile(r"[^'#\\<]*(?:(?:\\[^\\]|<(?!<))[^'#\\<]*)*")
_TICKED: Final = re.compile(r"\\([$`\\])")


class Unparsable(Exception):
    """The text can't be understood to its last character."""


class BashGrammar:
    def __init__(self, nested: int = 0) -> None:
        self._nested = nested

    def parse(self, text: str) -> Line | None:
        folded = _folded(text)
        source = folded.encode("utf-8", "surrogatepass")
        if b"\0" in source or len(source) > MAX_BYTES or self._nested > MAX_NESTED:
            return None
        tree = _parser().parse(source)
        if tree.root_node.has_error:
            return None
        try:
            walk = _Walk(source, self._nested)
            walk.visit(tree.root_node, 0)
            checks.nothing_hidden(source, walk.seen)
        except (Unparsable, checks.Doubtful):
            return None
        return tuple(walk.line)


@functools.cache
def _parser() -> Parser:
    import tree_sitter
    import tree_sitter_bash

    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))


def _folded(text: str) -> str:
    """Without continuations (a backslash at a line's end), where no quote can make them mean something else."""
    return text.replace("\\\n", "") if "\\\n" in text and _SAFE_TO_FOLD.fullmatch(text) else text


class _Walk:
    def __init__(self, source: bytes, nested: int) -> None:
        self.line: list[Command | Write] = []
        self.seen = checks.Seen()
        self._source = source
        self._nested = nested
        self._left = MAX_NODES

    def visit(self, node: Node, depth: int) -> None:
        """Takes what stands at and below ``node``."""
        self._left -= 1
        if depth > MAX_DEPTH or self._left < 0:
            raise Unparsable
        kind = node.type
        checks.node(node, self._source, self.seen)
        if kind == "command_substitution" and (node.text or b"")[:1] == b"`" and self._ticked(node):
            return
        if kind in _COMMANDS:
            self._command(node, ())
        elif kind == "redirected_statement":
            self._redirected(node)
        elif kind == "test_command":
            self._test(node)
        elif kind == "variable_assignment" and (node.parent is None or node.parent.type not in _COMMANDS):
            self.line.append(Command((), (_assignment(node),)))
        elif kind == "file_redirect":
            self._write(node)
        elif kind == "heredoc_redirect":
            checks.heredoc(node, self._source)
        for child in node.children:
            self.visit(child, depth + 1)

    def _redirected(self, node: Node) -> None:
        """A command whose redirections stand behind it: further words after a target belong to the command."""
        body = node.child_by_field_name("body")
        redirects = [child for child in node.children if child.type in _REDIRECTS]
        dash = node.id in self.seen.dashes
        if body is not None and body.type in _COMMANDS:
            self._command(body, redirects, dash)
            self.seen.taken.add(body.id)
            return
        if dash or any(True for redirect in redirects for _ in _further(redirect)):
            if body is not None:
                raise Unparsable
            self._command(node, redirects)

    def _command(self, node: Node, redirects: Sequence[Node], dash: bool = False) -> None:
        if node.id in self.seen.taken:
            return
        assigns: list[Word] = []
        taken: list[Node] = []
        body = None
        for child in (*node.children, *redirects):
            if child.type in _REDIRECTS:
                body = _body(child) or body
                taken += _further(child)
            elif child.type == "variable_assignment" and node.type == "command" and not taken:
                assigns.append(_assignment(child))
            elif child.type != "redirected_statement":
                taken.append(child)
        made = (*_joined(taken, self._source), *((Word("-", ("-",)),) if dash else ()))
        if made:
            checks.program(made[0])
        self.line.append(Command(made, tuple(assigns), body))

    def _test(self, node: Node) -> None:
        source = " ".join(words.raw(node).split())
        if source.startswith("(("):
            return
        self.line.append(Command((Word(source, (source,)),), test=True))

    def _write(self, node: Node) -> None:
        operator = next((child.type for child in node.children if not child.is_named), "")
        target = node.child_by_field_name("destination")
        if operator not in _WRITING or target is None:
            return
        named = words.word([target])
        if operator == ">&" and named.text is not None and _DESCRIPTOR.fullmatch(named.text):
            return
        if target.type != "process_substitution":
            self.line.append(Write(named))

    def _ticked(self, node: Node) -> bool:
        """A substitution in backquotes with escapes in it: the shell takes one level away before it looks."""
        inner = words.raw(node)[1:-1]
        quoted = checks.in_double_quotes(node)
        plain = re.sub(r'\\([$`\\"])', r"\1", inner) if quoted else _TICKED.sub(r"\1", inner)
        if plain == inner:
            return False
        line = BashGrammar(self._nested + 1).parse(plain)
        if line is None:
            raise Unparsable
        self.line += line
        self.seen.literal.append((node.start_byte, node.end_byte))
        return True


def _further(redirect: Node) -> Iterator[Node]:
    """The words of a redirection that are arguments of its command."""
    if redirect.type == "heredoc_redirect":
        yield from redirect.children_by_field_name("argument")
    else:
        plain = [c for c in redirect.children if c.is_named and c.type != "file_descriptor"]
        yield from plain[1:]


def _body(redirect: Node) -> Body | None:
    if redirect.type == "herestring_redirect":
        return Body(words.word([c for c in redirect.children if c.is_named][:1]))
    if redirect.type != "heredoc_redirect":
        return None
    body = next((c for c in redirect.children if c.type == "heredoc_body"), None)
    if body is None:
        return Body(Word("", ()))
    text = words.raw(body)
    if next((c.type for c in redirect.children), "") == "<<-":
        text = re.sub(r"(?m)^\t+", "", text)
    if checks.quoted_delimiter(redirect):
        return Body(Word(text, (text,)))
    holes = [(c.start_byte - body.start_byte, c.end_byte - body.start_byte) for c in body.named_children]
    unknown = any(c.type != "heredoc_content" for c in body.named_children)
    if unknown and len(text.encode("utf-8", "surrogatepass")) != len(text):
        return Body(Word(text, (Unknown.SPLIT,)))
    spans = [hole for hole, c in zip(holes, body.named_children, strict=True) if c.type != "heredoc_content"]
    return Body(Word(text, words.body_segments(text, spans)))


def _assignment(node: Node) -> Word:
    name, operator, *value = node.children
    if value and value[0].type == "array":
        return Word(words.raw(node), (f"{words.raw(name)}{words.raw(operator)}", Unknown.SPLIT))
    return words.assigned(name, operator, value)


def _joined(nodes: list[Node], source: bytes) -> Iterator[Word]:
    """Nodes without anything between them are one word."""
    group: list[Node] = []
    for node in nodes:
        if group and source[group[-1].end_byte : node.start_byte]:
            yield _one(group)
            group = []
        group.append(node)
    if group:
        yield _one(group)


def _one(group: list[Node]) -> Word:
    if len(group) == 1 and group[0].type == "variable_assignment":
        return _assignment(group[0])
    return words.word(group)
