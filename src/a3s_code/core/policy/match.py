"""Rules against the layers of a command (tools.md §5.4, 5 to 8). In: rules, parts of a line. Out: what they say.

One rule: deny and ask look at every text of every layer, allow only at what was written.
Known weakness: none known.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import Literal

from a3s_code.core.policy.glob import ANY, Text
from a3s_code.core.policy.rules import Rule, normal_path
from a3s_code.core.policy.shell import Layer, Part, Target

Match = Literal["must", "could", "no"]


class Cover(IntEnum):
    """How far allow rules cover a part; the least of several counts, ``NEUTRAL`` leaves it to the others."""

    UNCOVERED = 0
    COVERED = 1
    NEUTRAL = 2


def restricts(rule: Rule, layers: Iterable[Layer]) -> tuple[Match, str]:
    """Whether a deny or ask rule matches, and the text it matches."""
    if rule.universal:
        return "must", ""
    pattern, form = rule.shell(), rule.flags()
    possible: list[str] = []
    for layer in layers:
        for text in layer.fixed:
            if pattern.matches(text):
                return "must", text
        for unknown in layer.open:
            if pattern.could(unknown):
                if pattern.must(unknown):
                    return "must", layer.shown
                possible.append(layer.shown)
        if form is not None and layer.words:
            found = form.found(layer.words)
            if found == "must":
                return "must", layer.shown
            if found == "could":
                possible.append(layer.shown)
    return ("could", possible[0]) if possible else ("no", "")


def cover(part: Part, rules: Sequence[Rule], *, trusted: bool) -> Cover:
    """``trusted`` says that no variable was given to the line that could change what its commands do."""
    if part.neutral:
        return Cover.NEUTRAL
    if any(rule.universal for rule in rules):
        return Cover.COVERED
    if not trusted:
        return Cover.UNCOVERED
    if not part.inner:
        return Cover.COVERED if _covered(part.layer, rules, 0) else Cover.UNCOVERED
    if _covered(part.layer, rules, 1):
        return Cover.COVERED
    inside = min(cover(inner, rules, trusted=trusted) for inner in part.inner)
    if part.transparent or inside is Cover.UNCOVERED:
        return inside
    return Cover.COVERED if _covered(part.layer, rules, 0) else Cover.UNCOVERED


def _covered(layer: Layer, rules: Sequence[Rule], past_program: int) -> bool:
    """With ``past_program`` only by a pattern whose literal head names the innermost program as well."""
    for rule in rules:
        pattern = rule.shell()
        for text, program_end in layer.allow:
            if past_program and len(pattern.head) < program_end:
                continue
            if pattern.matches(text):
                return True
    return False


def covering_rule(part: Part, rules: Sequence[Rule]) -> Rule | None:
    """The first allow rule that has to do with a covered part, for those who ask why."""
    for layer in part.layers():
        for rule in rules:
            if rule.universal or _covered(layer, (rule,), 0):
                return rule
    return None


class Places:
    """The paths that a redirection may write to."""

    def __init__(self, target: Target, directories: Sequence[str | None], cwd: str, root: str | None) -> None:
        self.paths: list[str] = []
        self.open: list[Text] = []
        for directory in directories:
            if target.path is not None and target.path.startswith("/"):
                self.paths = [normal_path(target.path, root)]
                return
            if directory is None:
                self.open.append((ANY, "/", *target.open))
            elif target.path is None:
                self.open.append(_below(posixpath.join(cwd, directory), target.open))
            else:
                self.paths.append(normal_path(posixpath.join(cwd, directory, target.path), root))


def _below(directory: str, target: Text) -> Text:
    front = posixpath.normpath(directory)
    whole = target if front == "." or target[:1] == (ANY,) else (front + "/", *target)
    first = whole[0]
    return (first.removeprefix("./"), *whole[1:]) if isinstance(first, str) else whole


def restricts_write(rule: Rule, places: Places) -> Match:
    """Path-specific rules only: one on the whole tool ``write`` says nothing about ``bash``."""
    if rule.universal:
        return "no"
    pattern = rule.path()
    if any(pattern.matches(path) for path in places.paths) or any(pattern.must(text) for text in places.open):
        return "must"
    return "could" if any(pattern.could(text) for text in places.open) else "no"


def covers_write(rule: Rule, places: Places) -> bool:
    return not places.open and all(rule.universal or rule.path().matches(path) for path in places.paths)
