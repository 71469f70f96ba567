"""The sample repository is whole, honest about its bug, and written without harm."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from a3s_code.cli.sample_repo import commit_sample, sample_files, write_sample
from a3s_code.system.process import LocalProcesses


def test_the_files_make_a_project_whose_tests_pass_though_it_has_a_bug(tmp_path: Path) -> None:
    """A user can run its tests; the bug that is worth finding is really one."""
    assert write_sample(tmp_path) == list(sample_files())
    assert {"README.md", "pyproject.toml", ".gitignore", "tally/report.py", "tests/test_report.py"} <= set(
        sample_files()
    )
    line = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    tests = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert tests.returncode == 0, tests.stdout
    program = (
        "from datetime import date\nfrom decimal import Decimal\nfrom tally.ledger import *\n"
        "from tally.report import by_month\n"
        "print(by_month(Ledger([Entry(date(2024, 1, 1), Decimal(5), 'food')])))"
    )
    shown = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert shown.stdout == "{}\n"


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    """A file that is there stops everything before the first write."""
    (tmp_path / "README.md").write_text("mine")
    with pytest.raises(FileExistsError, match=r"README\.md"):
        write_sample(tmp_path)
    assert os.listdir(tmp_path) == ["README.md"]
    assert (tmp_path / "README.md").read_text() == "mine"


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
async def test_the_history_is_the_same_everywhere(tmp_path: Path) -> None:
    """A few commits, all files in them, and the same ids in every directory, whatever the user's git settings are."""
    heads = []
    for name in ("a", "b"):
        root = tmp_path / name
        root.mkdir()
        write_sample(root)
        assert await commit_sample(root, LocalProcesses(), {"PATH": os.environ["PATH"]})
        lines = ["git", "-C", str(root)]
        log = subprocess.run([*lines, "log", "--format=%H %s"], capture_output=True, text=True, check=True).stdout
        state = subprocess.run([*lines, "status", "--short"], capture_output=True, text=True, check=True).stdout
        assert state == ""
        assert log.count("\n") == 4
        heads.append(log)
    assert heads[0] == heads[1]


async def test_without_git_there_is_no_history_and_no_harm(tmp_path: Path) -> None:
    """A machine without git gets the files all the same."""
    write_sample(tmp_path)
    assert not await commit_sample(tmp_path, LocalProcesses(), {"PATH": str(tmp_path)})
