"""Fields out of a table. In: one table and its place. Out: typed values, or ``ConfigError`` with place and field.

One rule: a key is known because somebody asked for it; ``finish`` reports all others.
Known weakness: "warn once" counts per load, so loading a file twice warns twice.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator, Mapping
from typing import cast

import msgspec

from a3s_code.config.secret import EnvVar, Secret
from a3s_code.config.source import Source
from a3s_code.config.tree import Entry, EnvNode, Given, Items, Node, Scalar, Table, kind_of, plain
from a3s_code.core.content import Json, JsonObject
from a3s_code.errors import ConfigError

log = logging.getLogger("a3s_code")

MANY = 2**31 - 1
MOST = 2**53
_UNSOUND = re.compile("[\0\ud800-\udfff]")
_NUMBER = re.compile(r"-?[0-9]{1,15}(\.[0-9]{1,15})?")


def camel(name: str) -> str:
    """``base_url`` as ``baseUrl``: both spellings are one key."""
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


class Reading(msgspec.Struct):
    """What one load has in common. ``warned`` holds the unknown keys that were reported, by the kind of their table."""

    source: Source
    environ: Mapping[str, str]
    warned: set[tuple[str, str]] = msgspec.field(default_factory=set)


class Section:
    """One table. Every getter gives ``None`` for a key that isn't there (or is ``null``)."""

    def __init__(self, reading: Reading, table: Table, path: tuple[str, ...] = (), kind: str = "configuration") -> None:
        self.reading = reading
        self.table = table
        self.path = path
        self.kind = kind
        self._known: dict[str, None] = {}
        self._read: set[str] = set()

    def fault(self, key: str, at: int, message: str) -> ConfigError:
        return self.reading.source.error(at, message, (*self.path, key))

    def wrong(self, key: str, node: Node, what: str) -> ConfigError:
        return self.fault(key, node.at, f"expected {what}, found {kind_of(node)}")

    def find(self, key: str, *aliases: str) -> Entry | None:
        """The entry of ``key`` under any of its spellings. Two spellings with different values are an error."""
        spellings = [s for name in (key, *aliases) for s in dict.fromkeys((name, camel(name)))]
        self._known[key] = None
        self._read.update(spellings)
        found = [self.table.entries[s] for s in spellings if s in self.table.entries]
        for other in found[1:]:
            if plain(other.value) != plain(found[0].value):
                last = max(other, found[0], key=lambda entry: entry.at)
                raise self.fault(
                    last.key, last.at, f"{found[0].key} and {other.key} are the same key, given with different values"
                )
        if not found or (isinstance(found[0].value, Scalar) and found[0].value.value is None):
            return None
        return found[0]

    def place(self, key: str) -> int:
        """Where the value of ``key`` stands, for an error found later."""
        entry = self.find(key)
        return -1 if entry is None else entry.value.at

    def text(self, key: str) -> str | None:
        entry = self.find(key)
        return None if entry is None else self._text(key, entry.value)

    def path_text(self, key: str) -> str | None:
        entry = self.find(key)
        return None if entry is None else self._path(key, entry.value)

    def choice(self, key: str, choices: tuple[str, ...]) -> str | None:
        value = self.text(key)
        if value is not None and value not in choices:
            known = ", ".join(f'"{choice}"' for choice in choices)
            raise self.fault(key, self.place(key), f"expected one of {known}{_nearest(value, choices)}")
        return value

    def whole(self, key: str, *aliases: str, low: int = 1, high: int = MOST) -> int | None:
        entry = self.find(key, *aliases)
        if entry is None:
            return None
        value = self._number(key, entry.value, "a whole number")
        if value != int(value):
            raise self.fault(key, entry.value.at, "expected a whole number, found a number with a fraction")
        return int(self._within(key, entry.value, value, low, high))

    def number(self, key: str, low: float = 0, high: float = MOST) -> float | None:
        entry = self.find(key)
        if entry is None:
            return None
        return float(self._within(key, entry.value, self._number(key, entry.value, "a number"), low, high))

    def flag(self, key: str) -> bool | None:
        entry = self.find(key)
        if entry is None:
            return None
        node = entry.value
        value = node.value if isinstance(node, Scalar) else None
        if isinstance(node, EnvNode):
            value = {"true": True, "false": False}.get(self._env(node, (*self.path, key)).lower())
        if not isinstance(value, bool):
            raise self.wrong(key, node, "true or false")
        return value

    def texts(self, key: str, *, paths: bool = False) -> tuple[str, ...] | None:
        entry = self.find(key)
        if entry is None:
            return None
        if not isinstance(entry.value, Items):
            raise self.wrong(key, entry.value, "a list of strings")
        one = self._path if paths else self._text
        return tuple(one(key, item) for item in entry.value.items)

    def secret(self, key: str, check: Callable[[str], str | None] | None = None) -> Secret[str] | None:
        """``check`` gives what is wrong with a text; one from the environment is checked when it is needed."""
        entry = self.find(key)
        return None if entry is None else self._secret(key, entry.value, check)

    def secrets(self, key: str) -> dict[str, Secret[str]]:
        inner = self.section(key, key)
        if inner is None:
            return {}
        return {name: inner._secret(name, entry.value, None) for name, entry in inner.table.entries.items()}

    def section(self, key: str, kind: str) -> Section | None:
        entry = self.find(key)
        if entry is None:
            return None
        if not isinstance(entry.value, Table):
            raise self.wrong(key, entry.value, "a block")
        if entry.value.labelled:
            raise self.fault(key, entry.at, "expected a block without a label")
        return Section(self.reading, entry.value, (*self.path, key), kind)

    def labelled(self, key: str, *, hidden: bool = False) -> Iterator[tuple[str, Section]]:
        """The blocks ``key "label" { … }``, in order."""
        for label, entry in self._labelled(key):
            if not isinstance(entry.value, Table):
                raise self.fault(key, entry.at, f'expected a block with a label: {key} "name" {{ … }}')
            if not label.strip():
                raise self.fault(key, entry.at, "expected a label that is not blank")
            yield label, Section(self.reading, entry.value, (*self.path, key, label), key)

    def hidden_blocks(self, key: str) -> dict[str, Secret[JsonObject]]:
        """Labelled blocks as JSON that is opened later."""
        return {label: self._json((*self.path, key, label), entry) for label, entry in self._labelled(key)}

    def hidden_block(self, key: str) -> Secret[JsonObject] | None:
        entry = self.find(key)
        return None if entry is None else self._json((*self.path, key), entry)

    def json(self, key: str) -> JsonObject | None:
        block = self.hidden_block(key)
        return None if block is None else block.reveal()

    def finish(self) -> None:
        """Reports what nobody asked for: an unknown block is an error, an unknown key warns once."""
        for key, entry in self.table.entries.items():
            if key in self._read:
                continue
            hint = _nearest(key, tuple(self._known))
            if isinstance(entry.value, Table) and (entry.value.block or not self.path):
                raise self.fault(key, entry.at, f"unknown block{hint}; known here: {', '.join(self._known)}")
            if (self.kind, key) not in self.reading.warned:
                self.reading.warned.add((self.kind, key))
                log.warning("%s: unknown key is ignored%s", self._where(entry), hint)

    def _where(self, entry: Entry) -> str:
        source, name = self.reading.source, ".".join((*self.path, entry.key))
        if source.text is None:
            return f"{source.name}: {name}"
        line, column = source.position(entry.at)
        return f"{source.name}:{line}:{column}: {name}"

    def _labelled(self, key: str) -> list[tuple[str, Entry]]:
        entry = self.find(key)
        if entry is None:
            return []
        if not isinstance(entry.value, Table):
            raise self.fault(key, entry.value.at, f'expected a block with a label: {key} "name" {{ … }}')
        return list(entry.value.entries.items())

    def _text(self, key: str, node: Node) -> str:
        value = self._env(node, (*self.path, key)) if isinstance(node, EnvNode) else None
        if isinstance(node, Scalar) and isinstance(node.value, str):
            value = node.value
        if value is None:
            raise self.wrong(key, node, "text")
        if not value.strip() or _UNSOUND.search(value):
            raise self.fault(key, node.at, "expected text that is not blank and has no NUL")
        return value

    def _path(self, key: str, node: Node) -> str:
        """A leading ``~`` is the home directory: nobody means a directory of that name."""
        text, home = self._text(key, node), self.reading.environ.get("HOME")
        return home + text[1:] if home and (text == "~" or text.startswith("~/")) else text

    def _number(self, key: str, node: Node, what: str) -> int | float:
        """A number; text from the environment counts when it is written as one."""
        if isinstance(node, EnvNode):
            text = self._env(node, (*self.path, key))
            if _NUMBER.fullmatch(text):
                return float(text) if "." in text else int(text)
        elif isinstance(node, Scalar) and isinstance(node.value, int | float) and not isinstance(node.value, bool):
            return node.value
        raise self.wrong(key, node, what)

    def _within(self, key: str, node: Node, value: int | float, low: float, high: float) -> int | float:
        if not low <= value <= high:
            bounds = f"at least {low}" if value < low and high >= MANY else f"{low} to {high}"
            raise self.fault(key, node.at, f"expected {bounds}")
        return value

    def _secret(self, key: str, node: Node, check: Callable[[str], str | None] | None) -> Secret[str]:
        path = (*self.path, key)

        def checked(text: str) -> str:
            fault = check(text) if check is not None else None
            if fault is not None or not (text == "" or text.isprintable()):
                fault = fault or "expected text without line breaks and control characters"
                raise self.reading.source.error(node.at, fault, path)
            return text

        if isinstance(node, EnvNode):
            return Secret.later(node.var, lambda: checked(self._env(node, path)))
        if isinstance(node, Given) and node.secret.deferred:
            return cast("Secret[str]", node.secret)
        value = node.secret.reveal() if isinstance(node, Given) else node.value if isinstance(node, Scalar) else None
        if not isinstance(value, str):
            raise self.fault(key, node.at, "expected text")
        return Secret(checked(value))

    def _json(self, path: tuple[str, ...], entry: Entry) -> Secret[JsonObject]:
        node = entry.value
        if isinstance(node, Given):
            return cast("Secret[JsonObject]", node.secret)
        if not isinstance(node, Table):
            raise self.reading.source.error(node.at, f"expected a block, found {kind_of(node)}", path)
        return Secret.later(plain(node), lambda: cast("JsonObject", self._opened(node, path)))

    def _opened(self, node: Node, path: tuple[str, ...]) -> Json:
        match node:
            case Scalar(value=value):
                return value
            case EnvNode():
                return self._env(node, path)
            case Given(secret=secret):
                return cast("Json", secret.reveal())
            case Items(items=items):
                return [self._opened(item, (*path, str(i))) for i, item in enumerate(items)]
            case Table(entries=entries):
                return {key: self._opened(entry.value, (*path, key)) for key, entry in entries.items()}

    def _env(self, node: EnvNode, path: tuple[str, ...]) -> str:
        var: EnvVar = node.var
        value = self.reading.environ.get(var.name, var.default)
        if value is None:
            message = f"the environment variable {var.name} is not set and has no default"
            raise self.reading.source.error(node.at, message, path)
        return value


def _nearest(name: str, known: tuple[str, ...]) -> str:
    import difflib  # only a misspelt name needs it

    close = difflib.get_close_matches(name, [*known, *map(camel, known)], 1)
    return f"; did you mean {close[0]}?" if close else ""
