"""Killed at every write of a store or log, resumed from the store alone or with the log (durability.md, *Resuming*).

What is guaranteed, and held against the undisturbed run here:

- **Elsewhere** (another workspace, nothing but the store): what the store had acknowledged is there. The facts of the
  last acknowledged checkpoint are the beginning of the new log, byte for byte; a call whose result they hold is not
  run again and a turn they hold is not asked for again; a session that was saved has its messages and labels; the end
  has the same text and conversation.
- **Lost with a machine** is what only its log held: all after the last checkpoint. Those come with each answer, before
  an unsafe call begins (unless ``unknown_outcome="run"`` has it run again anyhow), and after each result (of a
  parallel group: the last one). So no unsafe call runs twice elsewhere but with ``"run"``, and then at most the one
  that had begun last. A steer that was accepted and not applied is lost with its process, also where the log is.
- **In the same workspace** the log is as new as the store, or newer: nothing acknowledged is lost, and a call that had
  begun runs again only with ``unknown_outcome="run"``.

Left out: MemorySessionStore, which ends with its process.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Final, NamedTuple

import pytest
from children import Children, Ended
from scenario import FINAL, STEER, UNSAFE, effects, unanswered
from test_crash_proof import facts, lines

sys.path.append(str(Path(__file__).parents[1] / "stores"))
pytest_plugins = ["storefixtures"]

STORES: Final = ("file", "encrypted", "sqlite", "postgres")
MODES: Final = ("run", "report", "ask")
PLACES: Final = ("elsewhere", "same")
AT_ONCE: Final = 2
SEED: Final = os.environ.get("A3S_PROOF_SEED") or str(random.randrange(10**6))
SECOND_KILLS: Final = 40
ONLY: Final = os.environ.get("A3S_PROOF_POINT")


class Point(NamedTuple):
    """Where a process is killed: at a point of its store, or at an operation on a disk, and how."""

    seam: str
    at: int
    when: str = ""

    def command(self) -> dict[str, Any]:
        return {"point": self.at} if self.seam == "store" else {"at": self.at, "when": self.when}


class Case(NamedTuple):
    """A run that is killed at ``point``, resumed at ``place``, and perhaps killed there too."""

    mode: str
    place: str
    point: Point
    again: Point | None = None

    def __str__(self) -> str:
        points = [":".join(str(part) for part in each if part) for each in (self.point, self.again) if each]
        return "/".join((self.mode, self.place, *points))


class Left(NamedTuple):
    """What a store held when it was looked at."""

    seq: int
    sum: str
    states: dict[str, str]
    checkpoints: list[str]
    digest: str | None
    messages: list[dict[str, Any]]
    labels: dict[str, str] | None
    record: dict[str, Any] | None

    @property
    def done(self) -> set[str]:
        """The unsafe calls whose results it holds."""
        return set(UNSAFE) if self.digest else {name for name in UNSAFE if self.states.get(name) == "done"}


def left(ended: Ended, word: str) -> Left:
    return Left(**json.loads(ended.said[word]))


class Undisturbed(NamedTuple):
    log: list[bytes]
    sums: list[str]
    left: Left
    points: int
    operations: int


class Lab:
    """Places for one store of a kind, and children that use them; one at a time uses it."""

    def __init__(self, root: Path, kind: str, dsn: str, number: int) -> None:
        self.children = Children("store_child.py")
        self._root = root
        self._kind = kind
        self._dsn = dsn
        self._name = f"proof_{os.getpid()}_{number}"
        self._store: dict[str, str] = {}

    def anew(self) -> Path:
        """An empty store and an empty workspace."""
        shutil.rmtree(self._root, ignore_errors=True)
        self._root.mkdir()
        self._store = {"kind": self._kind, "directory": str(self._root), "dsn": self._dsn, "schema": self._name}
        return self.workspace()

    def workspace(self, like: Path | None = None) -> Path:
        """Another workspace; it has the ordinary files of the one that it is ``like``, and none of its log."""
        made = self._root / f"ws{len(list(self._root.glob('ws*')))}"
        made.mkdir()
        if like is not None and (like / "effects.txt").exists():
            shutil.copy(like / "effects.txt", made)
        return made

    def run(self, workspace: Path, do: str, mode: str, point: Point | None = None) -> Ended:
        how = {} if point is None else point.command()
        return self.children.run(workspace, do, mode, store=self._store, **how)

    def undisturbed(self, mode: str) -> Undisturbed:
        workspace = self.anew()
        ended = self.run(workspace, "run", mode)
        log = lines(workspace)
        assert (ended.text, effects(workspace)) == (FINAL, dict.fromkeys(UNSAFE, 1))
        return Undisturbed(
            log,
            [json.loads(line)["sum"] for line in log],
            left(ended, "left"),
            int(ended.said["points"]),
            ended.operations,
        )


def parsed(text: str) -> Case:
    """What ``str`` of a case says."""
    mode, place, *points = text.split("/")
    read = []
    for each in points:
        seam, at, when = (*each.split(":"), "")[:3]
        read.append(Point(seam, int(at), when))
    return Case(mode, place, *read)


def conversation(messages: list[dict[str, Any]], *, outputs: bool) -> list[dict[str, Any]]:
    """Without the steer, which stands where the run was when it came, and with calls numbered: a model's ids for them
    are its process's."""
    numbers: dict[str, int] = {}
    said = []
    for message in messages:
        each = dict(message)
        if each["content"] == STEER:
            continue
        if each["role"] == "tool":
            each["tool_call_id"] = numbers[each["tool_call_id"]]
            each["content"] = each["content"] if outputs else ""
        elif "tool_calls" in each:
            each["tool_calls"] = [
                {**call, "id": numbers.setdefault(call["id"], len(numbers))} for call in each["tool_calls"]
            ]
        said.append(each)
    return said


def try_case(lab: Lab, case: Case, whole: Undisturbed) -> str:
    """What came of it: ``again`` when a call that only a lost log knew of ran once more, ``unreached``, or ``held``."""
    workspace = lab.anew()
    killed = [lab.run(workspace, "run", case.mode, case.point)]
    if not killed[0].killed:
        return "unreached"
    kept = lines(workspace)
    assert kept == whole.log[: len(kept)], "the log is no beginning of the undisturbed one"
    assert len(kept) >= killed[0].acked, f"fact {killed[0].acked} was acknowledged, {len(kept)} are left"
    place = workspace if case.place == "same" else lab.workspace(like=workspace)
    if case.again is not None:
        killed.append(lab.run(place, "resume", case.mode, case.again))
        place = place if case.place == "same" else lab.workspace(like=place)
    before, states = effects(place), unanswered(facts(place)) if lines(place) else {}
    resumed = lab.run(place, "resume", case.mode)
    found, end = left(resumed, "found"), left(resumed, "left")
    check_kept(killed, found)
    states = found.states | states | dict.fromkeys(found.done, "done")
    known = case.mode == "run" or not (case.again or "begun" in states.values())
    check_end(resumed, end, whole, outputs=known)
    steers = sum(message["content"] == STEER for message in end.messages)
    assert steers == 1 or (steers == 0 and case.again), f"{steers} steers: {end.messages}"
    if case.again is None:
        check_facts(case, resumed, lines(place), len(kept), found, whole)
    return check_effects(case, before, effects(place), states)


def check_kept(killed: list[Ended], found: Left) -> None:
    """Whatever the dead were told that the store keeps is there."""
    said = {word: rest for each in killed for word, rest in each.said.items()}
    if "deletes" not in said:
        assert found.seq >= int(said.get("kept", 0)), f"checkpoint {said['kept']} was acknowledged, {found.seq} is left"
    if "saved" in said and found.digest != said["saved"]:
        saving = "saves" in killed[-1].said and "saved" not in killed[-1].said  # died before it knew of the next one
        assert saving, "an acknowledged snapshot is gone"
        assert found.messages[-1]["content"] == FINAL, "the conversation of an acknowledged snapshot is gone"
    if said.get("settled") == "the-run":
        assert found.record is not None, "an acknowledged record is gone"
        assert found.record["text"] == FINAL


def check_end(resumed: Ended, end: Left, whole: Undisturbed, *, outputs: bool) -> None:
    """The session's end, and what the store has of it then, are those of the undisturbed run."""
    assert resumed.text == FINAL, f"it ended with {resumed.text!r}"
    assert end.checkpoints == [], f"checkpoints of runs that have ended are left: {end.checkpoints}"
    assert end.digest is not None, "the session that has ended isn't saved"
    assert end.labels == whole.left.labels, f"the labels are {end.labels}"
    told, expected = (conversation(each.messages, outputs=outputs) for each in (end, whole.left))
    assert told == expected, f"the saved conversation is another: {told}"


def check_facts(case: Case, resumed: Ended, now: list[bytes], kept: int, found: Left, whole: Undisturbed) -> None:
    """The new log begins with what was kept, and no stored turn was asked for again."""
    if found.seq:
        assert found.sum == whole.sums[found.seq - 1], "the checkpoint is no beginning of the undisturbed log"
    known = max(found.seq, kept if case.place == "same" else 0)
    if case.place == "same" or found.digest is None:
        assert now[:known] == whole.log[:known], "the log doesn't begin with what was kept"
    if found.digest is not None:
        known = len(whole.log)
    turns = sum(b'"kind":"model.turn"' in line for line in whole.log[known:])
    assert int(resumed.said["asked"]) == turns, f"the model was asked {resumed.said['asked']} times for {turns} turns"


def check_effects(case: Case, before: dict[str, int], after: dict[str, int], states: dict[str, str]) -> str:
    unknown = [name for name in UNSAFE if states.get(name) not in ("done", "begun") and before[name]]
    for name in UNSAFE:
        more = {"done": 0, "begun": int(case.mode == "run")}.get(states.get(name, ""), 1)
        assert after[name] == before[name] + more, f"{name} happened {before[name]}, then {after[name]} times"
    allowed = int(case.place == "elsewhere" and case.mode == "run")
    assert len(unknown) <= allowed, f"calls that the facts don't tell of ran again: {unknown}"
    return "again" if unknown else "held"


def cases(kind: str, whole: Undisturbed) -> list[Case]:
    """Every point, resumed at every place; how it dies at an operation, and the mode, are the seed's choice."""
    if ONLY is not None:
        return [parsed(ONLY)]
    chance = random.Random(f"{SEED}/{kind}")
    points = [Point("store", at) for at in range(1, whole.points + 1)]
    points += [Point("disk", at, chance.choice(("before", "middle", "power"))) for at in range(1, whole.operations + 1)]
    return [Case(chance.choice(MODES), place, point) for point in points for place in PLACES]


def cases_again(kind: str, whole: Undisturbed) -> list[Case]:
    """A sample of points, with another one for the process that resumes."""
    if ONLY is not None:
        return [parsed(ONLY)]
    chance = random.Random(f"{SEED}/{kind}/again")
    return [
        Case(
            chance.choice(MODES),
            chance.choice(PLACES),
            Point("store", chance.randint(4, whole.points - 10)),
            Point("store", chance.randint(1, whole.points - 10)),
        )
        for _ in range(SECOND_KILLS)
    ]


def tried(labs: list[Lab], wanted: list[Case], whole: dict[str, Undisturbed], test: str) -> Counter[str]:
    """Tries all cases, as many at once as there are labs; the first failure says how to repeat it."""
    free: SimpleQueue[Lab] = SimpleQueue()
    for lab in labs:
        free.put(lab)

    def one(case: Case) -> str:
        lab = free.get()
        try:
            return try_case(lab, case, whole[case.mode])
        except AssertionError as error:
            again = f"A3S_PROOF_SEED={SEED} A3S_PROOF_POINT={case} pytest 'tests/prove/{Path(__file__).name}::{test}'"
            raise AssertionError(f"{case}: {error}\nto repeat it: {again}") from error
        finally:
            free.put(lab)

    with ThreadPoolExecutor(len(labs)) as threads:
        futures = [threads.submit(one, case) for case in wanted]
        try:
            return Counter(future.result() for future in futures)
        finally:
            threads.shutdown(cancel_futures=True)


@pytest.fixture(params=STORES)
def kind(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def labs(kind: str, quick: Path, request: pytest.FixtureRequest) -> Iterator[list[Lab]]:
    dsn = str(request.getfixturevalue("postgres_dsn")) if kind == "postgres" else ""
    made = [Lab(quick / str(number), kind, dsn, number) for number in range(AT_ONCE)]
    yield made
    for lab in made:
        lab.children.close()


def test_killed_at_every_point(kind: str, labs: list[Lab], tell: Callable[[str], None]) -> None:
    """A run killed at any write of its store, inside it or around its commit, or at any operation of a disk goes on
    elsewhere and in its own workspace, and keeps what is guaranteed above."""
    whole = {mode: labs[0].undisturbed(mode) for mode in MODES}
    wanted = cases(kind, whole["report"])
    came = tried(labs, wanted, whole, f"test_killed_at_every_point[{kind}]")
    tell(
        f"store proof, {kind}, seed {SEED}: killed at {len(wanted) - came['unreached']} points "
        f"({came['again']} of them in a call that only a lost log knew, which ran once more)"
    )
    assert ONLY or came["unreached"] < len(wanted) // 10, came


def test_killed_again_while_resuming(kind: str, labs: list[Lab], tell: Callable[[str], None]) -> None:
    """The same when the process that resumes is killed as well, and a third one goes on, by the first run's id."""
    whole = {mode: labs[0].undisturbed(mode) for mode in MODES}
    wanted = cases_again(kind, whole["report"])
    came = tried(labs, wanted, whole, f"test_killed_again_while_resuming[{kind}]")
    tell(f"store proof, {kind}, seed {SEED}: killed a second time at {len(wanted) - came['unreached']} points")
