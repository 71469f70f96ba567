"""search, mode grep: lines, files and counts, page by page (tools.md §3.6)."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest
from search_and_bash_calls import Caller, write_files

from a3s_code.ports.tool import ToolOutput
from a3s_code.system.process import LocalProcesses
from a3s_code.tools.search import SearchTool
from a3s_code.tools.search.regex import Expression


def caller(root: Path, matching_ms: int = 9_000) -> Caller:
    return Caller(SearchTool(LocalProcesses(), matching_ms=matching_ms), root)


async def grep(root: Path, query: str, **args: Any) -> str:
    return (await caller(root)(mode="grep", query=query, **args)).output


def found(output: ToolOutput) -> dict[str, Any]:
    search = output.metadata["search"]
    assert isinstance(search, dict)
    return search


async def test_content(tmp_path: Path) -> None:
    """Path, line number and text, paths in byte order, and the summary as the last line."""
    write_files(
        tmp_path, {"b.py": "x\nneedle b\n", "a/z.py": "needle\n", "a-b.py": "a needle\r\nneedle 2", "B.py": "needle"}
    )
    result = await caller(tmp_path)(mode="grep", query="needle")
    assert result.output == (
        "B.py:1:needle\n"
        "a-b.py:1:a needle\n"
        "a-b.py:2:needle 2\n"
        "a/z.py:1:needle\n"
        "b.py:2:needle b\n"
        "5 match(es) in 4 file(s)"
    )
    assert found(result) == {
        "mode": "grep",
        "output_mode": "content",
        "matches": 5,
        "files": 4,
        "scanned_files": 4,
        "skipped": {"binary": 0, "large": 0, "protected": 0, "unreadable": 0},
        "truncated": False,
        "next_cursor": None,
    }
    anchors = result.metadata["source_anchors"]
    assert isinstance(anchors, list)
    assert anchors[2] == {"path": "a-b.py", "start_line": 2, "end_line": 2}


async def test_no_match(tmp_path: Path) -> None:
    """Nothing found is an answer, in every output mode."""
    write_files(tmp_path, {"a": "text"})
    for output_mode in ("content", "files_with_matches", "count", "summary"):
        result = await caller(tmp_path)(mode="grep", query="absent", output_mode=output_mode)
        assert (result.output, result.exit_code) == ("No matches found for pattern: absent", 0)


async def test_context(tmp_path: Path) -> None:
    """Context lines carry dashes, groups that are not neighbours are set apart, overlaps are printed once."""
    write_files(tmp_path, {"a": "1\n2\nX3\n4\nX5\n6\n7\n8\n9\nX10\n", "b": "X1\n"})
    assert await grep(tmp_path, "X", context=1) == (
        "a-2-2\na:3:X3\na-4-4\na:5:X5\na-6-6\n--\na-9-9\na:10:X10\n--\nb:1:X1\n4 match(es) in 2 file(s)"
    )
    assert "--" not in await grep(tmp_path, "X")


async def test_output_modes(tmp_path: Path) -> None:
    """Paths, counts, or the summary alone, all with the same last line."""
    write_files(tmp_path, {"a": "x\nx\n", "b": "y\n", "c": "x\n"})
    assert await grep(tmp_path, "x", output_mode="files_with_matches") == "a\nc\n3 match(es) in 2 file(s)"
    assert await grep(tmp_path, "x", output_mode="count") == "a:2\nc:1\n3 match(es) in 2 file(s)"
    assert await grep(tmp_path, "x", output_mode="summary") == "3 match(es) in 2 file(s)"


async def test_summary_counts_beyond_the_limit(tmp_path: Path) -> None:
    """A summary is the result of a full scan."""
    write_files(tmp_path, {f"f{n:03}": "x\n" * 5 for n in range(300)})
    assert await grep(tmp_path, "x", output_mode="summary", limit=1) == "1500 match(es) in 300 file(s)"


@pytest.mark.parametrize("output_mode", ["content", "files_with_matches", "count"])
async def test_pages_make_up_the_whole(output_mode: str, tmp_path: Path) -> None:
    """Following the cursors gives each row once, in order; only the last page has no cursor."""
    write_files(tmp_path, {f"{name}/f": "x\n\nx\nx\n" for name in "abcde"})
    whole = (await grep(tmp_path, "x", output_mode=output_mode)).split("\n")[:-1]
    call, rows, cursor, pages = caller(tmp_path), list[str](), dict[str, Any](), 0
    while True:
        result = await call(mode="grep", query="x", output_mode=output_mode, limit=2, **cursor)
        lines = result.output.split("\n")
        pages += 1
        token = found(result)["next_cursor"]
        assert found(result)["truncated"] == (token is not None)
        if token is None:
            rows += lines[:-1]
            break
        assert lines[-2] == f"[more matches; continue with cursor {token}]"
        assert lines[-1].endswith(" file(s)")
        rows += lines[:-2]
        cursor = {"cursor": token}
    assert rows == whole
    assert pages == -(-len(whole) // 2)


async def test_context_stops_where_the_page_does(tmp_path: Path) -> None:
    """A match of the next page is not shown as context of this one, nor the other way round."""
    write_files(tmp_path, {"a": "X1\n2\nX3\n4\n"})
    call = caller(tmp_path)
    first = await call(mode="grep", query="X", context=3, limit=1)
    assert first.output.split("\n")[:2] == ["a:1:X1", "a-2-2"]
    assert first.output.split("\n")[2].startswith("[more matches")
    second = await call(mode="grep", query="X", context=3, limit=1, cursor=found(first)["next_cursor"])
    assert second.output == "a-2-2\na:3:X3\na-4-4\n1 match(es) in 1 file(s)"


async def test_cursors_are_bound_to_their_arguments(tmp_path: Path) -> None:
    """A cursor with other arguments, or none at all, is refused."""
    write_files(tmp_path, {"a": "x\nx\nx\n"})
    call = caller(tmp_path)
    cursor = found(await call(mode="grep", query="x", limit=1))["next_cursor"]
    for args in (
        {"query": "y", "limit": 1},
        {"query": "x", "limit": 2},
        {"query": "x", "limit": 1, "ignore_case": True},
    ):
        assert "cursor" in (await call.failure(mode="grep", cursor=cursor, **args)).message
    for forged in ("zzz", "!", "W10", "北"):
        assert (await call.failure(mode="grep", query="x", limit=1, cursor=forged)).kind == "invalid_argument"


async def test_a_page_goes_on_where_its_file_was(tmp_path: Path) -> None:
    """A file removed between two pages costs nothing but its own matches."""
    write_files(tmp_path, {"a": "x\nx\n", "b": "x\n"})
    call = caller(tmp_path)
    cursor = found(await call(mode="grep", query="x", limit=1))["next_cursor"]
    (tmp_path / "a").unlink()
    assert (await call(mode="grep", query="x", limit=1, cursor=cursor)).output == "b:1:x\n1 match(es) in 1 file(s)"


@pytest.mark.parametrize(
    ("query", "text", "lines"),
    [
        (r"^b$", "a\nb\r\nc", [2]),
        (r"\Ab", "a\nbb", [2]),
        (r"a\nb", "a\nb", []),
        (r"a\s*b", "a\nb\na b", [3]),
        (r"[^x]", "x\n\nxa", [3]),
        (r"", "a\n\n", [1, 2]),
        (r"(?i)ABC", "abc\nxyz", [1]),
        (r"(?x) a b  # spaced", "ab\na b", [1]),
        (r"foo|bar", "bar\nbaz\nfoo", [1, 3]),
        (r"(?<!x)y", "xy\nay", [2]),
        (r"(\w)\1", "abc\nabb", [2]),
        (r"北.", "x\n北京", [2]),
        (r"(ab|cd)+e", "abcde\nabcd", [1]),
        (r"\$\{a\}", "${a}", [1]),
        (r"a\u2028", "a\u2028b\nc", [1]),
    ],
)
async def test_expressions_mean_what_they_mean_in_python(
    query: str, text: str, lines: list[int], tmp_path: Path
) -> None:
    """Python's syntax, one line at a time, with no anchors added."""
    write_files(tmp_path, {"f": text})
    if not query:
        query = "(?:)"
    rows = (await grep(tmp_path, query)).split("\n")[:-1]
    assert [int(row.split(":")[1]) for row in rows] == lines


async def test_ignore_case(tmp_path: Path) -> None:
    """Letters match in either case when asked."""
    write_files(tmp_path, {"f": "Straße\nSTRASSE\n"})
    assert (await grep(tmp_path, "STRAßE", ignore_case=True)).endswith("1 match(es) in 1 file(s)")
    assert (await grep(tmp_path, "strasse", ignore_case=True)).endswith("1 match(es) in 1 file(s)")


@pytest.mark.parametrize(("query", "where"), [("a(b", "position 1"), ("[z-a]", "position 1"), ("*", "position 0")])
async def test_bad_patterns(query: str, where: str, tmp_path: Path) -> None:
    """A pattern that is none is an invalid argument, with the place."""
    failure = await caller(tmp_path).failure(mode="grep", query=query)
    assert failure.kind == "invalid_argument"
    assert where in failure.message


async def test_patterns_nested_beyond_reason(tmp_path: Path) -> None:
    """Thousands of groups are refused, not a crash."""
    assert (await caller(tmp_path).failure(mode="grep", query="(" * 2000 + ")" * 2000)).kind == "invalid_argument"


async def test_long_lines_are_cut(tmp_path: Path) -> None:
    """At most 500 characters of a line are shown."""
    write_files(tmp_path, {"f": "北" * 600})
    assert (await grep(tmp_path, "北")).split("\n")[0] == "f:1:" + "北" * 500


async def test_encodings(tmp_path: Path) -> None:
    """A byte order mark decides, bad bytes are replaced, and both are found by their text."""
    write_files(
        tmp_path,
        {
            "bom": b"\xef\xbb\xbfneedle\n",
            "latin": b"caf\xe9 needle\n",
            "utf16": "x\nneedle 北\n".encode("utf-16"),
            "utf32": "needle\n".encode("utf-32"),
        },
    )
    assert await grep(tmp_path, "^needle|needle") == (
        "bom:1:needle\nlatin:1:caf\ufffd needle\nutf16:2:needle 北\nutf32:1:needle\n4 match(es) in 4 file(s)"
    )
    assert (await grep(tmp_path, "needle")).endswith("4 match(es) in 4 file(s)")
    assert (await grep(tmp_path, "caf\ufffd")).endswith("1 match(es) in 1 file(s)")


@pytest.mark.parametrize("query", ["(a+)+$", "(a|aa)+$", "(.*a){20}$", "a*a*a*a*a*a*[bc]", "a?" * 40 + "a" * 40])
async def test_catastrophic_patterns_time_out(query: str, tmp_path: Path) -> None:
    """H13: a pattern that never ends is a timeout, while the loop stays free and another search goes on."""
    write_files(tmp_path, {"f": "a" * 39 + "!\n" + "a" * 3000 + "!\n" * 10, "g": "needle\n"})
    call = caller(tmp_path, matching_ms=400)
    task = asyncio.ensure_future(call.failure(mode="grep", query=query))
    assert (await grep(tmp_path, "needle", path="g")).startswith("g:1:needle")
    assert not task.done()
    failure = await task
    assert (failure.kind, failure.exit_code) == ("timeout", 124)
    assert failure.message.startswith("Timed out after 400 ms")


async def test_patterns_apart_give_the_same_lines(tmp_path: Path) -> None:
    """What runs in a process of its own finds what it would find here, in order, between files that need none."""
    write_files(tmp_path, {f"f{n}": "x" * 5000 * (n % 2) + f"-a{n}b-\nnone\n-a{n}{n}b-\n" for n in range(6)})
    expression = r"-a.*\db"
    assert Expression(expression, False).max_line < 5000
    rows = (await grep(tmp_path, expression)).split("\n")
    assert [row.split(":")[:2] for row in rows[:-1]] == [[f"f{n}", line] for n in range(6) for line in ("1", "3")]
    assert rows[-1] == "12 match(es) in 6 file(s)"


async def test_an_interpreter_that_is_missing(tmp_path: Path) -> None:
    """Where the process for hard patterns can't start, the search says so."""
    write_files(tmp_path, {"f": "aaa\n"})
    call = Caller(SearchTool(LocalProcesses(), "/no/such/python"), tmp_path)
    failure = await call.failure(mode="grep", query="(a+)+$")
    assert (failure.kind, failure.exit_code) == ("unavailable", 126)
    assert (await call(mode="grep", query="a+$")).exit_code == 0


async def test_cancellation_and_deadline(tmp_path: Path) -> None:
    """A search stops when its call does."""
    write_files(tmp_path, {"f": "a" * 40 + "!\n"})
    call = caller(tmp_path)
    task = asyncio.ensure_future(call.failure(mode="grep", query="(a+)+$"))
    await asyncio.sleep(0.05)
    call.cancelled.set()
    failure = await task
    assert (failure.kind, failure.message, failure.exit_code) == ("cancelled", "Cancelled", 130)
    late = await caller(tmp_path).failure(mode="grep", query="a", deadline_in=-1.0)
    assert late.kind == "timeout"


async def test_a_cancelled_task_leaves_no_process(tmp_path: Path) -> None:
    """Cancelling the task of a search ends the process that matches for it."""
    write_files(tmp_path, {"f": "a" * 40 + "!\n"})
    task = asyncio.ensure_future(caller(tmp_path)(mode="grep", query="(a+)+$"))
    while not (children := _matchers()):
        await asyncio.sleep(0.005)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not _matchers() & children


def _matchers() -> set[int]:
    """The processes of this one that match apart."""
    pids = set()
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            line = Path(f"/proc/{name}/cmdline").read_bytes()
            parent = Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()[1]
        except OSError:
            continue
        if b"matcher_script" in line and int(parent) == os.getpid():
            pids.add(int(name))
    return pids


@pytest.mark.parametrize(
    "args",
    [
        {"mode": "grep", "query": "x", "limit": 2001},
        {"mode": "bm25", "query": "x", "limit": 51},
        {"mode": "grep", "query": "x", "sort": "path"},
        {"mode": "glob", "query": "x", "include": "*.py"},
        {"mode": "glob", "query": "x", "context": 1},
        {"mode": "glob", "query": "x", "output_mode": "count"},
        {"mode": "glob", "query": "x", "cursor": "c"},
        {"mode": "bm25", "query": "x", "cursor": "c"},
        {"mode": "grep", "query": "x", "output_mode": "summary", "cursor": "c"},
        {"mode": "grep", "query": "x", "output_mode": "count", "context": 2},
        {"mode": "grep", "query": "x", "include": "/abs"},
    ],
)
async def test_arguments_without_effect_are_refused(args: dict[str, Any], tmp_path: Path) -> None:
    """An argument that a mode can't honour is an error, never ignored."""
    failure = await caller(tmp_path).failure(**args)
    assert failure.kind == "invalid_argument"
    assert failure.message.startswith("Invalid arguments for tool 'search':\n- ")


async def test_a_large_tree_is_searched_completely(tmp_path: Path) -> None:
    """Two thousand files are searched completely, whatever the batch borders."""
    write_files(tmp_path, {f"d{n % 20}/f{n}.py": f"import os\nvalue = {n}\n" * 20 for n in range(2000)})
    result = await caller(tmp_path)(mode="grep", query=r"value = 199\d$", output_mode="count")
    assert found(result)["scanned_files"] == 2000
    assert (found(result)["files"], found(result)["matches"]) == (10, 200)
