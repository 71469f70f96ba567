"""Killed at every point, resumed, compared with the undisturbed run (facts.md, *What must be proved*)."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from children import Children, Ended
from scenario import FINAL, MARKS, UNSAFE, effects, unanswered

from a3s_code.core.facts import Fact, ToolResulted, ToolStarted
from a3s_code.stores.factlog import FileFactLog, log_path
from a3s_code.stores.syncer import Syncer

MODES = ("run", "report", "ask")


@pytest.fixture
def children() -> Iterator[Children]:
    made = Children("crash_child.py")
    yield made
    made.close()


@pytest.fixture
def fresh(tmp_path: Path) -> Callable[[], Path]:
    """Makes workspaces, one at a time, so that thousands leave nothing."""
    made: list[Path] = []

    def make() -> Path:
        for old in made:
            shutil.rmtree(old)
        made[:] = [tmp_path / "ws"]
        made[0].mkdir()
        return made[0]

    return make


def facts(workspace: Path) -> list[Fact]:
    """What a new process reads; damage raises."""
    log = FileFactLog(str(workspace), "proof", created_ms=0, syncer=Syncer())
    return list(log.read())


def lines(workspace: Path) -> list[bytes]:
    """The whole lines of the log after its header."""
    path = Path(log_path(str(workspace), "proof"))
    whole = path.read_bytes().split(b"\n")[:-1] if path.exists() else []
    return whole[1:]


def check(workspace: Path, children: Children, mode: str, killed: Ended, undisturbed: list[bytes], where: str) -> None:
    """Resumes what ``killed`` left, and holds it against the undisturbed run."""
    for mark in MARKS:
        (workspace / mark).unlink(missing_ok=True)
    kept = lines(workspace)
    assert len(kept) >= killed.acked, f"{where}: fact {killed.acked} was acknowledged, {len(kept)} are left"
    assert kept == undisturbed[: len(kept)], f"{where}: the log is no beginning of the undisturbed one"
    states, before = unanswered(facts(workspace)), effects(workspace)
    resumed = children.run(workspace, "resume", mode)
    assert resumed.text == FINAL, f"{where}: {resumed.text!r}"
    after, outcomes = effects(workspace), unanswered(facts(workspace))
    for name in UNSAFE:
        expected = before[name] if states.get(name) == "done" else 1
        if states.get(name) == "begun":
            expected = before[name] + (mode == "run")
        assert after[name] == expected, f"{where}: {name} happened {before[name]}, then {after[name]} times"
        assert outcomes[name] == "done", f"{where}: {name} has no result"
    unknown = [f.data for f in facts(workspace) if isinstance(f.data, ToolResulted) and f.data.outcome == "unknown"]
    begun = [name for name in UNSAFE if states.get(name) == "begun"]
    assert len(unknown) == (0 if mode == "run" else len(begun)), f"{where}: the log doesn't say what is not known"
    again = [f.data for f in facts(workspace) if isinstance(f.data, ToolStarted) and f.data.attempt > 1]
    repeated = [each for each in again if each.rerun == "unsafe"]
    assert len(repeated) == (len(begun) if mode == "run" else 0), f"{where}: the log doesn't say what ran again"
    settled = lines(workspace)
    assert children.run(workspace, "resume", mode).text == FINAL
    assert lines(workspace) == settled, f"{where}: a quiescent log took a step"


@pytest.mark.parametrize("mode", MODES)
def test_killed_at_every_disk_operation(
    mode: str, children: Children, fresh: Callable[[], Path], tell: Callable[[str], None]
) -> None:
    """A run killed before or in the middle of any operation on its log, or with everything unsynced taken back, loses
    no acknowledged fact, doubles no effect that it may not, and ends with the same text."""
    workspace = fresh()
    whole = children.run(workspace, "run", mode)
    undisturbed = lines(workspace)
    assert (whole.text, effects(workspace)) == (FINAL, dict.fromkeys(UNSAFE, 1))
    assert whole.operations > 50
    slack = 6 if mode == "ask" else 0  # an answer and the run that it wakes may share a sync, or not
    tried = 0
    for when in ("before", "middle", "power"):
        for at in range(1, whole.operations + 1):
            workspace = fresh()
            killed = children.run(workspace, "run", mode, at=at, when=when)
            assert killed.killed or at > whole.operations - slack, f"operation {at} was not reached"
            check(workspace, children, mode, killed, undisturbed, f"{mode}, {when} operation {at}")
            tried += 1
    tell(f"crash proof, unknown_outcome={mode}: killed at {tried} points of {whole.operations} disk operations")


def test_the_proof_would_notice(children: Children, fresh: Callable[[], Path]) -> None:
    """Without syncs the same power cuts do lose acknowledged facts, so the proof above can fail."""
    lost = 0
    for at in range(1, 40):
        workspace = fresh()
        killed = children.run(workspace, "run", "report", at=at, when="power", options={"log_durability": "os"})
        lost += len(lines(workspace)) < killed.acked
    assert lost > 10


@pytest.mark.parametrize("mode", MODES)
def test_killed_around_every_effect(
    mode: str, children: Children, fresh: Callable[[], Path], tell: Callable[[str], None]
) -> None:
    """The same for a death right before or after each tool's effect."""
    workspace = fresh()
    assert children.run(workspace, "run", mode).text == FINAL
    undisturbed = lines(workspace)
    for mark in MARKS:
        workspace = fresh()
        (workspace / mark).touch()
        killed = children.run(workspace, "run", mode)
        assert killed.killed, mark
        check(workspace, children, mode, killed, undisturbed, f"{mode}, {mark}")
    tell(f"crash proof, unknown_outcome={mode}: killed before and after effects at {len(MARKS)} points")


@pytest.mark.parametrize("mode", MODES)
def test_killed_again_while_resuming(
    mode: str, children: Children, fresh: Callable[[], Path], tell: Callable[[str], None]
) -> None:
    """A resumed run that is killed as well loses nothing either; what was not known stays not known."""
    tried = 0
    for mark in ("kill-after-ann", "kill-after-bash", "kill-before-bob"):
        at = 1
        while True:
            workspace = fresh()
            (workspace / mark).touch()
            children.run(workspace, "run", mode)
            (workspace / mark).unlink()
            first = lines(workspace)
            killed = children.run(workspace, "resume", mode, at=at, when="middle")
            if not killed.killed:
                break
            assert lines(workspace)[: len(first)] == first
            assert len(lines(workspace)) >= killed.acked
            before = effects(workspace)
            assert children.run(workspace, "resume", mode).text == FINAL
            after = effects(workspace)
            most = 1 if mode != "run" else 3
            assert all(before[name] <= after[name] <= most for name in UNSAFE), f"{mode}, {mark}, {at}: {after}"
            tried += 1
            at += 2
    tell(f"crash proof, unknown_outcome={mode}: killed a second time while resuming at {tried} points")
