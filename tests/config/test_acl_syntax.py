"""The ACL language: what it takes, and where its errors point."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from a3s_code.config.parser import MAX_DEPTH, parse
from a3s_code.config.secret import EnvVar
from a3s_code.config.source import Source
from a3s_code.config.tree import plain
from a3s_code.errors import ConfigError


def tree(text: str) -> object:
    return plain(parse(Source("a.acl", text)))


def fault(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        tree(text)
    return str(caught.value)


def test_attributes_lists_objects_and_values() -> None:
    """Every kind of value comes out as the Python value it stands for."""
    text = """
    s = "x"   # a comment
    i = -3    // another
    f = 2.5e2 /* and
                 a third */
    yes = true, no = false, none = null
    list = [1, "two", [3],]
    object = { "X-Team" = "core", b: 2, c = { d = 1 } }
    """
    assert tree(text) == {
        "s": "x",
        "i": -3,
        "f": 250.0,
        "yes": True,
        "no": False,
        "none": None,
        "list": [1, "two", [3]],
        "object": {"X-Team": "core", "b": 2, "c": {"d": 1}},
    }


def test_labelled_blocks_gather_by_label() -> None:
    """Blocks of one name become a mapping by label, in the order of the text."""
    text = 'p "b" { x = 1 }\np "a" { m "n" { y = 2 } }\np c { }'
    assert tree(text) == {"p": {"b": {"x": 1}, "a": {"m": {"n": {"y": 2}}}, "c": {}}}
    assert list(parse(Source("a.acl", text)).entries["p"].value.entries) == ["b", "a", "c"]  # type: ignore[union-attr]  # it is a table


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (r'"a\n\t\r\b\f\"\\\/"', 'a\n\t\r\b\f"\\/'),
        (r'"\u00e9\ud83d\ude00"', "é😀"),
        ('"tab\there ${x} 日本"', "tab\there ${x} 日本"),
    ],
)
def test_string_escapes(written: str, meant: str) -> None:
    """Escapes stand for their characters, surrogate pairs for one, everything else for itself."""
    assert tree(f"a = {written}") == {"a": meant}


def test_env_is_kept_and_not_looked_up() -> None:
    """``env()`` parses to the variable's name and default, whatever the environment holds."""
    assert tree('a = env("NO_SUCH_VARIABLE")\nb = [env("B", "x")]') == {
        "a": EnvVar("NO_SUCH_VARIABLE"),
        "b": [EnvVar("B", "x")],
    }


def test_line_ends_of_other_systems() -> None:
    """CRLF separates entries like LF and is no part of the line that an error shows."""
    assert tree("a = 1\r\nb = 2\r\n") == {"a": 1, "b": 2}
    assert fault("a = 1\r\nb = ]\r\n") == "a.acl:2:5: b: expected a value, found ']'\n  2 | b = ]\n    |     ^"


@pytest.mark.parametrize(
    ("text", "line", "column", "message"),
    [
        ("a = 1 b = 2", 1, 7, "expected a line break or ',', found a bare word"),
        ("a = [1\n2]", 2, 1, "a: expected ',' or ']', found a number"),
        ("a =", 1, 4, "a: expected a value, found the end of the text"),
        ("a = hello", 1, 5, "a: expected a value; text stands in double quotes, found a bare word"),
        ("a 5", 1, 3, "a: expected '=' and a value, or '{', found a number"),
        ('a "b" = 5', 1, 7, "a: expected '{' after the label, found '='"),
        ("b {\n  a = 1", 2, 8, "b: expected '}', found the end of the text"),
        ("a = 1\n}", 2, 1, "expected a key, found '}'"),
        ("= 1", 1, 1, "expected a key, found '='"),
        ('a = "x\nb = 1', 1, 5, 'a: this string has no end: expected " on the same line'),
        ('a = "x', 1, 5, 'a: this string has no end: expected " on the same line'),
        ("a = 'x'", 1, 5, 'a: strings stand in double quotes: "…"'),
        ("a = <<EOF\nx\nEOF", 1, 5, 'a: heredocs are not known here: write a string "…" with \\n in it'),
        ("a = 1 /* never", 1, 7, "a: this comment has no end: expected */"),
        ('a = "\\q"', 1, 6, 'a: expected one of \\" \\\\ \\/ \\n \\t \\r \\b \\f \\uXXXX'),
        ('a = "\\u12"', 1, 6, "a: expected four hexadecimal digits after \\u"),
        ('a = "\\ud800"', 1, 6, "a: this escape stands for no character"),
        ('a = "\\u0000"', 1, 6, "a: this escape stands for no character"),
        ('a = "\x00"', 1, 6, "a: the character U+0000 can't stand in a string as it is"),
        ('a = "\ud800"', 1, 6, "a: the character U+D800 can't stand in a string as it is"),
        ("a = 1\u00a0", 1, 6, "a: expected a key, a value or a sign, found the character U+00A0"),
        ("a = 007", 1, 5, "a: expected a number such as 12, -3 or 2.5e6"),
        ("a = 12kb", 1, 5, "a: expected a number such as 12, -3 or 2.5e6"),
        ("a = 1e999", 1, 5, "a: this number is too large"),
        ("a = " + "9" * 5000, 1, 5, "a: a number has at most 40 digits"),
        ("a = 1\nb = 1\na = 1", 3, 1, "a: set twice, first on line 1"),
        ('p "x" {}\np "x" {}', 2, 3, "p: set twice, first on line 1"),
        ('p = 1\np "x" {}', 2, 1, "p: set twice, first on line 1"),
        ('p "x" {}\np = 1', 2, 1, "p: set twice, first on line 1"),
        ("m {}\nm {}", 2, 1, "m: set twice, first on line 1"),
        ("a = env(X)", 1, 9, 'a: expected the name of a variable: env("NAME"), found a bare word'),
        ('a = env("X", 1)', 1, 14, 'a: expected the default as a string: env("NAME", "default"), found a number'),
        ('a = env "X"', 1, 9, "a: expected '(' after env, found a string"),
        ('{"a": 1}', 1, 1, "this is JSON, not ACL: pass it parsed to create_from_config"),
        ("a = " + "[" * 5000, 1, 69, f"nested more than {MAX_DEPTH} deep"),
        ("a { " * 5000, 1, 259, f"nested more than {MAX_DEPTH} deep"),
    ],
)
def test_errors_say_where_and_what_was_expected(text: str, line: int, column: int, message: str) -> None:
    """An error has file, line, column and what was expected, and shows the line with a caret under the place."""
    head, shown, caret = fault(text).split("\n")
    assert head == f"a.acl:{line}:{column}: {message}"
    assert shown.startswith(f"  {line} | ")
    assert re.fullmatch(r" +\| +\^", caret)
    if len(text.split("\n")[line - 1]) <= 120:
        assert caret.index("^") == len(f"  {line} | ") + column - 1


def test_the_line_shown_is_safe_for_a_terminal() -> None:
    """A shown line has no control characters and is cut around the caret when it is long."""
    message = fault("a = \x1b[31m")
    assert "\x1b" not in message
    long = fault("x = [" + "1, " * 100 + "}" + ", 2" * 100)
    shown, caret = long.split("\n")[1:]
    assert len(shown) < 140
    assert shown[caret.index("^")] == "}"


SIGNS = ["=", "{", "}", "[", "]", "(", ")", ":", ",", "\n", " ", '"', "\\", "#", "//", "/*", "*/", "env", "env("]
SIGNS += ["true", "a", "b1", '"x"', "1", "-1.5", "1e9", "é", "'", "\r\n", "\t", "\x00", "\\u00", "providers", "models"]
SOUP = st.lists(st.sampled_from(SIGNS), max_size=40).map("".join) | st.text(max_size=80)


@given(SOUP)
def test_any_text_parses_or_fails_with_a_place_in_it(text: str) -> None:
    """Whatever the text, the outcome is a tree or a ``ConfigError`` whose place lies inside the text."""
    try:
        parse(Source("a.acl", text))
    except ConfigError as error:
        match = re.match(r"a\.acl:(\d+):(\d+): ", str(error))
        assert match is not None
        lines = text.split("\n")
        line, column = int(match[1]), int(match[2])
        assert 1 <= line <= len(lines)
        assert 1 <= column <= len(lines[line - 1]) + 1


KEY = st.from_regex(r"[A-Za-z_][A-Za-z0-9_-]{0,6}", fullmatch=True)
TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8)
LEAF = TEXT | st.integers(-(10**12), 10**12) | st.booleans() | st.none() | st.floats(-1e9, 1e9, allow_subnormal=False)
VALUE = st.recursive(LEAF, lambda v: st.lists(v, max_size=3) | st.dictionaries(TEXT, v, max_size=3), max_leaves=8)


def written(value: object) -> str:
    match value:
        case bool():
            return str(value).lower()
        case None:
            return "null"
        case str():
            return (
                '"'
                + "".join(f"\\u{ord(c):04x}" if c in '"\\' or ord(c) < 32 or c == "\x7f" else c for c in value)
                + '"'
            )
        case float():
            return repr(value)
        case list():
            return "[" + ", ".join(map(written, value)) + "]"
        case dict():
            return "{ " + ", ".join(f"{written(k)} = {written(v)}" for k, v in value.items()) + " }"
    return str(value)


@given(st.dictionaries(KEY, VALUE, max_size=4), st.sampled_from(["\n", ", ", "\r\n", ",\n# c\n", " /* c */\n"]))
def test_what_is_written_is_what_is_read(value: dict[str, object], separator: str) -> None:
    """A tree written out as ACL reads back as the same tree, whatever separates its entries."""
    assert tree(separator.join(f"{key} = {written(inner)}" for key, inner in value.items())) == value
