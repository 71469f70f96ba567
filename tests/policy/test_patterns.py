"""Patterns of rules: the quick way and the thorough one agree, and no text makes either take forever."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from a3s_code.core.policy.glob import ANY, Pattern

SOURCES = st.text("aab/** :", max_size=8) | st.text("a*/", max_size=6).map(lambda text: text + ":*")


def meaning(source: str, crossing: bool) -> str:
    """The pattern as tools.md §5.2 puts it, as a regular expression that tries every way."""
    prefix = source.endswith(":*")
    wild = {"**/": "(?:.*/)?", "**": ".*", "*": ".*" if crossing else "[^/]*"}
    parts = re.findall(r"\*\*/|\*\*|\*|[^*]", source[:-2] if prefix else source)
    return "".join(wild.get(part) or re.escape(part) for part in parts) + (r"(?:[ \t\n].*)?" if prefix else "")


@given(SOURCES, st.booleans(), st.text("aab/ \n", max_size=9))
def test_a_pattern_means_what_the_chapter_says(source: str, crossing: bool, text: str) -> None:
    """Whatever wildcards are combined, a text matches if some way through the pattern does; so does a text whose parts
    are all known."""
    matches = re.fullmatch(meaning(source, crossing), text, re.DOTALL) is not None
    pattern = Pattern(source, crossing=crossing)
    assert pattern.matches(text) == matches
    assert pattern.must((text,)) == matches


def test_a_directory_wildcard_takes_whole_directories() -> None:
    """Text that a ``**/`` has begun to take is never left without its slash, also before an unknown part."""
    pattern = Pattern("**/lint*", crossing=True)
    assert pattern.must(("bin/lint ", ANY))
    assert not pattern.must(("evil lint ", ANY))


@pytest.mark.parametrize(
    ("source", "crossing"), [("*a" * 20 + "b", True), ("*a*a*a*b", False), ("**/a*a**a/*b", False)]
)
def test_no_text_makes_a_pattern_try_forever(source: str, crossing: bool) -> None:
    """A long text that nearly matches in very many ways is refused all the same; trying them all would take years."""
    pattern = Pattern(source, crossing=crossing)
    assert not pattern.matches("a" * 20_000)
    assert not pattern.matches("a/" * 10_000)
