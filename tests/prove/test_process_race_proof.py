"""Processes race for one session in a real store, are stopped and killed, and their stories must fit together.

See quality.md, *Proofs*, and cases C04 and C05.

``A3S_PROOF_SEED=17 pytest tests/prove/test_process_race_proof.py`` makes the trouble of seed 17.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

sys.path.append(str(Path(__file__).parents[1] / "stores"))
pytest_plugins = ["storefixtures"]

LINES = {"file": 20_000, "encrypted": 6_000, "sqlite": 20_000, "postgres": 6_000}
NEVER = 1 << 62


@dataclass
class Call:
    """What a node was told. One that a kill cut off may have been done, and never ends."""

    node: int
    name: str
    began: int
    epoch: int | None
    value: Any
    ended: int = NEVER
    answer: Any = "cut off"


def read(output: str) -> list[Call]:
    calls: list[Call] = []
    begun: dict[int, Call] = {}
    for line in output.splitlines():
        said = json.loads(line)
        assert "failed" not in said, said["failed"]
        if "call" in said:
            call = Call(said["node"], said["call"], said["began"], said.get("epoch"), said.get("value"))
            begun[call.node] = call
            calls.append(call)
        else:
            begun[said["node"]].ended, begun[said["node"]].answer = said["ended"], said["answer"]
    return sorted(calls, key=lambda call: call.began)


def check(calls: list[Call]) -> dict[str, int]:
    """Raises ``AssertionError`` for a story that can't be true of one holder at a time."""
    granted = [call for call in calls if call.name == "acquire" and isinstance(call.answer, int)]
    holders: dict[int, int] = {}
    for call in granted:
        assert holders.setdefault(call.answer, call.node) == call.node, f"epoch {call.answer} was given to two nodes"
    in_time(granted, lambda call: call.answer, "an epoch")
    accepted = [call for call in calls if call.name == "write" and call.answer not in ("LEASE_LOST", None, "cut off")]
    for call in [*accepted, *(call for call in calls if call.name == "admit" and call.answer is None)]:
        assert call.epoch is not None
        later = [each for each in granted if each.answer > call.epoch and each.ended < call.began]
        assert not later, f"{call} was accepted after {later[0]}"
    values = [call.value for call in accepted]
    assert len(values) == len(set(values)), "an update was lost: two writes followed the same one"
    reads = [call for call in calls if call.name == "read" and call.ended != NEVER]
    in_time([*accepted, *reads], lambda call: call.value or call.answer or 0, "a generation")
    cut_off = {call.value for call in calls if call.name == "write" and call.answer == "cut off"}
    seen = {call.answer for call in reads} - {None}
    assert seen <= set(values) | cut_off, f"generations that nobody wrote: {seen - set(values) - cut_off}"
    for run in {call.value for call in calls if call.name == "admit"}:
        told = [call.answer for call in calls if call.name == "admit" and call.value == run]
        assert told.count(None) <= 1, f"{run} was admitted twice"
        assert told.count(None) == 1 or "known" not in told or "cut off" in told, f"nobody was given {run}"
    lost = sum(call.answer == "LEASE_LOST" for call in calls)
    return {"grants": len(granted), "writes": len(accepted), "writes of who had lost the lease": lost}


def in_time(calls: list[Call], number: Callable[[Call], int], what: str) -> None:
    """What began after another had ended has no lower number."""
    highest = 0
    ended = sorted(calls, key=lambda call: call.ended)
    at = 0
    for call in sorted(calls, key=lambda call: call.began):
        while ended[at].ended < call.began:
            highest = max(highest, number(ended[at]))
            at += 1
        assert number(call) >= highest, f"{what} went back from {highest}: {call}"


@pytest.mark.parametrize("kind", LINES)
def test_processes_that_race_tell_one_story(
    kind: str, quick: Path, request: pytest.FixtureRequest, tell: Callable[[str], None]
) -> None:
    """However processes are stopped and killed, each epoch has one holder, no write is accepted once a later holder was
    told that it is one, no update is lost, and nobody reads an older generation than somebody before."""
    seed = os.environ.get("A3S_PROOF_SEED") or str(random.randrange(10**6))
    dsn = str(request.getfixturevalue("postgres_dsn")) if kind == "postgres" else ""
    command = [sys.executable, str(Path(__file__).parent / "race_child.py"), kind, str(quick), dsn, "race_processes"]
    done = subprocess.run([*command, seed, str(LINES[kind])], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    try:
        calls = read(done.stdout)
        seen = check(calls)
        assert min(seen.values()) > 5, seen
    except AssertionError as error:
        raise AssertionError(f"{kind}: {error}\nagain: A3S_PROOF_SEED={seed} pytest {__file__} -k {kind}") from error
    killed = len({call.node for call in calls}) - 3
    counts = ", ".join(f"{count} {what}" for what, count in seen.items())
    tell(f"process race proof, {kind}, seed {seed}: {len(calls)} calls, {counts}, {killed} processes killed")


def test_the_check_finds_a_write_of_an_earlier_holder() -> None:
    """A story in which a holder writes after another became one is no true story."""
    calls = [
        Call(1, "acquire", 1, None, None, 2, 1),
        Call(2, "acquire", 3, None, None, 4, 2),
        Call(1, "write", 5, 1, 1, 6, "digest"),
    ]
    with pytest.raises(AssertionError, match="was accepted after"):
        check(calls)
