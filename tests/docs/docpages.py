"""The pages of the documentation as programs. In: a Markdown page. Out: what its examples print, compared.

One rule: what a reader can copy is what runs: blocks are taken from the page as they are printed.
Known weakness: a shell example that needs the network, or minutes, is fenced as ``sh`` and is not run.

``python`` blocks of a page share a namespace, in order, in an empty directory of their own; one with a top-level
``await`` runs as in a notebook. ``console`` blocks are run line by line. A ``text`` block right after a ``python``
block is what it prints; ``…`` stands for anything. A block after ``<!-- file: NAME -->`` is written there.
"""

from __future__ import annotations

import ast
import asyncio
import contextlib
import io
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import CodeType
from typing import NamedTuple

ROOT = Path(__file__).parent.parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
_FENCE = re.compile(r"(?P<indent> *)```(?P<kind>\w*)\s*")
_FILE = re.compile(r"<!-- file: (?P<name>\S+) -->")


class Block(NamedTuple):
    """``line`` is where the text begins, from 1; ``follows`` says that only blank lines part it from the block before;
    ``file`` is the name it is to be written under."""

    kind: str
    text: str
    line: int
    follows: bool
    file: str | None


def blocks(page: str) -> Iterator[Block]:
    lines = page.split("\n")
    at, between, named = 0, True, None
    while at < len(lines):
        fence = _FENCE.fullmatch(lines[at])
        if fence is None:
            found = _FILE.fullmatch(lines[at])
            named = found["name"] if found else named
            between = between or bool(lines[at].strip())
            at += 1
            continue
        end = next(i for i in range(at + 1, len(lines)) if lines[i].strip() == "```")
        body = [line.removeprefix(fence["indent"]) for line in lines[at + 1 : end]]
        yield Block(fence["kind"], "".join(f"{line}\n" for line in body), at + 2, not between, named)
        at, between, named = end + 1, False, None


def check_page(path: Path) -> None:
    """Runs a page in the working directory, which is empty. Raises what an example raises, at the page's own line, and
    ``AssertionError`` where something else is printed."""
    namespace: dict[str, object] = {"__name__": "__main__"}
    printed = ""
    with asyncio.Runner() as runner:
        for block in blocks(path.read_text("utf-8")):
            where = f"{path.name}:{block.line}"
            if block.file is not None:
                Path(block.file).write_text(block.text, "utf-8")
            elif block.kind == "python":
                printed = run_python(block.text, namespace, where=str(path), line=block.line, runner=runner)
            elif block.kind == "text" and block.follows and printed:
                compare(printed, block.text, where)
            elif block.kind == "console":
                check_console(block.text, where)
            if block.kind != "python":
                printed = ""


def run_python(source: str, namespace: dict[str, object], *, where: str, line: int, runner: asyncio.Runner) -> str:
    """What ``source`` prints. Its lines count from ``line`` on, so that a traceback points into the page."""
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    code = compile("\n" * (line - 1) + source, where, "exec", flags, dont_inherit=True)
    assert isinstance(code, CodeType)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        waited = eval(code, namespace)
        if waited is not None:
            runner.run(waited)
    return printed.getvalue()


def check_console(text: str, where: str) -> None:
    """Each line after ``$`` is run by a shell; the lines up to the next are what it prints."""
    for command, expected in commands(text):
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        environ = {**os.environ, "PATH": path, "NO_COLOR": "1", "COLUMNS": "120"}
        done = subprocess.run(
            ["bash", "-c", command],
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=60,
        )
        compare(done.stdout, expected, f"{where} ({command})")


def commands(text: str) -> Iterator[tuple[str, str]]:
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, _, expected = part.partition("\n")
        yield command, expected


def compare(printed: str, expected: str, where: str) -> None:
    pattern = ".*?".join(re.escape(part) for part in expected.rstrip().split("…"))
    assert re.fullmatch(pattern, printed.rstrip(), re.DOTALL), (
        f"{where}\n--- the page says\n{expected}\n--- it printed\n{printed}"
    )
