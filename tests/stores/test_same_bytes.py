"""The same inputs, twice: the same bytes (durability.md, *Deterministic replay*; case H21)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from storehelp import KINDS

pytest_plugins = ["storefixtures"]

STORY = Path(__file__).parent / "replaystory.py"


def telling(
    dsn: str, late: str, root: Path, surroundings: Mapping[str, str], *, cwd: Path, umask: int
) -> subprocess.Popen[bytes]:
    """A process that tells the story with every store."""
    root.mkdir(parents=True)
    schema = f"same_{os.getpid()}_{late}"
    return subprocess.Popen(
        [sys.executable, str(STORY), ",".join(KINDS), dsn, schema, late, str(root)],
        stdout=subprocess.PIPE,
        env={**os.environ, **surroundings},
        cwd=cwd,
        umask=umask,
    )


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory, postgres_dsn: str) -> list[dict[str, dict[str, str]]]:
    """What two processes recorded that have only their inputs in common."""
    root = tmp_path_factory.mktemp("same")
    one = {"PYTHONHASHSEED": "1", "TZ": "UTC", "LC_ALL": "C.UTF-8", "LANG": "C.UTF-8"}
    two = {"PYTHONHASHSEED": "99", "TZ": "Asia/Kathmandu", "LC_ALL": "C", "LANG": "C", "PYTHONUTF8": "0"}
    processes = [
        telling(postgres_dsn, "left", root / "ü", one, cwd=root, umask=0o022),
        telling(postgres_dsn, "right", root / "a longer name" / "deeper", two, cwd=Path("/"), umask=0o077),
    ]
    said = [process.communicate()[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0]
    return [json.loads(each) for each in said]


@pytest.mark.parametrize("kind", KINDS)
def test_two_processes_record_the_same_bytes(kind: str, told: list[dict[str, dict[str, str]]]) -> None:
    """Whatever the machine does differently (who of two calls ends first, hash seed, time zone, locale, directory,
    umask), logs, events, traces, snapshots and checkpoints are the same."""
    one, two = (each[kind] for each in told)
    assert [name for name in one if one[name] != two[name]] == []
    assert one.keys() == two.keys()


def test_what_is_recorded_does_not_depend_on_the_store(told: list[dict[str, dict[str, str]]]) -> None:
    """The documents in a database are those in a file, byte for byte."""
    for by_kind in told:
        for kind in KINDS:
            assert [name for name, said in by_kind[kind].items() if said != by_kind["memory"][name]] == [], kind


def test_the_story_has_everything_in_it(told: list[dict[str, dict[str, str]]]) -> None:
    """What is compared is worth it: steered and answered runs, failed, recovered and waiting ones, and what was kept of
    long outputs."""
    story = told[0]["memory"]
    log = story["log of main here"] + story["log of fork-1 there"]
    for part in (
        *('"kind":"confirmation.answered"', '"kind":"call.judged"', '"source":"steer"', '"status":"failed"'),
        *('"cause":"recovery"', '"cause":"spawned"', '"media_type":"image/png"'),
    ):
        assert part in log, part
    assert '"tool.started"' not in story["left waiting: facts of fork-1"].splitlines()[-1]
    assert '"run_id":"n-' in story["left waiting: checkpoints of fork-1"]
    assert "line 0" in story["after the conversation: snapshot of main"]
    assert '"seeded":' in story["log of main there"]
    for event in ("tool_output_delta", "run_control_applied", "user_question"):
        assert f'"type": "{event}"' in story["conversation: events"], event
    for line in ("hook", "tool_call", "model_call"):
        assert f'"type": "{line}"' in story["conversation: trace"], line
    assert "waiting" not in story["conversation: trace"]
