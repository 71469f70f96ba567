"""``sessions delete``: by ids and by limits, in stores and in workspaces, never what somebody works on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from commands import HOLD, provider, run, start
from terminals import terminal

from a3s_code import Agent, SqliteSessionStore
from a3s_code.cli.main import main
from a3s_code.testing import ScriptedModel, calls

LONG_AGO = 1_600_000_000_000


@pytest.fixture
def work(tmp_path: Path) -> Path:
    made = tmp_path / "work"
    made.mkdir()
    return made


@pytest.fixture
def store(tmp_path: Path) -> str:
    return f"sqlite:{tmp_path / 's.db'}"


def made(work: Path, *ids: str, store: str | None = None) -> None:
    """Sessions of one run each, each a minute younger than the one before it."""
    with Agent.create('default_model = "offline/scout"') as agent:
        for at, session_id in enumerate(ids):
            options = {
                "session_id": session_id,
                "host_env": {"fixed_time_ms": LONG_AGO + at * 60_000},
                "llm_client": ScriptedModel(["Done."]),
            }
            if store is not None:
                options |= {"session_store": SqliteSessionStore(store.removeprefix("sqlite:")), "auto_save": True}
            with agent.session(work, options) as session:
                session.send("Do it")


def left_open(work: Path, session_id: str) -> None:
    model = ScriptedModel([calls(("write", {"file_path": ".vscode/tasks.json", "content": "{}"}))])
    asking = {
        "permission_policy": "workspace",
        "confirmation_policy": {"enabled": True},
        "host_env": {"fixed_time_ms": LONG_AGO - 60_000},
    }
    with Agent.create('default_model = "offline/scout"') as agent:
        for event in agent.session(work, asking, session_id=session_id, llm_client=model).stream("Add a task"):
            if event.type == "confirmation_required":
                agent.close_session(session_id)


def logs(work: Path) -> list[str]:
    return sorted(path.stem for path in (work / ".a3s" / "effect-log").glob("*.jsonl"))


def delete(capsys: pytest.CaptureFixture[str], work: Path, *arguments: str) -> tuple[int, list[str], str]:
    code = main(["sessions", "delete", "-w", str(work), *arguments])
    out, err = capsys.readouterr()
    return code, out.splitlines(), err


def test_limits_delete_the_oldest_logs_first(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without a store: by number, size and age; a dry run deletes nothing; an open run stays."""
    made(work, "one", "two", "three", "four")
    left_open(work, "waits")
    code, lines, _ = delete(capsys, work, "--keep", "3", "--dry-run")
    assert (code, lines) == (
        0,
        ["waits: kept, left open", "one: would be deleted (--keep)", "two: would be deleted (--keep)"],
    )
    assert len(logs(work)) == 5
    code, lines, _ = delete(capsys, work, "--keep", "4", "--yes", "--json")
    report = json.loads(lines[0])
    assert [(row["session_id"], row["deleted"], row["reason"]) for row in report["sessions"]] == [
        ("waits", False, "open_run"),
        ("one", True, None),
    ]
    assert logs(work) == ["four", "three", "two", "waits"]
    size = (work / ".a3s" / "effect-log" / "four.jsonl").stat().st_size
    waits = (work / ".a3s" / "effect-log" / "waits.jsonl").stat().st_size
    assert delete(capsys, work, "--max-bytes", f"{waits + size + 5}", "--yes")[0] == 0
    assert logs(work) == ["four", "waits"]
    code, _, err = delete(capsys, work, "--max-bytes", "1G", "--yes")
    assert (code, "nothing is to be deleted" in err) == (0, True)
    assert delete(capsys, work, "--older-than", "30d", "--yes")[0] == 0
    assert logs(work) == ["waits"]


def test_limits_count_what_the_store_has(work: Path, store: str, capsys: pytest.CaptureFixture[str]) -> None:
    """With a store its sessions go, with their logs; logs that it doesn't know stay."""
    made(work, "one", "two", "three", store=store)
    made(work, "unsaved")
    code, lines, _ = delete(capsys, work, "--store", store, "--keep", "1", "--yes")
    assert (code, lines) == (0, ["one: deleted (--keep)", "two: deleted (--keep)"])
    assert logs(work) == ["three", "unsaved"]
    assert main(["store", "check", "--store", store]) == 0
    assert "session: 1" in capsys.readouterr().out


def test_a_session_is_deleted_by_its_id_wherever_it_is(
    work: Path, tmp_path: Path, store: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """From store and log, with what is left open only by force; an id that isn't there deletes nothing at all."""
    made(work, "saved", store=store)
    made(work, "logged")
    left_open(work, "waits")
    code, _, err = delete(capsys, work, "--store", store, "saved", "nobody", "--yes")
    assert (code, len(logs(work))) == (2, 3)
    assert "no session 'nobody'" in err
    code, lines, _ = delete(capsys, work, "--store", store, "sav", "logged", "saved", "waits", "--yes")
    assert (code, lines) == (1, ["saved: deleted", "logged: deleted", "waits: kept, left open"])
    assert main(["sessions", "-w", str(work), "--store", store, "--json"]) == 0
    assert [json.loads(line)["id"] for line in capsys.readouterr().out.splitlines()] == ["waits"]
    assert delete(capsys, work, "waits", "--yes", "--force")[:2] == (0, ["waits: deleted"])
    assert logs(work) == []


def test_a_session_that_a_process_holds_stays(work: Path, tmp_path: Path, store: str) -> None:
    """By id, by force and by a limit: it is told who holds it."""
    with provider([HOLD]) as server:
        process = start(["run", "-w", str(work), "--store", store, "--json", "go"], tmp_path, **server.env)
        assert server.holding.wait(20)
        (held,) = logs(work)
        for arguments in (
            [held, "--force"],
            ["--keep", "0"],
            ["--keep", "0", "--store", store],
            [held, "--store", store],
        ):
            _, out, err = run(["sessions", "delete", "-w", str(work), "--yes", *arguments], tmp_path)
            assert "deleted" not in out.replace("nothing is to be deleted", ""), (arguments, out, err)
            assert logs(work) == [held]
        assert f"held by process {process.pid}" in out
        process.kill()
        process.communicate()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "by their ids, or by --older-than"),
        (["one", "--keep", "1"], "by their ids, or by --older-than"),
        (["--older-than", "soon"], "30d, 12h or 90m"),
        (["--max-bytes", "-1"], "500M, 2G or 4096"),
        (["--keep", "-1"], "0 or more"),
        (["--keep", "0", "--force"], "--force goes with ids"),
        (["--keep", "0", "--tenant", "acme"], "--tenant needs a store"),
        (["one", "--tenant", "acme"], "--tenant goes with"),
        (["--keep", "0"], "deletes 1 session: add --yes, or look first with --dry-run"),
    ],
)
def test_nothing_is_deleted_by_mistake(
    work: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    """Bad usage, and no terminal to ask on, delete nothing and say why."""
    made(work, "one")
    code, _, err = delete(capsys, work, *arguments)
    assert code == 2
    assert words in err
    assert logs(work) == ["one"]


def test_a_person_is_asked_on_a_terminal(work: Path, tmp_path: Path) -> None:
    """The sessions are named; anything but a yes deletes nothing."""
    made(work, "one", "two")
    arguments = ["sessions", "delete", "-w", str(work), "--keep", "1"]
    for answer, code, left in (("n", 1, ["one", "two"]), ("", 1, ["one", "two"]), ("y", 0, ["two"])):
        with terminal(arguments, tmp_path) as screen:
            assert "one (last used" in screen.until("delete 1 session for good? [y/N]")
            screen.type(f"{answer}\n")
            assert screen.end() == code
        assert logs(work) == left
