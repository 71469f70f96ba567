"""A small repository to try things on. In: a directory. Out: the files of a believable project, and its history.

One rule: nothing that exists is overwritten.
Known weakness: without git there is no history, and nobody is told.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from a3s_code.ports.process import Processes

_ENDING = ".sample"  # keeps linters, type checkers and test runners away from the files in this package
_COMMITS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("Keep entries in a ledger", ("README.md", "pyproject.toml", ".gitignore", "tally/__init__.py", "tally/ledger.py")),
    ("Read and write the ledger as CSV", ("tally/storage.py", "tests/test_ledger.py")),
    ("Report by month and category, warn about budgets", ("tally/report.py", "tests/test_report.py")),
    ("Add the command line and a changelog", (".",)),
)
_AUTHOR = "Ada Example"
_EMAIL = "ada@example.com"


def sample_files() -> dict[str, str]:
    """Path → text, in the order of paths; paths are relative and ``/``-separated."""
    found = dict(_walk(files("a3s_code.cli") / "sample", ""))
    return dict(sorted(found.items()))


def _walk(place: Traversable, prefix: str) -> Iterator[tuple[str, str]]:
    for entry in place.iterdir():
        if entry.is_dir():
            yield from _walk(entry, f"{prefix}{entry.name}/")
        elif entry.name.endswith(_ENDING):
            name = entry.name.removesuffix(_ENDING)
            yield prefix + (".gitignore" if name == "gitignore" else name), entry.read_text("utf-8")


def write_sample(directory: Path) -> list[str]:
    """Writes the files and gives their paths. Raises ``FileExistsError``, and writes nothing, when one is there."""
    wanted = sample_files()
    taken = [name for name in wanted if (directory / name).exists()]
    if taken:
        raise FileExistsError(f"{directory / taken[0]} exists; the sample needs a new directory")
    for name, text in wanted.items():
        target = directory / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, "utf-8")
    return list(wanted)


async def commit_sample(directory: Path, processes: Processes, environ: dict[str, str]) -> bool:
    """Makes the written sample a git repository with a few commits of fixed authors and dates; false without git.

    ``environ`` is what git is found and run with (``PATH``). A user's own git settings are left out of it.
    """
    if not await _git(directory, processes, environ, ["init", "-q", "-b", "main"], 0):
        return False
    for number, (message, paths) in enumerate(_COMMITS, 1):
        added = await _git(directory, processes, environ, ["add", "--", *paths], number)
        if not added or not await _git(directory, processes, environ, ["commit", "-q", "-m", message], number):
            return False
    return True


async def _git(directory: Path, processes: Processes, environ: dict[str, str], args: list[str], day: int) -> bool:
    when = f"2024-03-{day + 10:02}T09:00:00+00:00"
    who = {f"GIT_{role}_{part}": value for role in ("AUTHOR", "COMMITTER") for part, value in _identity(when)}
    env = {**environ, **who, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1", "GIT_TERMINAL_PROMPT": "0"}
    outcome = await processes.run(
        ["git", *args], cwd=str(directory), env=env, timeout_ms=20_000, cancelled=asyncio.Event()
    )
    return outcome.exit_code == 0


def _identity(when: str) -> list[tuple[str, str]]:
    return [("NAME", _AUTHOR), ("EMAIL", _EMAIL), ("DATE", when)]
