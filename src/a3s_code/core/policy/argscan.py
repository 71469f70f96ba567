"""Options in front of what a program runs. In: words and the options that take a value. Out: where they end.

One rule: a value that may be several words makes it unknown what follows.
Known weakness: an option that isn't listed is taken to have no value.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from a3s_code.core.policy.line import Unknown, Word


class Options(msgspec.Struct, frozen=True):
    """Options with a value, and how many operands stand before the program. A ``shell`` ends them at ``-`` too, and
    takes values of letters in a cluster from the words behind it."""

    short: str = ""
    long: frozenset[str] = frozenset()
    operands: int = 0
    transparent: bool = True
    shell: bool = False


def options(short: str, long: str = "", operands: int = 0, *, transparent: bool = True, shell: bool = False) -> Options:
    return Options(short, frozenset(f"--{name}" for name in long.split()), operands, transparent, shell)


class Scan(msgspec.Struct):
    """Where the options end; what was seen of them. ``unsure``: the next word may be an option. ``lost``: one that was
    passed over may have held more than it seems."""

    at: int
    letters: str = ""
    names: tuple[str, ...] = ()
    values: dict[str, Word] = {}
    unsure: bool = False
    lost: bool = False

    def value(self, name: str, words: Sequence[Word]) -> None:
        """Takes the next word as a value; one that may be several words makes it unknown what follows."""
        if self.at < len(words):
            self.lost |= words[self.at].splits
            self.values[name] = words[self.at]
            self.at += 1


def scan_options(words: Sequence[Word], options: Options, *, mixed: bool = False) -> Scan:
    """Reads options from the second word on, up to the first operand (with ``mixed``: all of them)."""
    scan = Scan(1, values={})
    while scan.at < len(words):
        word = words[scan.at]
        text = word.text
        if text is None:
            first = word.segments[0]
            if isinstance(first, str) and (mixed or first.startswith("-")):
                scan.lost |= first.startswith("-")
                scan.at += 1
                continue
            scan.unsure = isinstance(first, Unknown)
            return scan
        if text == "--" or (text == "-" and options.shell):
            scan.at += 1
            return scan
        if not text.startswith("-") and not (text.startswith("+") and options.shell):
            if not mixed:
                return scan
            scan.at += 1
        elif text.startswith("--"):
            _long(scan, words, options)
        elif text == "-" and not mixed:
            return scan
        else:
            _short(scan, words, options)
    return scan


def _long(scan: Scan, words: Sequence[Word], options: Options) -> None:
    text = words[scan.at].text or ""
    name, equals, value = text.partition("=")
    scan.at += 1
    full = next((long for long in sorted(options.long) if long.startswith(name)), None) if len(name) > 2 else None
    scan.names += (full or name,)
    if full is None:
        return
    if equals:
        scan.values[full] = Word(value, (value,))
    else:
        scan.value(full, words)


def _short(scan: Scan, words: Sequence[Word], options: Options) -> None:
    letters = (words[scan.at].text or "")[1:]
    scan.at += 1
    for position, letter in enumerate(letters):
        scan.letters += letter
        if letter in options.short:
            rest = letters[position + 1 :]
            if rest and not options.shell:
                scan.values[letter] = Word(rest, (rest,))
                return
            scan.value(letter, words)
            if not options.shell:
                return
