"""search: what an expression may cost is known before it is tried (tools.md §3.6, H13)."""

from __future__ import annotations

import time

import pytest

from a3s_code.ports.tool import ToolFailure
from a3s_code.tools.search.regex import Expression


def test_ordinary_patterns_run_here() -> None:
    """What people write is bounded well enough for ordinary lines; what can explode is not tried at all."""
    for query in ("needle", r"def \w+\(", r"import .*json", r"TODO|FIXME|XXX", r"^\s*class\s+\w+", r"\d{3,5}-\d+"):
        assert Expression(query, False).max_line >= 80, query
    for query in ("(a+)+", "(a|bc)*d", r"(\w+\s?)*x", "(.*){3,}", "(a?){40}a{40}"):
        assert Expression(query, False).max_line == 0, query


def test_a_needed_literal_is_known() -> None:
    """The longest text that a match can't do without is looked for first."""
    literals = {
        r"def \w+\(self": b"(self",
        "foo|fob": b"fo",
        "a?bc": b"bc",
        "(?i)abc": b"",
        "x\ufffd": b"",
        "北+京都": "京都".encode(),
    }
    for query, literal in literals.items():
        assert Expression(query, False).literal == literal, query


def test_failures_are_the_ports_own() -> None:
    """What a search raises is what the kernel reports by its kind."""
    with pytest.raises(ToolFailure, match="bad pattern"):
        Expression("(", False)


@pytest.mark.parametrize(
    ("query", "letters"),
    [
        (".*x", "a"),
        (".* *x", " "),
        (r"\s*\s*x", " "),
        (r"^\s*class\s+\w+", " "),
        (r'"[^"]*"[^"]*"z', '"'),
        ("a?a?a?a?a?aaaaab", "a"),
        ("a{1,50}b{0,20}c", "a"),
        (".*a{100}", "a"),
        ("(?:ab|a)c", "a"),
        (r"(a*)\1b", "a"),
        ("a*(?=b)", "a"),
        ("(?>a*)b", "a"),
    ],
)
def test_the_longest_line_tried_here_is_quick(query: str, letters: str) -> None:
    """The bound is one: a hostile line of the longest allowed length is done in a fraction of a second."""
    expression = Expression(query, False)
    line = letters * min(expression.max_line, 200_000)
    started = time.process_time()
    expression.search(line)
    assert time.process_time() - started < 0.4
