"""``sessions``, ``runs`` and ``log``: what is listed, shown, found damaged, mended and replayed."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from a3s_code.cli.facts import told
from a3s_code.cli.listing import ago
from a3s_code.cli.main import main
from a3s_code.core.content import AttachmentRef, Call, Verdict
from a3s_code.core.facts import (
    KIND_OF,
    BudgetDenied,
    CallJudged,
    CompactionDone,
    ConfirmationAnswered,
    Fact,
    FactData,
    ModelTurn,
    QuestionAnswered,
    RunClosed,
    RunOpened,
    ToolResulted,
    ToolStarted,
    UserSaid,
)
from a3s_code.core.facts.runs import Failure
from a3s_code.stores.logfile import read_log


@pytest.fixture
def log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """The log of one session with two runs of the offline model."""
    (tmp_path / "README.md").write_text("# Kites\n\nHow to build kites.\n")
    config = tmp_path / "agent.acl"
    config.write_text('default_model = "offline/scout"')
    assert main(["run", "-w", str(tmp_path), "summarise this repository"]) == 0
    (made,) = (tmp_path / ".a3s" / "effect-log").glob("*.jsonl")
    assert main(["run", "-w", str(tmp_path), "--session", made.stem, "hello"]) == 0
    capsys.readouterr()
    return made


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, list[str]]:
    code = main(arguments)
    return code, capsys.readouterr().out.splitlines()


def test_sessions_lists_what_is_in_the_workspace(log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One line a session: id, age, runs, status, first prompt; the same as JSON."""
    code, lines = printed(capsys, "sessions", "-w", str(tmp_path))
    assert code == 0
    assert lines[0].split() == ["session", "last", "fact", "runs", "status", "first", "prompt"]
    assert lines[1].split() == [log.stem, "just", "now", "2", "completed", "summarise", "this", "repository"]
    _, lines = printed(capsys, "sessions", "-w", str(tmp_path), "--json")
    session = json.loads(lines[0])
    assert (session["id"], session["status"], len(session["runs"])) == (log.stem, "completed", 2)


def test_a_workspace_without_sessions_says_how_to_begin(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No empty table."""
    assert main(["sessions", "-w", str(tmp_path)]) == 0
    printed_ = capsys.readouterr()
    assert printed_.out == ""
    assert "a3s-code run" in printed_.err


def test_runs_lists_the_records_of_a_session(
    log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each run with its status, steps and prompt, by the beginning of the session's id too."""
    monkeypatch.setenv("COLUMNS", "120")
    code, lines = printed(capsys, "runs", log.stem[:6], "-w", str(tmp_path))
    assert code == 0
    assert [line.split()[-1] for line in lines] == ["prompt", "repository", "hello"]
    assert all("completed" in line for line in lines[1:])
    _, lines = printed(capsys, "runs", log.stem, "-w", str(tmp_path), "--json")
    assert [json.loads(line)["prompt"] for line in lines] == ["summarise this repository", "hello"]


def test_a_run_nobody_works_on_is_told_as_left_open(
    log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without its closing fact a run is open; with a living holder beside the log it is at work."""
    log.write_bytes(b"\n".join(log.read_bytes().split(b"\n")[:-2]) + b"\n")
    _, lines = printed(capsys, "sessions", "-w", str(tmp_path))
    assert "left open" in lines[1]
    log.with_suffix(".lock").write_text(json.dumps({"pid": os.getpid(), "host": os.uname().nodename}))
    for arguments in (["sessions"], ["runs", log.stem]):
        _, lines = printed(capsys, *arguments, "-w", str(tmp_path))
        assert "running" in lines[-1]


def test_show_prints_a_line_a_fact(log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Number, time, kind and words; as JSON the very lines of the file."""
    code, lines = printed(capsys, "log", "show", log.stem, "-w", str(tmp_path))
    assert code == 0
    assert [int(line.split()[0]) for line in lines] == list(range(1, len(lines) + 1))
    assert lines[1].endswith("user.message          prompt: summarise this repository")
    _, raw = printed(capsys, "log", "show", "--json", str(log))
    assert raw == log.read_text().splitlines()[1:]


def test_verify_counts_facts_and_finds_damage(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A sound log exits with 0; a changed one with 1, the line named, and is listed as damaged."""
    facts = list(read_log(str(log)))
    code, lines = printed(capsys, "log", "verify", str(log))
    assert (code, lines[1]) == (0, f"good: {len(facts)} facts, last sum {facts[-1].sum}")
    log.write_bytes(log.read_bytes().replace(b"summarise this", b"summarise that", 1))
    code, lines = printed(capsys, "log", "verify", str(log))
    assert code == 1
    assert lines[1].startswith("damaged: 1 fact,")
    assert lines[2].startswith("  line 3: the sum of fact 2 doesn't fit")
    workspace = str(log.parent.parent.parent)
    assert main(["sessions", "-w", workspace]) == 0
    told_ = capsys.readouterr()
    assert "damaged" in told_.out
    assert "line 3" in told_.err
    assert main(["run", "-w", workspace, "--session", log.stem, "go on"]) == 1
    assert "IO_ERROR" in capsys.readouterr().err


def test_repair_keeps_what_comes_before_the_damage(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The log is sound again, the damaged file is kept beside it, and a sound log is left as it is."""
    damaged = log.read_bytes().replace(b"summarise this", b"summarise that", 1)
    log.write_bytes(damaged)
    code, lines = printed(capsys, "log", "repair", str(log))
    kept = Path(lines[-1].partition(": ")[2])
    assert code == 0
    assert kept.read_bytes() == damaged
    assert [line.fact.seq for line in read_log(str(log))] == [1]
    code, lines = printed(capsys, "log", "repair", str(log))
    assert (code, lines[1].split(":")[0]) == (0, "nothing to repair")


def test_a_torn_end_is_no_damage(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An unfinished write is told, and the exit code stays 0."""
    with log.open("ab") as file:
        file.write(b'{"seq":99')
    code, lines = printed(capsys, "log", "verify", str(log))
    assert code == 0
    assert lines[-1].startswith("an unfinished write of 9 bytes")


def test_replay_says_that_every_fact_comes_out_the_same(
    log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A conversation with the offline model and its tools is replayed in whole."""
    total = len(list(read_log(str(log))))
    code, lines = printed(capsys, "log", "replay", log.stem, "-w", str(tmp_path))
    assert code == 0
    assert lines[0] == f"replayed {total} of {total} facts: every one came out byte for byte the same"


def test_replay_says_where_it_left_the_record(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A log whose last fact is missing: the loop goes on where the record ends, or the run is called left open."""
    lines_of_file = log.read_bytes().split(b"\n")
    log.write_bytes(b"\n".join(lines_of_file[:-2]) + b"\n")
    code, lines = printed(capsys, "log", "replay", str(log))
    assert code == 0
    assert "left open" in lines[0]
    assert "every replayed one" in lines[1]


@pytest.mark.parametrize("name", ["nobody", "/nowhere/x.jsonl"])
def test_a_log_that_is_not_there_is_bad_usage(tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    """One sentence and exit code 2."""
    assert main(["log", "show", name, "-w", str(tmp_path)]) == 2
    assert name in capsys.readouterr().err


FACTS: list[tuple[FactData, str]] = [
    (RunOpened("r2", "resume", resumes="r1"), "r2 by resume, goes on from r1"),
    (
        UserSaid("a\n\x1b[31mb", "prompt", (AttachmentRef("text", "text/plain", "0", "p"),)),
        "prompt: a b (+1 attachment)",
    ),
    (ModelTurn("Hi", "model", (Call("c1", "ls", {"path": "src"}),), model="m"), "m: Hi | ls src [c1]"),
    (ToolStarted("c1", 2, "unsafe"), "c1 attempt 2 (unsafe to run again)"),
    (ToolResulted("c1", "bash", "no\n[exit code: 1]", 1, "error"), "c1 bash: exit 1: no"),
    (ToolResulted("c1", "bash", "", 0, "cancelled"), "c1 bash cancelled: ok, no output"),
    (CallJudged("c1", {}, Verdict("deny", "not here")), "c1 deny not here"),
    (ConfirmationAnswered("c1", "0", False, "no"), "c1 rejected no"),
    (QuestionAnswered("c1", "blue"), "c1: blue"),
    (CompactionDone("s", 9, 2000, 300), "facts up to 9 summarised: 2,000 to 300 tokens"),
    (BudgetDenied("c1", 8, 8), "c1: the tool budget of 8 is used up"),
    (RunClosed("failed", 1, Failure("LLM_ERROR", "down")), "failed after 1 step: LLM_ERROR: down"),
]


@pytest.mark.parametrize(("data", "words"), FACTS)
def test_each_kind_of_fact_has_its_words(data: FactData, words: str) -> None:
    """What a fact says is told in one line without control characters."""
    line = told(Fact(7, "id", 1_700_000_000_123, "r", KIND_OF[type(data)], data))
    assert line.startswith("    7  2023-11-1")
    assert line.endswith(words)


def test_ages_are_told_in_one_unit() -> None:
    """The largest unit that fits; a clock that was set back makes nothing negative."""
    ages = (0, 59_000, 60_000, 7_200_000, 90_000_000, -5000)
    assert [ago(10**12, 10**12 - age) for age in ages] == [
        "just now",
        "just now",
        "1 minute ago",
        "2 hours ago",
        "1 day ago",
        "just now",
    ]
