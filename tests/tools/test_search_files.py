"""search: which files are looked at, and mode glob (tools.md §3.6, *Candidates* and *glob*)."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from search_and_bash_calls import Caller, write_files

from a3s_code.system.process import LocalProcesses
from a3s_code.tools.search import SearchTool
from a3s_code.tools.search.glob import BadGlob, Glob
from a3s_code.tools.search.ignore import Ignores


def caller(root: Path) -> Caller:
    return Caller(SearchTool(LocalProcesses()), root)


async def seen(root: Path, path: str = ".", **args: Any) -> list[str]:
    """The files whose text a search looks at."""
    output = (await caller(root)(mode="grep", query="^", path=path, output_mode="files_with_matches", **args)).output
    return output.split("\n")[:-1]


async def listed(root: Path, pattern: str, **args: Any) -> list[str]:
    return (await caller(root)(mode="glob", query=pattern, sort="path", **args)).output.split("\n")[:-1]


async def test_ignore_files(tmp_path: Path) -> None:
    """Nested ignore files, ``.ignore`` and the repository's own exclude file all count."""
    write_files(
        tmp_path,
        {
            ".git/info/exclude": "secret.txt\n",
            ".git/config": "x",
            ".gitignore": "*.log\nbuild/\n/only-top\n",
            "a.log": "x",
            "build/x": "x",
            "only-top": "x",
            "secret.txt": "x",
            "keep.txt": "x",
            ".hidden": "x",
            "sub/.gitignore": "!keep.log\nlocal\n",
            "sub/.ignore": "tmp\n",
            "sub/keep.log": "x",
            "sub/other.log": "x",
            "sub/local": "x",
            "sub/tmp": "x",
            "sub/only-top": "x",
            "sub/build": "a file, not a directory",
        },
    )
    assert await seen(tmp_path) == [
        ".gitignore",
        ".hidden",
        "keep.txt",
        "sub/.gitignore",
        "sub/.ignore",
        "sub/build",
        "sub/keep.log",
        "sub/only-top",
    ]
    assert "sub/local" not in await seen(tmp_path, "sub")


async def test_an_ignored_place_that_is_named_is_searched(tmp_path: Path) -> None:
    """Naming an ignored directory or file searches it, with the rules inside it."""
    write_files(
        tmp_path,
        {
            ".gitignore": "node_modules/\n*.log\n",
            "node_modules/p/i.js": "x",
            "node_modules/p/.gitignore": "dist",
            "a.log": "x",
            "node_modules/p/dist/d": "x",
        },
    )
    assert await seen(tmp_path) == [".gitignore"]
    assert await seen(tmp_path, "node_modules/p") == ["node_modules/p/.gitignore", "node_modules/p/i.js"]
    assert await seen(tmp_path, "a.log") == ["a.log"]


async def test_places_never_entered(tmp_path: Path) -> None:
    """Metadata directories are left out at any depth, and refused when they are named."""
    write_files(tmp_path, {f"{name}/f": "x" for name in (".git", ".hg", "a/.svn", ".a3s", "a/.a3s-code", "a/b")})
    assert await seen(tmp_path) == ["a/b/f"]
    failure = await caller(tmp_path).failure(mode="grep", query="x", path=".git/f")
    assert failure.kind == "unsupported"


async def test_links_and_special_files(tmp_path: Path) -> None:
    """§4.3: links are not followed, nothing from outside shows up, and a FIFO does not hang."""
    root = tmp_path / "root"
    write_files(tmp_path, {"outside/secret": "x", "root/in/f": "x"})
    (root / "out").symlink_to(tmp_path / "outside")
    (root / "file").symlink_to(tmp_path / "outside/secret")
    (root / "again").symlink_to("in")
    os.mkfifo(root / "fifo")
    assert await seen(root) == ["in/f"]
    assert await listed(root, "**") == ["in/f"]
    assert await seen(root, "again") == ["again/f"]
    assert (await caller(root).failure(mode="grep", query="x", path="out")).kind == "path_denied"


@pytest.mark.parametrize("path", ["..", "/etc", "a/../../x", "\0", "~", "missing"])
async def test_places_outside_or_missing(path: str, tmp_path: Path) -> None:
    """E10: a place outside the workspace is refused, never rewritten; a missing one is not found."""
    for mode in ("grep", "glob", "bm25"):
        failure = await caller(tmp_path).failure(mode=mode, query="x", path=path)
        assert failure.kind in ("path_denied", "not_found", "invalid_argument")


async def test_skipped_files_are_counted(tmp_path: Path) -> None:
    """Binary and large files are left out of text searches, and the result says how many."""
    write_files(tmp_path, {"binary": b"x\0x", "text": "x", "late": b"x" * 9000 + b"\0"})
    with (tmp_path / "large").open("wb") as file:
        file.truncate(10 * 1024 * 1024 + 1)
    result = await caller(tmp_path)(mode="grep", query="x")
    search = result.metadata["search"]
    assert isinstance(search, dict)
    assert search["skipped"] == {"binary": 1, "large": 1, "protected": 0, "unreadable": 0}
    assert search["scanned_files"] == 2
    assert await listed(tmp_path, "*") == ["binary", "large", "late", "text"]


async def test_include(tmp_path: Path) -> None:
    """A pattern with a slash is about the path below ``path``, one without about names."""
    write_files(tmp_path, {"src/a.py": "x", "src/deep/b.py": "x", "src/c.ts": "x", "d.py": "x"})
    assert await seen(tmp_path, include="*.py") == ["d.py", "src/a.py", "src/deep/b.py"]
    assert await seen(tmp_path, include="src/*.py") == ["src/a.py"]
    assert await seen(tmp_path, "src", include="deep/*") == ["src/deep/b.py"]
    assert await seen(tmp_path, include="**/*.{py,ts}") == ["d.py", "src/a.py", "src/c.ts", "src/deep/b.py"]
    assert await seen(tmp_path, "src/a.py", include="a.*") == ["src/a.py"]


async def test_names_that_fit_on_no_line(tmp_path: Path) -> None:
    """A newline or a bad byte in a name can't forge a row or break the text."""
    (tmp_path / "a\n9 match(es) in 9 file(s)").write_text("x")
    (tmp_path / os.fsdecode(b"b\xff")).write_text("x")
    assert await seen(tmp_path) == ["a?9 match(es) in 9 file(s)", "b?"]


async def test_glob_output(tmp_path: Path) -> None:
    """Newest first by default, paths in order when asked, the count as the last line."""
    write_files(tmp_path, {"a.py": "", "b.py": "", "c/d.py": "", "e.txt": ""})
    for name, when in (("a.py", 1), ("b.py", 3), ("c/d.py", 3)):
        os.utime(tmp_path / name, (when, when))
    call = caller(tmp_path)
    assert (await call(mode="glob", query="**/*.py")).output == "b.py\nc/d.py\na.py\n3 file(s)"
    assert (await call(mode="glob", query="**/*.py", sort="relevance")).output == "b.py\nc/d.py\na.py\n3 file(s)"
    assert (await call(mode="glob", query="**/*.py", sort="path")).output == "a.py\nb.py\nc/d.py\n3 file(s)"
    assert (await call(mode="glob", query="*.py", path="c")).output == "c/d.py\n1 file(s)"
    assert (await call(mode="glob", query="*.rs")).output == "No files found matching: *.rs"


async def test_glob_pages(tmp_path: Path) -> None:
    """With ``sort`` path, cursors lead through all files; without, the page says what is missing."""
    write_files(tmp_path, {f"f{n}": "" for n in range(5)})
    call = caller(tmp_path)
    rows, cursor = list[str](), dict[str, Any]()
    while True:
        result = await call(mode="glob", query="*", sort="path", limit=2, **cursor)
        lines = result.output.split("\n")
        search = result.metadata["search"]
        assert isinstance(search, dict)
        if search["next_cursor"] is None:
            break
        assert lines[2:] == [f"[more files; continue with cursor {search['next_cursor']}]", "2 file(s)"]
        rows += lines[:2]
        cursor = {"cursor": search["next_cursor"]}
    assert lines == ["f4", "1 file(s)"]
    assert rows == ["f0", "f1", "f2", "f3"]
    newest = await call(mode="glob", query="*", limit=2)
    assert newest.output.split("\n")[2:] == ["[3 more files; a cursor needs sort 'path']", "2 file(s)"]


@pytest.mark.parametrize("pattern", ["/abs/*", "../x", "a/../b", "./", "{a,b}" * 9])
async def test_bad_globs(pattern: str, tmp_path: Path) -> None:
    """Patterns that leave the place, name nothing or explode are invalid."""
    assert (await caller(tmp_path).failure(mode="glob", query=pattern)).kind == "invalid_argument"


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        ("*.py", ["a.py", ".py"], ["d/a.py", "a.pyc"]),
        ("**/*.py", ["a.py", "d/a.py", "d/e/a.py"], ["a.ts"]),
        ("src/**", ["src/a", "src/d/a"], ["src", "a"]),
        ("**", ["a", "d/a"], []),
        ("a/**/b/**/c", ["a/b/c", "a/x/b/y/z/c", "a/b/b/c/c"], ["a/c", "a/b/c/d"]),
        ("a?c", ["abc", "a北c"], ["ac", "a/c"]),
        ("[a-c]x", ["bx"], ["dx"]),
        ("[!a]x", ["bx"], ["ax"]),
        ("[^a]x", ["bx"], ["ax"]),
        ("{a,b}.{py,ts}", ["a.py", "b.ts"], ["c.py"]),
        ("{a,b/{c,d}}/x", ["a/x", "b/c/x", "b/d/x"], ["b/x"]),
        ("{a", ["{a"], ["a"]),
        ("{a}", ["{a}"], ["a"]),
        ("a{,.bak}", ["a", "a.bak"], ["a."]),
        ("./a", ["a"], ["b"]),
        ("[", ["["], ["a"]),
        ("a**b", ["ab", "axyb"], ["a/b"]),
    ],
)
def test_glob_syntax(pattern: str, yes: list[str], no: list[str]) -> None:
    """What each sign stands for."""
    glob = Glob(pattern)
    assert [path for path in yes if not glob.matches(path)] == []
    assert [path for path in no if glob.matches(path)] == []


def test_hostile_globs_end() -> None:
    """H13: patterns that make backtracking matchers explode are decided at once."""
    assert not Glob("*a" * 60 + "b").matches("a" * 250)
    assert not Glob("**/a/" * 60 + "b").matches("/".join("a" * 2000))
    assert not Glob("*{a,b}*{a,b}*{a,b}*c").matches("ab" * 120)
    ignores = Ignores("", ["*a" * 60 + "b", "**/a/" * 60 + "b"])
    assert ignores.decide("a" * 250, "a" * 250, False) is None
    with pytest.raises(BadGlob):
        Glob("{a,b}" * 2000)


async def test_ignore_case_applies_to_names(tmp_path: Path) -> None:
    """Asked for, letters in names match in either case."""
    write_files(tmp_path, {"README.md": ""})
    assert await listed(tmp_path, "readme.*", ignore_case=True) == ["README.md"]


PATHS = ["a", "b", "ab", "a.log", "d/a", "d/b", "d/e/a", "d/e/b.log", "e/d/a", "a b", "d/#x", "d/!x", "e/ab"]
_WORDS = st.sampled_from(
    [
        "a",
        "b",
        "d",
        "e",
        "ab",
        "*",
        "**",
        "?",
        "a*",
        "*.log",
        "[ab]",
        "[!a]",
        "d/",
        "/",
        "\\a",
        "\\*",
        "#x",
        "\\#x",
        "\\!x",
        " ",
    ]
)
_LINES = st.lists(
    st.tuples(st.sampled_from(["", "", "!", "/"]), st.lists(_WORDS, min_size=1, max_size=3)), min_size=1, max_size=4
)


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("repository")
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    return root


@settings(max_examples=60, deadline=None, derandomize=True)
@given(lines=_LINES)
def test_ignore_rules_mean_what_git_says(repository: Path, lines: list[tuple[str, list[str]]]) -> None:
    """For generated ignore files, git and we agree on each path."""
    rules = [sign + "/".join(words).replace("//", "/") for sign, words in lines]
    (repository / ".gitignore").write_text("\n".join(rules) + "\n")
    asked = subprocess.run(
        ["git", "-C", str(repository), "check-ignore", "--no-index", "--stdin", "-z"],
        input="\0".join(PATHS).encode(),
        capture_output=True,
        check=False,
        env={"PATH": os.environ["PATH"], "HOME": str(repository), "GIT_CONFIG_NOSYSTEM": "1"},
    )
    by_git = set(asked.stdout.decode().split("\0")) - {""}
    ignores = Ignores("", rules)
    assert {path for path in PATHS if _ignored(ignores, path)} == by_git


def _ignored(ignores: Ignores, path: str) -> bool:
    """As a walk from the top would: what is below an ignored directory is not reached."""
    parts = path.split("/")
    for depth in range(1, len(parts) + 1):
        if ignores.decide("/".join(parts[:depth]), parts[depth - 1], depth < len(parts)):
            return True
    return False
