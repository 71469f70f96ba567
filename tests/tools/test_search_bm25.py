"""search, mode bm25: passages ranked by words (tools.md §3.6)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from search_and_bash_calls import Caller, write_files

from a3s_code.system.process import LocalProcesses
from a3s_code.tools.search import SearchTool
from a3s_code.tools.search.bm25 import MAX_FILES, terms


async def bm25(root: Path, query: str, **args: Any) -> str:
    return (await Caller(SearchTool(LocalProcesses()), root)(mode="bm25", query=query, **args)).output


def headers(output: str) -> list[str]:
    return [row.partition(" (score ")[0] for row in output.split("\n") if " (score " in row]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("parseHTTPResponse", ["parse", "http", "response"]),
        ("snake_case_2x", ["snake", "case", "2", "x"]),
        ("HTTP2 Über größe", ["http", "2", "über", "größe"]),
        ("北京市", ["北", "京", "市", "北京", "京市"]),
        ("用户name", ["用", "户", "用户", "name"]),
        ("読み込み", ["読", "み", "込", "み", "読み", "み込", "込み"]),
        ("... --- ,", []),
    ],
)
def test_terms(text: str, words: list[str]) -> None:
    """Identifiers fall apart at case, underscores and digits; CJK text into signs and pairs."""
    assert terms(text) == words


async def test_output(tmp_path: Path) -> None:
    """A header with the passage and its score, numbered lines around the best one, a blank line, the count."""
    write_files(tmp_path, {"a.py": "one\ntwo\ndef retryBackoff():\n    pass\nfive\nsix\n", "b.py": "nothing\n"})
    result = await Caller(SearchTool(LocalProcesses()), tmp_path)(mode="bm25", query="retry backoff", context=1)
    rows = result.output.split("\n")
    assert rows[0].startswith("a.py:1-6 (score ")
    assert rows[1:] == ["     2\ttwo", "     3\tdef retryBackoff():", "     4\t    pass", "", "1 result(s)"]
    anchors = result.metadata["source_anchors"]
    assert isinstance(anchors, list)
    assert isinstance(anchors[0], dict)
    assert rows[0] == f"a.py:1-6 (score {anchors[0].pop('score'):.3f})"
    assert anchors == [{"path": "a.py", "start_line": 1, "end_line": 6}]
    search = result.metadata["search"]
    assert isinstance(search, dict)
    assert (search["mode"], search["output_mode"], search["matches"], search["scanned_files"]) == ("bm25", None, 1, 2)


async def test_the_best_passage_comes_first(tmp_path: Path) -> None:
    """More of the rarer words wins; long files are ranked by their pieces of 80 lines."""
    long = "\n".join(["filler line"] * 100 + ["def lease_renewal(fence): pass"] + ["filler line"] * 20)
    write_files(tmp_path, {"long.py": long, "common.py": "fence\n" + "fence of wood\n" * 3, "other.py": "filler\n"})
    assert headers(await bm25(tmp_path, "lease renewal fence")) == ["long.py:81-121", "common.py:1-4"]


async def test_cjk(tmp_path: Path) -> None:
    """A phrase without blanks finds the text that has it before one that only shares signs."""
    write_files(tmp_path, {"a.md": "天气很好\n", "b.md": "部署到北京的服务器\n", "c.md": "京北\n"})
    assert headers(await bm25(tmp_path, "北京"))[0] == "b.md:1-1"
    assert headers(await bm25(tmp_path, "服务器")) == ["b.md:1-1"]


async def test_ties_go_by_path_and_runs_agree(tmp_path: Path) -> None:
    """Equal passages come in the order of their paths, and the same again each time."""
    write_files(tmp_path, dict.fromkeys(("c", "a/z", "a-b", "B"), "same words here\n"))
    first = await bm25(tmp_path, "words same")
    assert headers(first) == ["B:1-1", "a-b:1-1", "a/z:1-1", "c:1-1"]
    assert await bm25(tmp_path, "words same") == first


async def test_limit_include_and_path(tmp_path: Path) -> None:
    """Eight results by default, and only from the files asked for."""
    write_files(tmp_path, {f"d/f{n}.py": "word\n" for n in range(12)} | {"d/x.md": "word\n", "y.py": "word\n"})
    assert (await bm25(tmp_path, "word")).endswith("\n8 result(s)")
    assert (await bm25(tmp_path, "word", limit=2)).endswith("\n2 result(s)")
    assert headers(await bm25(tmp_path, "word", include="*.md")) == ["d/x.md:1-1"]
    assert headers(await bm25(tmp_path, "word", path="y.py")) == ["y.py:1-1"]


@pytest.mark.parametrize("query", ["absent", "...", "\u200b"])
async def test_nothing_found(query: str, tmp_path: Path) -> None:
    """No words, or none that occur: no results, and no error."""
    write_files(tmp_path, {"a": "text\n"})
    assert await bm25(tmp_path, query) == "0 result(s)"


async def test_bounds(tmp_path: Path) -> None:
    """Files above 512 KiB are skipped; of too many, those with most of the words are ranked, and it is said."""
    files: dict[str, str | bytes] = {f"f{n:03}": "alpha\n" for n in range(MAX_FILES + 10)}
    write_files(tmp_path, {**files, "zz": "alpha beta\n", "large": b"alpha\n" * 100_000})
    result = await Caller(SearchTool(LocalProcesses()), tmp_path)(mode="bm25", query="alpha beta", limit=1)
    assert headers(result.output) == ["zz:1-1"]
    assert result.output.split("\n")[-2:] == [
        "[11 more files mention these words; narrow path or include]",
        "1 result(s)",
    ]
    search = result.metadata["search"]
    assert isinstance(search, dict)
    assert search["skipped"] == {"binary": 0, "large": 1, "protected": 0, "unreadable": 0}
    assert search["truncated"] is True
