"""The tools ``write``, ``edit`` and ``ls`` (tools.md §3.2, §3.3, §3.5, §4.7; cases F07, F09, F10, E08)."""

from __future__ import annotations

import codecs
import os
import threading
from pathlib import Path
from typing import Any

import pytest
from filetools import context, failing, names, refused, run
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from a3s_code.core.text.encoding import decode
from a3s_code.ports.tool import ToolFailure
from a3s_code.ports.workspace import Place
from a3s_code.tools.edit import EditTool
from a3s_code.tools.ls import LsTool
from a3s_code.tools.write import WriteTool
from a3s_code.workspace.local import LocalWorkspace

WRITE, EDIT, LS = WriteTool(), EditTool(), LsTool()


def test_write_says_what_it_did(tmp_path: Path) -> None:
    """A file is created with its parents, updated, or left alone when it has the content already."""
    created = run(WRITE, tmp_path, file_path="a/b/f", content="one\ntwo")
    assert created.output == "Created a/b/f (2 lines, 7 bytes)"
    updated = run(WRITE, tmp_path, file_path="a/b/f", content="é\n")
    assert updated.output == "Updated a/b/f (1 lines, 3 bytes)"
    inode = (tmp_path / "a/b/f").stat().st_ino
    unchanged = run(WRITE, tmp_path, file_path="a/b/f", content="é\n")
    assert unchanged.output == "Unchanged a/b/f (1 lines, 3 bytes)"
    assert (tmp_path / "a/b/f").stat().st_ino == inode
    told = [(r.metadata["created"], r.metadata["unchanged"]) for r in (created, updated, unchanged)]
    assert told == [(True, False), (False, False), (False, True)]
    change: Any = updated.metadata["file_change"]
    assert (change["operation"], change["before"], change["after"]) == ("update", "one\ntwo", "é\n")


@given(content=st.text(st.characters(exclude_categories=["Cs"]), max_size=40))
def test_write_converts_nothing(tmp_path_factory: pytest.TempPathFactory, content: str) -> None:
    """The file holds exactly the content as UTF-8, without BOM, whatever its line ends."""
    root = tmp_path_factory.mktemp("write")
    run(WRITE, root, file_path="f", content=content)
    assert (root / "f").read_bytes() == content.encode()


def test_write_over_a_binary_or_huge_file_works(tmp_path: Path) -> None:
    """What a file held is described as far as it can be, and never hinders."""
    (tmp_path / "bin").write_bytes(b"\0\1\2")
    with open(tmp_path / "huge", "wb") as huge:
        huge.truncate(11 * 1024 * 1024)
    for name in ("bin", "huge"):
        change: Any = run(WRITE, tmp_path, file_path=name, content="text\n").metadata["file_change"]
        assert (change["diff"], change["after_bytes"]) == ("", 5)
        assert (tmp_path / name).read_text() == "text\n"
    assert change["before_bytes"] == 11 * 1024 * 1024


def test_write_refuses_what_it_can_not_write(tmp_path: Path) -> None:
    """Directories, paths outside, read-only files, too long or unencodable contents leave everything as it was."""
    root = tmp_path / "ws"
    (root / "d").mkdir(parents=True)
    (root / "fixed").write_bytes(b"old")
    os.chmod(root / "fixed", 0o444)
    (root / "out").symlink_to("..")
    before = names(tmp_path)
    assert failing(WRITE, root, file_path="d", content="x").kind == "unsupported"
    assert failing(WRITE, root, file_path="fixed", content="x").kind == "unsupported"
    assert failing(WRITE, root, file_path="fixed/x", content="x").kind == "unsupported"
    assert failing(WRITE, root, file_path="out/x", content="x").kind == "path_denied"
    assert failing(WRITE, root, file_path="../x", content="x").kind == "path_denied"
    assert failing(WRITE, root, file_path="big", content="é" * (5 * 1024 * 1024 + 1)).kind == "limit_exceeded"
    with pytest.raises(ToolFailure) as caught:
        WRITE.execute({"file_path": "f", "content": "\ud83d"}, context(LocalWorkspace(str(root))))
    assert caught.value.kind == "invalid_argument"
    assert names(tmp_path) == before
    assert (root / "fixed").read_bytes() == b"old"


def edit(root: Path, old: str, new: str, **more: Any) -> Any:
    return run(EDIT, root, file_path="f", old_string=old, new_string=new, **more)


def edit_failing(root: Path, old: str, new: str, **more: Any) -> ToolFailure:
    before = (root / "f").read_bytes()
    failure = failing(EDIT, root, file_path="f", old_string=old, new_string=new, **more)
    assert (root / "f").read_bytes() == before
    assert names(root) == ["f"]
    return failure


def test_edit_replaces_one_occurrence(tmp_path: Path) -> None:
    """The output has the count and a diff, the metadata the change."""
    (tmp_path / "f").write_text("a = 1\nb = 2\n")
    result = edit(tmp_path, "b = 2", "b = 3")
    assert result.output == ("Replaced 1 occurrence(s) in f\n--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n a = 1\n-b = 2\n+b = 3")
    assert (tmp_path / "f").read_text() == "a = 1\nb = 3\n"
    assert (result.metadata["path"], result.metadata["replacements"], result.metadata["dry_run"]) == ("f", 1, False)
    assert result.metadata["file_change"]["after"] == "a = 1\nb = 3\n"


def test_a_dry_run_tells_the_same_and_writes_nothing(tmp_path: Path) -> None:
    """``dry_run`` has the diff and the change of the real edit; it is read-only and may run beside others."""
    (tmp_path / "f").write_text("a\na\n")
    dry = edit(tmp_path, "a", "b", replace_all=True, dry_run=True)
    assert (tmp_path / "f").read_text() == "a\na\n"
    real = edit(tmp_path, "a", "b", replace_all=True)
    assert dry.output == real.output.replace("Replaced", "Dry run: would replace")
    assert dry.metadata == {**real.metadata, "dry_run": True}
    assert EDIT.capabilities({"dry_run": True}).parallel_safe
    assert not EDIT.capabilities({}).parallel_safe


def test_counts_are_exact(tmp_path: Path) -> None:
    """Nothing is written unless there are just as many matches as the arguments allow."""
    (tmp_path / "f").write_text("x\nfoo\nfoo foo\n")
    ambiguous = edit_failing(tmp_path, "foo", "bar")
    assert ambiguous.kind == "ambiguous"
    assert "3 times" in ambiguous.message
    assert "lines 2, 3, 3" in ambiguous.message
    assert edit_failing(tmp_path, "nowhere", "x").kind == "no_match"
    wrong = edit_failing(tmp_path, "foo", "bar", expected_replacements=2)
    assert wrong.kind == "conflict"
    assert "3" in wrong.message
    assert "2" in wrong.message
    assert edit_failing(tmp_path, "foo", "bar", replace_all=True, max_replacements=2).kind == "conflict"
    assert edit_failing(tmp_path, "foo", "foo").kind == "invalid_argument"
    assert edit(tmp_path, "foo", "bar", expected_replacements=3, max_replacements=3).metadata["replacements"] == 3
    assert (tmp_path / "f").read_text() == "x\nbar\nbar bar\n"


def test_matches_do_not_overlap(tmp_path: Path) -> None:
    """``aa`` occurs twice in ``aaaaa``."""
    (tmp_path / "f").write_text("aaaaa")
    assert edit(tmp_path, "aa", "b", replace_all=True).metadata["replacements"] == 2
    assert (tmp_path / "f").read_text() == "bba"


def test_a_near_miss_shows_the_place(tmp_path: Path) -> None:
    """No match comes with the most similar lines, numbered, when there are any."""
    (tmp_path / "f").write_text("import os\n\ndef area(width):\n    return width\n")
    failure = edit_failing(tmp_path, "def area(widht):\n  return width", "x")
    assert failure.message == (
        "old_string was not found in f\nMost similar region:\n     3\tdef area(width):\n     4\t    return width"
    )
    assert edit_failing(tmp_path, "zzz", "x").message == "old_string was not found in f"


def test_crlf_files_stay_crlf(tmp_path: Path) -> None:
    """LF arguments change a CRLF file in place; no other byte is touched."""
    (tmp_path / "f").write_bytes(b"a\r\nb\r\nc\r\n")
    edit(tmp_path, "a\nb", "x\ny\nz")
    assert (tmp_path / "f").read_bytes() == b"x\r\ny\r\nz\r\nc\r\n"
    edit(tmp_path, "c", "d\ne")
    assert (tmp_path / "f").read_bytes() == b"x\r\ny\r\nz\r\nd\r\ne\r\n"
    assert edit_failing(tmp_path, "d\r\ne\n", "d\ne\r\n").kind == "no_match"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"x=1", b"y=1"),
        (codecs.BOM_UTF8 + b"x=1\n", codecs.BOM_UTF8 + b"y=1\n"),
        (b"# caf\xe9\nx=1\n", b"# caf\xe9\ny=1\n"),
        ("\ufeffx=1\r\n".encode("utf-16-le"), "\ufeffy=1\r\n".encode("utf-16-le")),
        ("\ufeffx=ä\n".encode("utf-32-be"), "\ufeffy=ä\n".encode("utf-32-be")),
        (b"\0\xffx\0", b"\0\xffy\0"),
    ],
)
def test_encodings_are_kept(tmp_path: Path, before: bytes, after: bytes) -> None:
    """BOM, encoding, missing last newline and undecodable bytes stay as they were."""
    (tmp_path / "f").write_bytes(before)
    edit(tmp_path, "x", "y")
    assert (tmp_path / "f").read_bytes() == after


def test_what_can_not_be_kept_is_refused(tmp_path: Path) -> None:
    """Invalid UTF-32 and text that no encoding holds are refused with nothing changed."""
    (tmp_path / "f").write_bytes(codecs.BOM_UTF32_LE + "x".encode("utf-32-le") + b"\xff\xff\xff\xff")
    assert edit_failing(tmp_path, "x", "y").kind == "unsupported"
    (tmp_path / "f").write_bytes(b"x\x80")
    args: dict[str, Any] = {"file_path": "f", "old_string": "x", "new_string": "\ud83d"}
    for changes, kind in (({}, "conflict"), ({"old_string": "\udc80", "new_string": "y"}, "no_match")):
        with pytest.raises(ToolFailure) as caught:
            EDIT.execute({**args, **changes}, context(LocalWorkspace(str(tmp_path))))
        assert caught.value.kind == kind


MARKS: dict[bytes, str] = {
    b"": "utf-8",
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
    codecs.BOM_UTF32_LE: "utf-32-le",
    codecs.BOM_UTF32_BE: "utf-32-be",
}
SIDE = st.lists(
    st.sampled_from([b"\r\n", b"\n", b"\r", b"a", b"\xe9", b"\xc3", b"\x80", b"\0", b"\xff\xfe"]), max_size=8
)


@settings(deadline=None)
@given(
    mark=st.sampled_from(sorted(MARKS)),
    sides=st.tuples(SIDE, SIDE),
    new=st.text("xy\né", max_size=5),
)
def test_bytes_outside_the_edit_are_identical(
    tmp_path_factory: pytest.TempPathFactory, mark: bytes, sides: tuple[list[bytes], list[bytes]], new: str
) -> None:
    """Whatever bytes surround it, only the old text changes, in the file's encoding and line ends."""
    root = tmp_path_factory.mktemp("edit")
    encoding = MARKS[mark]
    width = {"utf-8": 1, "utf-16-le": 2, "utf-16-be": 2}.get(encoding, 4)
    first, last = b"".join(sides[0]), b"".join(sides[1])
    first = first[: len(first) // width * width]
    assume(decode(mark + first).bom == mark)  # else the bytes after the mark make another one of it
    (root / "f").write_bytes(mark + first + "NEEDLE".encode(encoding) + last)
    try:
        edit(root, "NEEDLE", new)
    except ToolFailure as failure:
        if failure.kind != "unsupported" or width != 4:
            raise
        return
    after = (root / "f").read_bytes()
    variants = {text.encode(encoding) for text in (new, new.replace("\n", "\r\n"))}
    assert after in {mark + first + variant + last for variant in variants}


def test_edit_goes_through_links_and_not_out(tmp_path: Path) -> None:
    """A link inside stays a link to the changed file; one that leads out is denied."""
    root = tmp_path / "ws"
    root.mkdir()
    (root / "f").write_text("old")
    (root / "link").symlink_to("f")
    (tmp_path / "secret").write_text("old")
    (root / "out").symlink_to("../secret")
    run(EDIT, root, file_path="link", old_string="old", new_string="new")
    assert (root / "link").is_symlink()
    assert (root / "f").read_text() == "new"
    assert failing(EDIT, root, file_path="out", old_string="old", new_string="new").kind == "path_denied"
    assert (tmp_path / "secret").read_text() == "old"


def test_edit_refuses_missing_and_too_long_files(tmp_path: Path) -> None:
    """A missing file is named with similar ones; over 10 MiB is too long."""
    (tmp_path / "f").write_bytes(b"x" * (10 * 1024 * 1024 + 1))
    assert edit_failing(tmp_path, "xy", "z").kind == "limit_exceeded"
    missing = failing(EDIT, tmp_path, file_path="F", old_string="a", new_string="b")
    assert missing.message == "File not found: F; similar names: f"


def test_a_change_between_reading_and_writing_is_a_conflict(tmp_path: Path) -> None:
    """Same size and same time do not hide a change: the digest does not agree."""

    class Interfered(LocalWorkspace):
        def replace(self, place: Place, *args: Any, **kwargs: Any) -> None:
            path = tmp_path / "f"
            before = path.stat()
            with open(path, "r+b") as other:
                other.write(b"theirs")
            os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
            super().replace(place, *args, **kwargs)

    (tmp_path / "f").write_bytes(b"mine!!")
    ctx = context(Interfered(str(tmp_path)))
    for tool, args in (
        (EDIT, {"old_string": "mine", "new_string": "ours"}),
        (WRITE, {"content": "ours"}),
    ):
        (tmp_path / "f").write_bytes(b"mine!!")
        with pytest.raises(ToolFailure) as caught:
            tool.execute({"file_path": "f", **args}, ctx)
        assert caught.value.kind == "conflict"
        assert (tmp_path / "f").read_bytes() == b"theirs"
        assert names(tmp_path) == ["f"]


def test_edits_of_one_file_at_once_all_succeed(tmp_path: Path) -> None:
    """Edits by several sessions of this process come one after another."""
    (tmp_path / "f").write_text("".join(f"<{n}>\n" for n in range(24)))

    def work(first: int) -> None:
        for n in range(first, 24, 4):
            edit(tmp_path, f"<{n}>", f"done {n}")

    threads = [threading.Thread(target=work, args=(first,)) for first in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (tmp_path / "f").read_text() == "".join(f"done {n}\n" for n in range(24))


def test_a_long_diff_is_bounded(tmp_path: Path) -> None:
    """The diff of an edit has at most 200 lines and says what is missing."""
    (tmp_path / "f").write_text("a\n" * 500)
    lines = edit(tmp_path, "a", "b", replace_all=True).output.split("\n")
    assert len(lines) == 202
    assert lines[-1] == "[diff cut after 200 lines; +500 -500 lines in all]"


def test_ls_lists_in_byte_order_with_marks(tmp_path: Path) -> None:
    """Directories end with a slash and links with an at sign; dot-files are there; the count is last."""
    for name in ("b", ".dot", "B"):
        (tmp_path / name).write_text("xy")
    (tmp_path / "dir").mkdir()
    (tmp_path / "link").symlink_to("/")
    os.mkfifo(tmp_path / "pipe")
    result = run(LS, tmp_path)
    assert result.output == ".dot\nB\nb\ndir/\nlink@\npipe\n6 entries"
    entries: Any = result.metadata["entries"]
    assert [entry["kind"] for entry in entries] == ["file", "file", "file", "dir", "symlink", "other"]
    assert entries[1] == {"name": "B", "kind": "file", "size": 2}
    assert (result.metadata["path"], result.metadata["total"], result.metadata["truncated"]) == (".", 6, False)
    assert run(LS, tmp_path, path="dir").output == "0 entries"


def test_ls_pages_stay_right_while_the_directory_changes(tmp_path: Path) -> None:
    """A cursor continues after the last name shown, whatever came or went before it."""
    for n in range(7):
        (tmp_path / f"f {n}\té").write_text("")
    first = run(LS, tmp_path, limit=3)
    footer = first.output.split("\n")[-1]
    assert footer == f"[3 of 7 entries; continue with cursor {first.metadata['next_cursor']}]"
    assert "\t" not in footer
    (tmp_path / "f 0\té").unlink()
    (tmp_path / "a").write_text("")
    second = run(LS, tmp_path, limit=3, cursor=first.metadata["next_cursor"])
    entries: Any = second.metadata["entries"]
    assert [entry["name"] for entry in entries] == [f"f {n}\té" for n in (3, 4, 5)]
    last = run(LS, tmp_path, cursor=second.metadata["next_cursor"])
    assert last.output == "f 6\\x09é\n7 entries"
    assert last.metadata["next_cursor"] is None


def test_ls_keeps_odd_names_on_their_line(tmp_path: Path) -> None:
    """A newline in a name makes no second entry, and a name that is not UTF-8 can be shown."""
    (tmp_path / "two\nlines").write_text("")
    (tmp_path / os.fsdecode(b"latin\xe9")).write_text("")
    assert run(LS, tmp_path).output == "latin\ufffd\ntwo\\x0alines\n2 entries"


def test_ls_refuses_what_is_no_directory(tmp_path: Path) -> None:
    """Files are unsupported, missing directories not found, places outside denied."""
    root = tmp_path / "ws"
    (root / "source").mkdir(parents=True)
    (root / "f").write_text("")
    (root / "out").symlink_to("..")
    assert failing(LS, root, path="f").kind == "unsupported"
    assert failing(LS, root, path="sourcs").message == "Directory not found: sourcs; similar names: source"
    assert failing(LS, root, path="out").kind == "path_denied"
    assert "limit" in refused(LS, limit=2001)


@pytest.mark.parametrize("tool", [WRITE, EDIT, LS])
def test_schemas_are_closed_and_plain(tool: Any) -> None:
    """No unknown argument passes, and the schema has neither references nor examples."""
    assert "unknown argument" in refused(tool, file_path="f", nonsense=1)
    assert "$ref" not in repr(tool.parameters)
    assert "examples" not in repr(tool.parameters)


def test_edit_arguments_are_checked_by_the_schema() -> None:
    """Old text must not be empty, and the counts are positive."""
    for bad in ({"old_string": ""}, {"expected_replacements": 0}, {"max_replacements": 0}):
        args = {"file_path": "f", "old_string": "a", "new_string": "b", **bad}
        assert next(iter(bad)) in refused(EDIT, **args)
