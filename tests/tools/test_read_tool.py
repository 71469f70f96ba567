"""The ``read`` tool (tools.md §3.1, §4.7; cases F09, F12)."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

import pytest
from filetools import context, failing, refused, run
from hypothesis import given, settings
from hypothesis import strategies as st

from a3s_code.ports.tool import Attachment, ToolFailure
from a3s_code.tools.read import ReadTool, read_raw
from a3s_code.workspace.local import LocalWorkspace

READ = ReadTool()
PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 20


def put(root: Path, name: str, data: bytes) -> Path:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def raw(root: Path, path: str, offset: int = 0, limit: int | None = None) -> str:
    return read_raw(LocalWorkspace(str(root)), path, offset, limit)


def test_lines_are_numbered_and_described(tmp_path: Path) -> None:
    """Each line has its number in six columns, a tab and its text; the metadata tells the rest."""
    put(tmp_path, "d/f", b"one\r\n\r\nthree")
    result = run(READ, tmp_path, file_path="d/f")
    assert result.output == "     1\tone\n     2\t\n     3\tthree"
    assert result.metadata == {
        "path": "d/f",
        "encoding": "utf-8",
        "bom": False,
        "newline": "crlf",
        "lossy": False,
        "total_lines": 3,
        "start_line": 1,
        "end_line": 3,
        "offset": 0,
        "limit": 2000,
        "truncated": False,
        "next_offset": None,
        "bytes": 12,
        "sha256": hashlib.sha256(b"one\r\n\r\nthree").hexdigest(),
    }


def test_the_alias_and_absolute_paths_mean_the_same(tmp_path: Path) -> None:
    """``path`` stands for ``file_path``, and outputs are relative whatever was asked."""
    put(tmp_path, "f", b"x\n")
    plain = run(READ, tmp_path, file_path="f")
    assert run(READ, tmp_path, path="f") == plain
    assert run(READ, tmp_path, file_path=str(tmp_path / "f")) == plain


def test_a_page_says_how_to_continue(tmp_path: Path) -> None:
    """A page that leaves lines ends with the range, the total and the next offset, which then goes on."""
    put(tmp_path, "f", b"".join(b"line %d\n" % n for n in range(1, 11)))
    page = run(READ, tmp_path, file_path="f", offset=2, limit=3)
    assert page.output == ("     3\tline 3\n     4\tline 4\n     5\tline 5\n[lines 3-5 of 10; continue with offset 5]")
    assert (page.metadata["truncated"], page.metadata["next_offset"]) == (True, 5)
    rest = run(READ, tmp_path, file_path="f", offset=5)
    assert rest.output.startswith("     6\tline 6\n")
    assert rest.output.endswith("\n    10\tline 10")


def test_the_ends_of_a_file(tmp_path: Path) -> None:
    """An empty file, the offset at the end and one beyond it each have their own answer."""
    put(tmp_path, "empty", b"")
    put(tmp_path, "bom", b"\xef\xbb\xbf")
    put(tmp_path, "f", b"a\nb\n")
    assert run(READ, tmp_path, file_path="empty").output == "[empty file]"
    assert run(READ, tmp_path, file_path="bom").output == "[empty file]"
    end = run(READ, tmp_path, file_path="f", offset=2)
    assert (end.output, end.exit_code) == ("[end of file: 2 lines]", 0)
    failure = failing(READ, tmp_path, file_path="f", offset=3)
    assert failure.kind == "invalid_argument"
    assert "2 lines" in failure.message


def test_long_lines_are_cut_and_counted(tmp_path: Path) -> None:
    """A line of more than 2000 characters ends with the number of those that are missing."""
    put(tmp_path, "f", "é".encode() * 2001 + b"\n" + b"y" * 2000)
    assert run(READ, tmp_path, file_path="f").output == f"     1\t{'é' * 2000}… [+1 chars]\n     2\t{'y' * 2000}"


@settings(max_examples=40)
@given(
    lines=st.lists(st.text(st.sampled_from("aé€\r\x0b\u2028𝄞"), max_size=900), min_size=1, max_size=12),
    budget=st.integers(1024, 3000),
    end=st.sampled_from(["\n", "\r\n", ""]),
)
def test_pages_within_the_budget_make_up_the_file(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str], budget: int, end: str
) -> None:
    """Every page keeps to the byte budget, ends between lines and moves on; together they are all lines."""
    root = tmp_path_factory.mktemp("pages")
    put(root, "f", ("\n".join(lines) + end).encode())
    total = int(str(run(READ, root, file_path="f").metadata["total_lines"]))
    numbers: list[int] = []
    offset: Any = 0
    while offset is not None:
        result = run(READ, root, file_path="f", offset=offset, max_output_bytes=budget)
        assert len(result.output.encode()) <= budget
        numbers += [
            int(line[:6]) for line in result.output.split("\n") if line[:6].strip().isdigit() and line[6:7] == "\t"
        ]
        assert result.metadata["next_offset"] != offset
        offset = result.metadata["next_offset"]
    assert numbers == list(range(1, total + 1))


def test_encodings_are_told_by_the_mark(tmp_path: Path) -> None:
    """UTF-8, UTF-16 and UTF-32 with a BOM are text; the mark is not shown."""
    for encoding in ("utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"):
        put(tmp_path, encoding, "\ufeffä\nb\n".encode(encoding))
        result = run(READ, tmp_path, file_path=encoding)
        assert result.output == "     1\tä\n     2\tb"
        assert (result.metadata["encoding"], result.metadata["bom"]) == (encoding, True)


def test_undecodable_bytes_are_shown_and_flagged(tmp_path: Path) -> None:
    """Latin-1 or torn UTF-16 is shown with U+FFFD, and ``lossy`` says so."""
    put(tmp_path, "latin", b"caf\xe9\n")
    put(tmp_path, "torn", "\ufeffab".encode("utf-16-le") + b"x")
    for name, text in (("latin", "caf\ufffd"), ("torn", "ab\ufffd")):
        result = run(READ, tmp_path, file_path=name)
        assert result.output == f"     1\t{text}"
        assert result.metadata["lossy"] is True


@pytest.mark.parametrize(
    ("name", "data", "kind"),
    [
        ("a.png", PNG, "image/png"),
        ("a.jpg", b"\xff\xd8\xff\xe0\0\0", "image/jpeg"),
        ("a.gif", b"GIF89a...", "image/gif"),
        ("a.webp", b"RIFF\x10\0\0\0WEBPVP8 ", "image/webp"),
        ("wrong.gif", PNG, "image/png"),
        ("no-extension", PNG, "image/png"),
    ],
)
def test_images_are_attached(tmp_path: Path, name: str, data: bytes, kind: str) -> None:
    """An image is one attachment; its content, not its name, says what it is."""
    put(tmp_path, name, data)
    result = run(READ, tmp_path, file_path=name)
    assert result.output == f"[image {name}: {kind}, {len(data)} bytes]"
    assert result.attachments == (Attachment(kind, data),)


def test_text_that_is_no_image_is_text(tmp_path: Path) -> None:
    """SVG, a text named like an image and a text that begins like one are text."""
    put(tmp_path, "a.svg", b"<svg/>")
    put(tmp_path, "a.png", b"not a picture")
    put(tmp_path, "notes.txt", b"GIF89a is a format")
    for name in ("a.svg", "a.png", "notes.txt"):
        assert run(READ, tmp_path, file_path=name).output.startswith("     1\t")


def test_other_content_is_refused_helpfully(tmp_path: Path) -> None:
    """Binary files, directories and special files are unsupported, and the message says what to do."""
    put(tmp_path, "x", b"\x7fELF\0\0")
    put(tmp_path, "late", b"a" * 8000 + b"\0")
    os.mkfifo(tmp_path / "fifo")
    messages = {name: failing(READ, tmp_path, file_path=name) for name in ("x", "late", ".", "fifo")}
    assert {failure.kind for failure in messages.values()} == {"unsupported"}
    assert messages["x"].message == "x is a binary file (6 bytes, application/x-executable)"
    assert "ls" in messages["."].message


def test_a_missing_file_names_similar_ones(tmp_path: Path) -> None:
    """Up to three names that are spelt alike are offered, whatever their case."""
    for name in ("src/readme.md", "src/README.txt", "src/other", "src/Readme.md.bak"):
        put(tmp_path, name, b"")
    failure = failing(READ, tmp_path, file_path="src/README.md")
    assert failure.kind == "not_found"
    assert failure.message.startswith("File not found: src/README.md; similar names: src/readme.md, ")
    assert "src/other" not in failure.message
    assert failing(READ, tmp_path, file_path="no/such/dir").message == "File not found: no/such/dir"


def test_sizes_are_limited(tmp_path: Path) -> None:
    """A file over 50 MiB and an image over 5 MiB are refused with their size; the file is not read."""
    with put(tmp_path, "log", b"x\n").open("r+b") as log:
        log.truncate(5 * 1024**3)
    failure = failing(READ, tmp_path, file_path="log")
    assert failure.kind == "limit_exceeded"
    assert str(5 * 1024**3) in failure.message
    put(tmp_path, "big.png", PNG + b"\0" * 5 * 1024**2)
    assert failing(READ, tmp_path, file_path="big.png").kind == "limit_exceeded"


def test_paths_outside_are_denied(tmp_path: Path) -> None:
    """A link or ``..`` that leads out gives the failure of the workspace, alone and among others."""
    root = tmp_path / "ws"
    put(root, "f", b"x\n")
    put(tmp_path, "secret", b"secret")
    (root / "link").symlink_to("../secret")
    for path in ("../secret", "link", str(tmp_path / "secret")):
        assert failing(READ, root, file_path=path).kind == "path_denied"
        result = run(READ, root, files=[{"path": "f"}, {"path": path}])
        assert f"==> {path} <==\nerror: Path is outside the workspace: {path}" in result.output


def test_exactly_one_of_the_ways_is_needed(tmp_path: Path) -> None:
    """Neither none nor two of ``file_path``, ``path`` and ``files``."""
    one: dict[str, Any] = {"files": [{"path": "f"}], "file_path": "f", "path": "f"}
    for names in ((), ("files", "file_path"), ("file_path", "path"), ("files", "path")):
        assert failing(READ, tmp_path, **{name: one[name] for name in names}).kind == "invalid_argument"


def test_the_schema_refuses_what_is_out_of_range() -> None:
    """Ranges and unknown members are refused before anything is read."""
    assert "limit" in refused(READ, file_path="f", limit=0)
    assert "limit" in refused(READ, file_path="f", limit=10_001)
    assert "offset" in refused(READ, file_path="f", offset=-1)
    assert "files" in refused(READ, files=[])
    assert "max_output_bytes" in refused(READ, file_path="f", max_output_bytes=1023)
    assert "file_path" in refused(READ, fil_path="f")


def test_reading_may_run_beside_others() -> None:
    """A read is read-only, idempotent and up to sixteen run at once."""
    assert READ.capabilities({}).parallel_safe
    assert READ.capabilities({}).max_parallelism == 16


def test_many_files_come_in_order(tmp_path: Path) -> None:
    """Each member has its header, its lines and a blank line; a bad one has its error, and the others stay."""
    put(tmp_path, "a", b"1\n2\n3\n")
    put(tmp_path, "empty", b"")
    put(tmp_path, "p.png", PNG)
    members = [{"path": "a", "offset": 1, "limit": 1}, {"path": "none"}, {"path": "empty"}, {"path": "p.png"}]
    result = run(READ, tmp_path, files=members)
    assert result.exit_code == 0
    assert result.output == (
        "==> a (lines 2-2 of 3) <==\n     2\t2\n\n"
        "==> none <==\nerror: File not found: none\n\n"
        "==> empty (lines 0-0 of 0) <==\n[empty file]\n\n"
        "==> p.png <==\nerror: p.png is an image; read it alone, with file_path\n"
    )
    batch: Any = result.metadata["batch"]
    assert batch["files"][0] == {
        "path": "a",
        "ok": True,
        "error_kind": None,
        "start_line": 2,
        "end_line": 2,
        "total_lines": 3,
        "next_offset": 2,
    }
    assert [entry["error_kind"] for entry in batch["files"]] == [None, "not_found", None, "unsupported"]
    assert (batch["truncated"], batch["continuation"]) == (False, [])


def test_many_files_fail_only_together(tmp_path: Path) -> None:
    """The call fails when every member does, with the kind of the first."""
    result = run(READ, tmp_path, files=[{"path": "none"}, {"path": "../x"}])
    assert (result.exit_code, result.error_kind) == (1, "not_found")


@settings(max_examples=30, deadline=None)
@given(
    sizes=st.lists(st.integers(0, 120), min_size=1, max_size=6),
    width=st.integers(0, 60),
    limit=st.integers(1, 130),
    budget=st.integers(1024, 4000),
)
def test_continuations_lead_through_all_files(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], width: int, limit: int, budget: int
) -> None:
    """Following ``continuation`` shows every asked line once, within the budget of every page."""
    root = tmp_path_factory.mktemp("many")
    for n, size in enumerate(sizes):
        put(root, f"f{n}", "".join(f"{n}:{line}{'€' * width}\n" for line in range(size)).encode())
    files: Any = [{"path": f"f{n}", "offset": min(3, size), "limit": limit} for n, size in enumerate(sizes)]
    seen: list[str] = []
    for _ in range(1000):
        result = run(READ, root, files=files, max_output_bytes=budget)
        assert len(result.output.encode()) <= budget
        seen += [line[7:].rstrip("€") for line in result.output.split("\n") if line[6:7] == "\t"]
        batch: Any = result.metadata["batch"]
        if not batch["truncated"]:
            break
        assert result.output.split("\n")[-1].startswith("[")
        assert batch["continuation"] != files
        files = batch["continuation"]
    wanted = [f"{n}:{line}" for n, size in enumerate(sizes) for line in range(size)[3:][:limit]]
    assert seen == wanted


def test_the_continuation_stands_in_the_text(tmp_path: Path) -> None:
    """A model sees what to ask for next, with the limit that is left."""
    put(tmp_path, "a", b"x" * 99 + b"\n" + b"y" * 99 + b"\n" * 200)
    put(tmp_path, "b", b"z\n")
    result = run(READ, tmp_path, files=[{"path": "a", "limit": 150}, {"path": "b"}], max_output_bytes=1024)
    batch: Any = result.metadata["batch"]
    shown = batch["files"][0]["end_line"]
    assert batch["continuation"] == [
        {"path": "a", "offset": shown, "limit": 150 - shown},
        {"path": "b", "offset": 0, "limit": 2000},
    ]
    footer = result.output.split("\n")[-1]
    assert footer.startswith('[2 of 2 files unfinished; continue with files [{"path":"a",')
    assert "\t" not in footer


def test_raw_reading_gives_the_exact_text(tmp_path: Path) -> None:
    """``read_raw`` keeps terminators and leaves out the BOM; its ranges are those of ``read``."""
    put(tmp_path, "f", b"\xef\xbb\xbfone\r\ntwo\nthree")
    assert raw(tmp_path, "f") == "one\r\ntwo\nthree"
    assert raw(tmp_path, "f", 1) == "two\nthree"
    assert raw(tmp_path, "f", 0, 1) == "one\r\n"
    assert raw(tmp_path, "f", 1, 5) == "two\nthree"
    assert raw(tmp_path, "f", 3) == ""
    assert raw(tmp_path, "f", 0, 0) == ""


def test_raw_reading_fails_as_read_does(tmp_path: Path) -> None:
    """Bad ranges, missing, binary and image files and paths outside are the same failures."""
    put(tmp_path, "f", b"a\n")
    put(tmp_path, "bin", b"\0")
    put(tmp_path, "p.png", PNG)
    cases: list[tuple[tuple[Any, ...], str]] = [
        (("f", 2), "invalid_argument"),
        (("f", -1), "invalid_argument"),
        (("none",), "not_found"),
        (("bin",), "unsupported"),
        (("p.png",), "unsupported"),
        ((".",), "unsupported"),
        (("../x",), "path_denied"),
    ]
    for args, kind in cases:
        with pytest.raises(ToolFailure) as caught:
            raw(tmp_path, *args)
        assert caught.value.kind == kind


def test_a_file_that_grows_is_read_up_to_the_limit(tmp_path: Path) -> None:
    """The limit is kept on what is really read, not on a size that was true before."""

    class Growing(LocalWorkspace):
        def open(self, place: Any) -> Any:
            stream = super().open(place)
            with open(tmp_path / "f", "r+b") as other:
                other.truncate(60 * 1024**2)
            return stream

    put(tmp_path, "f", b"small\n")
    with pytest.raises(ToolFailure) as caught:
        READ.execute({"file_path": "f"}, context(Growing(str(tmp_path))))
    assert caught.value.kind == "limit_exceeded"
