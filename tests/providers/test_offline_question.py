"""A prompt is understood by rules: its kind, the words that matter, the paths it names."""

from __future__ import annotations

import re

import pytest

from a3s_code.providers.offline_question import understand


@pytest.mark.parametrize(
    ("prompt", "kind"),
    [
        ("Summarise this repository", "summary"),
        ("summarize", "summary"),
        ("What does this project do?", "summary"),
        ("give me an overview of the architecture", "summary"),
        ("", "summary"),
        ("find TODOs", "todos"),
        ("list every FIXME in the code", "todos"),
        ("what changed lately?", "changes"),
        ("show the last commits", "changes"),
        ("What's new?", "changes"),
        ("how do I run the tests?", "tests"),
        ("what is the test command", "tests"),
        ("are there bugs?", "problems"),
        ("where is parse_config?", "where"),
        ("where is the retry delay computed", "where"),
        ("how does SessionStore work?", "where"),
        ("What is new in ReportWriter.render?", "where"),
        ("explain src/app/main.py", "file"),
        ("retry backoff jitter", "mixed"),
        ("hello", "about"),
        ("who are you?", "about"),
    ],
)
def test_kinds(prompt: str, kind: str) -> None:
    """The questions that the chapter names, and their neighbours, are told apart."""
    assert understand(prompt).kind == kind


def test_names_come_before_words_and_stop_words_are_left_out() -> None:
    """Quoted text and identifiers are exact; of ``Store.get_all`` the last part is searched for."""
    terms = understand('where does the loader use "max size", Store.get_all and retries?').terms
    assert [(term.text, term.exact) for term in terms] == [
        ("max size", True),
        ("get_all", True),
        ("loader", False),
        ("retries", False),
    ]


@pytest.mark.parametrize(
    ("word", "others"),
    [
        ("retries", ["retry", "retried"]),
        ("saved", ["save", "saving"]),
        ("parsing", ["parse", "parser"]),
        ("caches", ["cache"]),
    ],
)
def test_other_forms_of_a_word_are_found(word: str, others: list[str]) -> None:
    """A question says "saved" where the code says "save"."""
    (term,) = understand(f"where {word}").terms
    assert all(re.match(term.pattern, other) for other in others)


def test_a_capitalised_word_beside_class_is_a_name() -> None:
    """``Lexer class`` asks for that class, not for words like it."""
    terms = understand("where is the pygments Lexer class?").terms
    assert [(term.text, term.exact) for term in terms] == [("Lexer", True), ("pygments", False)]


def test_odd_prompts_are_understood_as_something() -> None:
    """Regex characters, other scripts and endless text must neither fail nor take long."""
    for prompt in ("(((", "`[a-`", "北京在哪里", "x" * 20_000, "a/" * 5000, "'" * 999, "\x00\ud800"):
        assert understand(prompt).kind
    (term,) = understand("where is `a.b(c)[`").terms
    assert re.search(term.pattern, "x = a.b(c)[0]")
