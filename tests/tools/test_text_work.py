"""Pure work on text: encodings, cuts, matches and diffs hold for any content."""

from __future__ import annotations

import codecs
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from a3s_code.core.text import clip, edit
from a3s_code.core.text.change import Before, file_change
from a3s_code.core.text.diff import Diff
from a3s_code.core.text.encoding import (
    count_lines,
    decode,
    encode,
    is_binary,
    newline_kind,
    shown,
    split_lines,
)

MARKS = st.sampled_from(
    [b"", codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE]
)


@given(bom=MARKS, body=st.binary(max_size=60))
def test_any_bytes_survive_decoding_and_encoding(bom: bytes, body: bytes) -> None:
    """Whatever a file holds, what is decoded from it is written back byte for byte, or said to be inexact."""
    data = bom + body
    decoded = decode(data)
    if decoded.exact:
        assert encode(decoded.text, decoded) == data
    else:
        assert decoded.encoding.startswith("utf-32")
    assert shown(decoded.text).encode("utf-8").decode("utf-8") == shown(decoded.text)


@given(text=st.text(), encoding=st.sampled_from(["utf-8", "utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"]))
def test_text_with_a_mark_is_decoded_by_it(text: str, encoding: str) -> None:
    """The BOM decides the encoding and is no part of the text."""
    data = codecs.BOM_UTF8 if encoding == "utf-8" else "\ufeff".encode(encoding)
    decoded = decode(data + text.encode(encoding))
    if encoding == "utf-16-le" and text.startswith("\0"):
        assert decoded.encoding == "utf-32-le"  # the two can't be told apart
        return
    assert (decoded.text, decoded.encoding, decoded.bom, decoded.lossy) == (text, encoding, data, False)


@pytest.mark.parametrize(
    ("text", "kind", "lines"),
    [
        ("", "none", 0),
        ("a", "none", 1),
        ("a\rb", "none", 1),
        ("a\n", "lf", 1),
        ("a\r\nb", "crlf", 2),
        ("a\r\nb\n", "mixed", 2),
        ("a\x0bb\x0c\x85\u2028c\n", "lf", 1),
    ],
)
def test_lines_end_at_newline_only(text: str, kind: str, lines: int) -> None:
    """Nothing but ``\\n`` ends a line, and the kind of terminators is named."""
    assert newline_kind(text) == kind
    assert count_lines(text) == len(split_lines(text)) == lines
    assert "".join(split_lines(text)) == text


def test_binary_content_is_told_from_wide_text() -> None:
    """A NUL within 8 KiB makes a file binary unless a UTF-16 or UTF-32 BOM explains it."""
    assert is_binary(b"a\0b")
    assert is_binary(codecs.BOM_UTF8 + b"a\0b")
    assert not is_binary("\ufeffab".encode("utf-16-le"))
    assert not is_binary(b"a" * 8192 + b"\0")


@given(text=st.text(max_size=80), head=st.integers(0, 30), tail=st.integers(0, 30))
def test_a_cut_keeps_whole_characters_and_counts_the_rest(text: str, head: int, tail: int) -> None:
    """Head and tail are pieces of the text within their sizes, and the marker has the exact number between them."""
    data = text.encode()
    clipped = clip.clip_head_tail(text, head, tail)
    assert clipped.total == len(data)
    assert not clipped.lossy
    if len(data) <= head + tail:
        assert (clipped.text, clipped.omitted) == (text, 0)
        return
    first, second = clipped.text.split(clip.marker(clipped.omitted), 1)
    start, end = first.removesuffix("\n"), second.removeprefix("\n")
    assert text.startswith((first, start))
    assert text.endswith(end)
    sizes = {len(first.encode()), len(start.encode())}
    assert any(size + len(end.encode()) + clipped.omitted == len(data) for size in sizes)
    assert min(sizes) <= head
    assert len(end.encode()) <= tail


def test_the_marker_stands_on_its_own_line() -> None:
    """The marker is the one of the specification, also with a note and without a tail."""
    assert clip.clip_head_tail("abcdef", 2, 2).text == "ab\n[… 2 bytes omitted …]\nef"
    assert clip.clip_head_tail("a\nbcde", 2, 0, "full output: u").text == "a\n[… 4 bytes omitted; full output: u …]"
    assert clip.clip_head_tail("aé", 2, 0).text == "a\n[… 2 bytes omitted …]"
    assert clip.join_head_tail(b"ab", b"yz", 10).text == "ab\n[… 6 bytes omitted …]\nyz"


def test_undecodable_output_is_flagged() -> None:
    """Bytes that are not UTF-8 are shown as U+FFFD and the result says so."""
    assert clip.clip_head_tail(b"\xff\xfe", 10, 10) == clip.Clipped("\ufffd\ufffd", 2, 0, True)


@pytest.mark.parametrize(
    ("text", "old", "new", "result"),
    [
        ("a\r\nb\r\n", "a", "x", "x\r\nb\r\n"),
        ("a\r\nb\r\n", "a\nb", "x\ny\nz", "x\r\ny\r\nz\r\n"),
        ("a\r\nb\r\n", "a", "x\ny", "x\r\ny\r\nb\r\n"),
        ("a\nb\r\nc", "c", "x\ny", "a\nb\r\nx\r\ny"),
        ("a\nb\r\nc\n", "a\nb\nc", "1\n2", "1\n2\n"),
        ("x\r\na\nb\n", "a\nb", "1\r\n2", "x\r\n1\r\n2\n"),
        ("a\r\nfoo\r\nb", "\nfoo", "", "a\r\nb"),
        ("a\r\nfoo\r\nb", "\nfoo", "\nbar", "a\r\nbar\r\nb"),
        ("a\nb\n", "a\r\nb", "x\r\ny", "x\ny\n"),
        ("a\rb\n", "a\rb", "c", "c\n"),
        ("aaa", "aa", "b", "ba"),
        ("a\r\nb\r\n", "a\r\n", "a\n", "a\nb\r\n"),
    ],
)
def test_replacing_respects_terminators(text: str, old: str, new: str, result: str) -> None:
    """LF arguments work on CRLF text, new lines take the terminator of their place, exact ones stay exact."""
    assert edit.replace(text, old, new, edit.find(text, old)) == result


PIECES = st.lists(st.sampled_from(["a", "b", "\n", "\r\n", "\r", "é"]), max_size=12).map("".join)


@given(before=PIECES, old=PIECES.filter(bool), after=PIECES, new=PIECES)
def test_an_edit_touches_the_regions_only(before: str, old: str, after: str, new: str) -> None:
    """Every match is found, each equals the old text up to terminators, and all between them stays."""
    assume(not (before.endswith("\r") and old.startswith("\n")))  # a match never cuts a terminator in two
    assume(not (old.endswith("\r") and after.startswith("\n")))
    text = before + old + after
    found = edit.find(text, old)
    assert found.regions
    kept, end = [], 0
    for start, stop in found.regions:
        assert start >= end
        assert text[start:stop].replace("\r\n", "\n") == old.replace("\r\n", "\n")
        kept.append(re.escape(text[end:start]))
        end = stop
    plain = new.replace("\r\n", "\n")
    inserted = "|".join(map(re.escape, (new, plain, plain.replace("\n", "\r\n"))))
    expected = f"(?:{inserted})".join([*kept, re.escape(text[end:])])
    assert re.fullmatch(expected, edit.replace(text, old, new, found))


def test_the_most_similar_region_is_shown() -> None:
    """A near miss is found with its line number; something unlike everything is not."""
    text = "import os\n\n\ndef area(width, height):\n    return width * height\n\n\nprint(area(2, 3))\n"
    old = "def area(width, hight):\n    return width*height\n"
    assert edit.most_similar(text, old) == (4, ["def area(width, height):", "    return width * height"])
    assert edit.most_similar(text, "class Completely:\n    different = 'thing'\n") is None
    assert edit.most_similar("", "x") is None


def test_similarity_stays_cheap_where_text_repeats() -> None:
    """A long line of the same few characters is compared too, and found alike."""
    found = edit.most_similar("ab " * 100_000, "ba " * 5_000)
    assert found is not None
    assert found[0] == 1


def test_a_long_region_shows_five_lines() -> None:
    """However long the old text is, at most five lines are shown."""
    lines = [f"line number {n}" for n in range(20)]
    found = edit.most_similar("\n".join(["first", *lines]), "\n".join([*lines[:9], "line number nine"]))
    assert found == (2, lines[:5])


LINES = st.lists(st.sampled_from(["a", "b", "c\r", "", "dd"]), max_size=40)


@given(old=LINES, new=LINES, old_end=st.booleans(), new_end=st.booleans())
def test_a_diff_is_right(old: list[str], new: list[str], old_end: bool, new_end: bool) -> None:
    """It turns the old text into the new one, and the counts are those of its lines."""
    before = "\n".join(old) + ("\n" if old_end and old else "")
    after = "\n".join(new) + ("\n" if new_end and new else "")
    diff = Diff(before, after, "f")
    text, cut = diff.text(10_000, 1_000_000)
    assert not cut
    body = text.split("\n")[2:]
    assert diff.added == sum(line.startswith("+") for line in body)
    assert diff.removed == sum(line.startswith("-") for line in body)
    assert (text == "") == (before == after)
    assert _apply(before, text) == after


def _apply(before: str, diff: str) -> str:
    """The new side of ``diff``, checked against the old text line by line."""
    source, result, at = split_lines(before), [], 0
    lines = diff.split("\n")[2:]
    for number, line in enumerate(lines):
        ended = "" if number + 1 < len(lines) and lines[number + 1].startswith("\\") else "\n"
        if line.startswith("@@"):
            start, _, count = line.split()[1][1:].partition(",")
            begin = int(start) - (count != "0")
            result += source[at:begin]
            at = begin
        elif line.startswith("+"):
            result.append(line[1:] + ended)
        elif line.startswith((" ", "-")):
            assert source[at] == line[1:] + ended
            at += 1
            if line.startswith(" "):
                result.append(line[1:] + ended)
    return "".join(result + source[at:])


@pytest.mark.skipif(shutil.which("patch") is None, reason="needs the program patch")
def test_a_diff_is_understood_by_patch(tmp_path: Path) -> None:
    """The usual program applies a diff with several hunks and a missing last newline."""
    before = "".join(f"line {n}\n" for n in range(100)) + "last"
    after = before.replace("line 3\n", "three\n3\n").replace("line 50\n", "").replace("last", "last\nmore\n")
    (tmp_path / "f").write_text(before)
    (tmp_path / "p").write_text(Diff(before, after, "f").text(1000, 100_000)[0] + "\n")
    subprocess.run(["patch", "-s", str(tmp_path / "f"), str(tmp_path / "p")], check=True)
    assert (tmp_path / "f").read_text() == after


def test_a_diff_finds_scattered_changes_in_a_long_file() -> None:
    """Many changes far apart are told from the lines between them."""
    before = "".join(f"line {n}\n" for n in range(20_000))
    after = "".join(f"line {n}\n" if n % 10 else f"changed {n}\n" for n in range(20_000))
    diff = Diff(before, after, "f")
    assert (diff.added, diff.removed) == (2000, 2000)


def test_a_diff_is_bounded_and_says_so() -> None:
    """Lines and bytes are bounded; the last line then tells the whole size."""
    before, after = "a\n" * 500, "b\n" * 400
    text, cut = Diff(before, after, "f").text(200, 100_000)
    assert cut
    assert len(text.split("\n")) == 201
    assert text.endswith("\n[diff cut after 200 lines; +400 -500 lines in all]")
    text, cut = Diff(before, "x" * 100_000, "f").text(200, 1000)
    assert cut
    assert len(text.encode()) < 1100


def test_a_file_change_keeps_small_files_whole() -> None:
    """Up to 8 KiB on both sides the texts are there, and the diff is."""
    change = file_change("f", Before.of(b"a\nb\n"), b"a\nc\n").metadata
    assert change["operation"] == "update"
    assert (change["before"], change["after"], change["added"], change["removed"]) == ("a\nb\n", "a\nc\n", 1, 1)
    assert change["diff"] == "--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n a\n-b\n+c"
    created = file_change("f", None, b"a\n").metadata
    assert (created["operation"], created["before_sha256"], created["before_bytes"]) == ("create", None, 0)
    assert "before" not in created


def test_a_file_change_bounds_long_and_binary_files() -> None:
    """Beyond it there are previews of 2 KiB and a diff of 32 KiB; a binary side has no text and no diff."""
    change = file_change("f", Before.of(b"\xc3\xa9" * 5000), b"line\n" * 50_000).metadata
    for side in ("before", "after"):
        preview = change[side]
        assert isinstance(preview, str)
        assert 2000 < len(preview.encode()) <= 2048
    assert isinstance(change["diff"], str)
    assert len(change["diff"].encode()) <= 32 * 1024
    assert change["diff_truncated"] is True
    binary = file_change("f", Before.of(b"\0\1"), b"text\n").metadata
    assert (binary["diff"], "before" in binary, binary["after"]) == ("", False, "text\n")
