"""ACL text into a tree (providers.md, *The ACL file*). In: a ``Source``. Out: its ``Table``, or a ``ConfigError``.

Grammar: a body is entries, each ended by a line break, a comma or the body's end. An entry is ``key = value``
(``key: value`` too, as in an object) or ``key "label"… { body }``; blocks of one name gather by label.

One rule: a key is set once; the second time is an error that names the first line.
Known weakness: the first fault ends the parse, so a file with three faults takes three rounds.
"""

from __future__ import annotations

from a3s_code.config.lexer import Lexer, Token
from a3s_code.config.secret import EnvVar
from a3s_code.config.source import Source, secretish
from a3s_code.config.tree import Entry, EnvNode, Items, Node, Scalar, Table
from a3s_code.errors import ConfigError

MAX_DEPTH = 64
_WORDS: dict[str | int | float, bool | None] = {"true": True, "false": False, "null": None}


def parse(source: Source) -> Table:
    """The whole text as one table."""
    parser = _Parser(source)
    if parser.sees("{"):
        raise source.error(parser.token.at, "this is JSON, not ACL: pass it parsed to create_from_config", ())
    return parser.body(at=0, closing=None, block=True)


class _Parser:
    def __init__(self, source: Source) -> None:
        self.source = source
        self.path: list[str] = []
        self.lexer = Lexer(source, self.path)
        self.token = self.lexer.next()

    def advance(self) -> Token:
        token = self.token
        self.token = self.lexer.next()
        return token

    def sees(self, sign: str) -> bool:
        return self.token.kind == "sign" and self.token.value == sign

    def expected(self, what: str) -> ConfigError:
        return self.source.error(self.token.at, f"expected {what}, found {self.token.describe()}", self.path)

    def take(self, sign: str, what: str) -> None:
        if not self.sees(sign):
            raise self.expected(what)
        self.advance()

    def enter(self, key: str) -> None:
        if len(self.path) >= MAX_DEPTH:
            raise self.source.error(self.token.at, f"nested more than {MAX_DEPTH} deep")
        self.path.append(key)

    def shown(self, key: Token) -> str:
        """A key in the path of a syntax error: none where a secret may be near, and of the quoted ones, which may be
        values whose own key was lost, the labels of blocks only."""
        label = bool(self.path) and self.sees("{")
        return str(key.value) if (key.kind == "word" or label) and not secretish(self.path) else "…"

    def body(self, at: int, closing: str | None, block: bool) -> Table:
        entries: dict[str, Entry] = {}
        while not self.at_end(closing):
            self.entry(entries)
            if self.sees(","):
                self.advance()
            elif not (self.token.new_line or self.at_end(closing)):
                raise self.expected("a line break or ','")
        if closing is not None:
            self.take(closing, f"'{closing}'")
        return Table(entries, at, block)

    def at_end(self, closing: str | None) -> bool:
        """Whether the body ends here; the end of the text ends every body, and ``take`` then says what is missing."""
        return self.token.kind == "end" or (closing is not None and self.sees(closing))

    def entry(self, entries: dict[str, Entry]) -> None:
        if self.token.kind not in ("word", "text"):
            raise self.expected("a key")
        key = self.advance()
        name = str(key.value)
        self.enter(self.shown(key))
        if self.sees("=") or self.sees(":"):
            self.advance()
            self.put(entries, Entry(name, self.value(), key.at))
        else:
            self.labelled(entries, key)
        self.source.guard(self.path, key.at, self.token.at)
        self.path.pop()

    def labelled(self, entries: dict[str, Entry], key: Token) -> None:
        """A block with any number of labels; each label is one level of the tree."""
        names = [key]
        while self.token.kind in ("word", "text") and not self.token.new_line:
            names.append(self.advance())
        if not self.sees("{"):
            self.source.guarded.extend((name.at, self.token.at) for name in names if name.kind == "text")
            raise self.expected("'=' and a value, or '{'" if len(names) == 1 else "'{' after the label")
        for label in names[1:]:
            self.enter(self.shown(label))
        opening = self.advance()
        table = self.body(opening.at, "}", block=True)
        del self.path[len(self.path) - len(names) + 1 :]
        for token in names[:-1]:
            entries = self.gathered(entries, token)
        self.put(entries, Entry(str(names[-1].value), table, names[-1].at))

    def gathered(self, entries: dict[str, Entry], key: Token) -> dict[str, Entry]:
        """The entries that the blocks named ``key`` gather in."""
        name = str(key.value)
        there = entries.get(name)
        if there is None:
            there = Entry(name, Table({}, key.at, block=True, labelled=True), key.at)
            entries[name] = there
        if not isinstance(there.value, Table) or not there.value.labelled:
            raise self.twice(there, key.at)
        return there.value.entries

    def put(self, entries: dict[str, Entry], entry: Entry) -> None:
        if entry.key in entries:
            raise self.twice(entries[entry.key], entry.at)
        entries[entry.key] = entry

    def twice(self, first: Entry, at: int) -> ConfigError:
        line, _ = self.source.position(first.at)
        return self.source.error(at, f"set twice, first on line {line}", self.path)

    def value(self) -> Node:
        token = self.token
        if token.kind in ("text", "number"):
            self.advance()
            return Scalar(token.value, token.at)
        if token.kind == "word" and token.value in _WORDS:
            self.advance()
            return Scalar(_WORDS[token.value], token.at)
        if token.kind == "word" and token.value == "env":
            self.advance()
            return self.env(token.at)
        if self.sees("{"):
            self.advance()
            return self.body(token.at, "}", block=False)
        if self.sees("["):
            self.advance()
            return self.items(token.at)
        hint = "; text stands in double quotes" if token.kind == "word" else ""
        raise self.expected(f"a value{hint}")

    def env(self, at: int) -> EnvNode:
        self.take("(", "'(' after env")
        name = self.text('the name of a variable: env("NAME")')
        default = None
        if self.sees(","):
            self.advance()
            default = self.text('the default as a string: env("NAME", "default")')
        self.take(")", "')'")
        return EnvNode(EnvVar(name, default), at)

    def text(self, what: str) -> str:
        if self.token.kind != "text":
            raise self.expected(what)
        return str(self.advance().value)

    def items(self, at: int) -> Items:
        items: list[Node] = []
        while not self.sees("]"):
            self.enter(str(len(items)))
            items.append(self.value())
            self.path.pop()
            if not self.sees(","):
                break
            self.advance()
        self.take("]", "',' or ']'")
        return Items(tuple(items), at)
