"""``sessions``, ``resume`` and ``store`` with a session store: what is found, gone on with, exported, checked."""

from __future__ import annotations

import asyncio
import json
import signal
import sqlite3
from pathlib import Path

import pytest
from commands import HOLD, Provider, called, provider, run, said, start

from a3s_code import Agent
from a3s_code.cli.main import main
from a3s_code.core.documents import SessionSnapshot
from a3s_code.stores.file import FileSessionStore
from a3s_code.stores.logfile import read_log, verify_log
from a3s_code.stores.sqlite import SqliteSessionStore
from a3s_code.testing import ScriptedModel, calls

KEY = "6b" * 32


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine's keys are not the tests'."""
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_BASE_URL", "A3S_CODE_MODEL"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def work(tmp_path: Path) -> Path:
    made = tmp_path / "work"
    made.mkdir()
    return made


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, list[str], str]:
    code = main(arguments)
    out, err = capsys.readouterr()
    return code, out.splitlines(), err


def listed(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, dict[str, object]]:
    code, lines, _ = printed(capsys, "sessions", "--json", *arguments)
    assert code == 0
    return {row["id"]: row for row in map(json.loads, lines)}


async def put(store: FileSessionStore | SqliteSessionStore, *ids: str, tenant: str = "acme") -> None:
    for at, session_id in enumerate(ids, 1):
        await store.save_snapshot(
            SessionSnapshot(session_id=session_id, labels={"tenant_id": tenant}, saved_ms=at, workspace="/elsewhere")
        )
    await store.close()


def killed_at_work(server: Provider, workspace: Path, home: Path, *arguments: str, **env: str) -> None:
    """A run that had one tool result and was killed while the model thought."""
    process = start(["run", "-w", str(workspace), "--json", "go", *arguments], home, **server.env, **env)
    assert server.holding.wait(20)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    server.holding.clear()


def only_log(workspace: Path) -> Path:
    (log,) = (workspace / ".a3s" / "effect-log").glob("*.jsonl")
    return log


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["sessions", "--store", "redis://user:hunter2@h"], "file:DIR, sqlite:PATH or postgresql://"),
        (["sessions", "--store", "sqlite:"], "file:DIR, sqlite:PATH or postgresql://"),
        (["sessions", "--store", "plainfile"], "file:DIR, sqlite:PATH or postgresql://"),
        (["sessions", "--store", "sqlite:x.db", "--store-key-env", "K"], "goes with --store file:DIR"),
        (["sessions", "--store-key-env", "K"], "goes with --store file:DIR"),
        (["sessions", "--store", "file:x", "--store-key-env", "NO_SUCH_VARIABLE"], "64 hexadecimal digits"),
        (["sessions", "--store", "sqlite:nothing.db"], "holds nothing yet"),
        (["sessions", "show", "nobody"], "no session 'nobody'"),
        (["store", "check"], "--store file:DIR, sqlite:PATH or postgresql://"),
        (["sessions", "export", "nobody", "-o", "/nowhere/x.json"], "no session 'nobody'"),
    ],
)
def test_a_wrong_store_is_told_with_the_forms_there_are(
    work: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, arguments: list[str], words: str
) -> None:
    """Exit code 2, one sentence, no password in it, and nothing is made."""
    monkeypatch.chdir(work)
    code, out, err = printed(capsys, *arguments)
    assert (code, out) == (2, [])
    assert words in err
    assert "hunter2" not in err
    assert list(work.iterdir()) == []


def test_a_listing_marks_where_each_session_is(work: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Log, store or both, each once; stored ones of one tenant on demand; without a store as before."""
    path = f"sqlite:{tmp_path / 's.db'}"
    code, _, err = run(["run", "-w", str(work), "--store", path, "hello"], tmp_path)
    assert code == 0, err
    both = only_log(work).stem
    assert f"--session {both} --store {path}" in err
    code, _, err = run(["run", "-w", str(work), "hello"], tmp_path)
    assert code == 0, err
    store = SqliteSessionStore(tmp_path / "s.db")
    asyncio.run(put(store, *(f"stored-{n:04}" for n in range(1203))))
    asyncio.run(put(store, "other", tenant="umbrella"))
    rows = listed(capsys, "-w", str(work), "--store", path)
    wheres = [str(row["where"]) for row in rows.values()]
    assert (wheres.count("log"), wheres.count("both"), wheres.count("store")) == (1, 1, 1204)
    assert rows[both]["where"] == "both"
    assert rows[both]["digest"]
    assert list(listed(capsys, "-w", str(work), "--store", path, "--tenant", "umbrella")) == ["other"]
    assert len(listed(capsys, "-w", str(work))) == 2
    code, lines, _ = printed(capsys, "sessions", "list", "-w", str(work), "--store", path)
    assert lines[0].split() == ["session", "last", "fact", "runs", "status", "where", "first", "prompt"]
    assert len(lines) == 1207


def test_the_store_of_the_configuration_is_used(work: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With sessions_dir in agent.acl a run is saved there, and the listing looks there; before that it is no error."""
    (work / "agent.acl").write_text(f'default_model = "offline/scout"\nsessions_dir = "{tmp_path / "kept"}"\n')
    assert printed(capsys, "sessions", "-w", str(work))[0] == 0
    assert main(["run", "-w", str(work), "hello"]) == 0
    capsys.readouterr()
    (row,) = listed(capsys, "-w", str(work)).values()
    assert row["where"] == "both"
    code, lines, _ = printed(capsys, "store", "check", "-w", str(work))
    assert (code, lines[-1].split(":")[0]) == (0, "good")


def test_who_holds_a_session_is_told(work: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A living lease names its holder, also when options stand before the subcommand; a released one doesn't."""
    store = FileSessionStore(tmp_path / "kept")
    asyncio.run(put(store, "plan"))
    lease = asyncio.run(store.acquire_lease("plan", "node-b", 60_000))
    where = ["-w", str(work), "--store", f"file:{tmp_path / 'kept'}"]
    _, lines, _ = printed(capsys, "sessions", *where)
    assert "node-b" in lines[1]
    code, lines, _ = printed(capsys, "sessions", *where, "show", "pla", "--json")
    shown = json.loads(lines[0])
    assert (code, shown["id"], shown["held_by"], shown["labels"]) == (0, "plan", "node-b", {"tenant_id": "acme"})
    asyncio.run(store.release(lease))
    asyncio.run(store.close())
    _, lines, _ = printed(capsys, "sessions", *where)
    assert "node-b" not in lines[1]


def test_a_killed_run_goes_on_from_its_store_in_another_workspace(tmp_path: Path) -> None:
    """Resume without an id takes the run whose node is gone, with its results; afterwards nothing is left open."""
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    store = ["--store", f"file:{tmp_path / 'kept'}", "--store-key-env", "STORE_KEY"]
    with provider(called(("ls", {})), [HOLD], said("Resumed there.")) as server:
        env = {**server.env, "STORE_KEY": KEY}
        killed_at_work(server, here, tmp_path, *store, STORE_KEY=KEY)
        session = only_log(here).stem
        code, out, err = run(["sessions", "show", session[:5], "-w", str(there), *store, "--json"], tmp_path, **env)
        assert code == 0, err
        shown = json.loads(out)
        assert (shown["where"], shown["status"], shown["log"]) == ("store", "left open", None)
        assert shown["checkpoints"][0]["run_id"] == shown["open_run"]
        code, out, err = run(["resume", "-w", str(there), *store], tmp_path, **env)
        assert code == 0, err
        assert out.startswith("Resumed there.\n")
        assert [message["role"] for message in server.asked[2][1]["messages"]][-2:] == ["assistant", "tool"]
        assert f"going on with session {session}" in err
        assert f"--session {session} --store" in err
        code, out, err = run(["resume", "-w", str(there), *store], tmp_path, **env)
    assert (code, out) == (0, "")
    assert "no run was left open" in err
    assert verify_log(str(only_log(there))).ok


def test_resume_takes_the_newest_open_run_and_names_the_others(work: Path, tmp_path: Path) -> None:
    """From logs alone: the one that was used last goes on, another one by its id, and JSON is nothing but events."""
    with provider([HOLD], [HOLD], said("The second."), said("The first.")) as server:
        killed_at_work(server, work, tmp_path)
        first = only_log(work).stem
        killed_at_work(server, work, tmp_path)
        code, out, err = run(["resume", "-w", str(work)], tmp_path, **server.env)
        assert code == 0, err
        assert out.startswith("The second.\n")
        assert f"left open too: {first}" in err
        code, out, err = run(["resume", first[:6], "--json", "-w", str(work)], tmp_path, **server.env)
        assert (code, err) == (0, "")
        assert json.loads(out.splitlines()[-1])["payload"]["text"] == "The first."


def test_a_call_that_waits_is_shown_and_resumed(work: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Show names the open run and the call that waits; resuming without a terminal leaves it, with exit code 3."""
    model = ScriptedModel([calls(("write", {"file_path": ".vscode/tasks.json", "content": "{}"}))])
    asking = {"permission_policy": "workspace", "confirmation_policy": {"enabled": True}}
    with Agent.create('default_model = "offline/scout"') as agent:
        for event in agent.session(work, asking, session_id="plans", llm_client=model).stream("Add a task"):
            if event.type == "confirmation_required":
                agent.close_session("plans")
    code, lines, _ = printed(capsys, "sessions", "show", "plans", "-w", str(work))
    assert code == 0
    told = {line[:11].strip(): line[11:] for line in lines if line}
    assert told["status"] == "left open"
    assert told["open run"] in lines[-1]
    assert told["waits"].startswith("call_1_1: write .vscode/tasks.json")
    _, lines, _ = printed(capsys, "sessions", "show", "plans", "-w", str(work), "--json")
    assert [each["tool_id"] for each in json.loads(lines[0])["waiting"]] == ["call_1_1"]


def test_an_export_holds_everything_byte_for_byte(
    work: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Snapshot, header and each line of the log; a file as well as the standard output; a damaged log up to there."""
    store = ["--store", f"file:{tmp_path / 'kept'}"]
    assert run(["run", "-w", str(work), *store, "hello"], tmp_path)[0] == 0
    log, out = only_log(work), tmp_path / "out.json"
    arguments = ["sessions", "export", log.stem, "-w", str(work), *store]
    code, text, err = run(arguments, tmp_path)
    assert code == 0, err
    document = json.loads(text)
    assert document["snapshot"]["session_id"] == log.stem
    assert document["log"]["header"]["session_id"] == log.stem
    assert text.encode().splitlines()[1:-1] == [
        line + b"," if at < 3 else line for at, line in enumerate(log.read_bytes().splitlines()[1:])
    ]
    code, printed_, err = run([*arguments, "-o", str(out)], tmp_path)
    assert (code, printed_) == (0, "")
    assert json.loads(out.read_bytes())["log"] == document["log"]
    assert out.stat().st_mode & 0o077 == 0
    log.write_bytes(log.read_bytes().replace(b'"hello"', b'"HELLO"', 1))
    code, text, err = run(arguments, tmp_path)
    cut = json.loads(text)
    assert (code, len(cut["log"]["facts"])) == (1, 1)
    assert "line 3" in cut["log"]["damage"]
    assert "line 3" in err


def test_a_fork_begins_as_its_source(work: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Up to a fact, under a given id; the source stays as it is; an id that is taken and a missing fact are errors."""
    assert run(["run", "-w", str(work), "hello"], tmp_path)[0] == 0
    log = only_log(work)
    before = log.read_bytes()
    fork = ["sessions", "fork", log.stem[:6], "-w", str(work)]
    code, lines, err = printed(capsys, *fork, "--at", "2", "--as", "again")
    assert code == 0, err
    assert "--session again" in lines[0]
    assert [line.fact.kind for line in read_log(str(log.with_name("again.jsonl")))] == ["run.opened", "user.message"]
    assert log.read_bytes() == before
    code, lines, _ = printed(capsys, *fork, "--json")
    assert json.loads(lines[0])["forked_from"] == log.stem
    assert printed(capsys, *fork, "--as", "again")[0] == 1
    code, _, err = printed(capsys, *fork, "--at", "99")
    assert code == 1
    assert "no fact 99" in err


def test_check_names_every_damaged_document(work: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One that was changed, one that is no JSON, a newer one and one under another's name; the rest is counted."""
    store = FileSessionStore(tmp_path / "kept")
    asyncio.run(put(store, "changed", "garbage", "newer", "good", "moved" * 50))
    sessions = tmp_path / "kept" / "v1" / "sessions"
    files = {json.loads(path.read_bytes())["session_id"]: path for path in sessions.iterdir()}
    files["changed"].write_bytes(files["changed"].read_bytes().replace(b"acme", b"ACME"))
    files["garbage"].write_bytes(b"\0")
    files["newer"].write_bytes(files["newer"].read_bytes().replace(b'"schema_version":1', b'"schema_version":2'))
    files["moved" * 50].rename(sessions / f"h_{'0' * 64}.json")
    where = ["--store", f"file:{tmp_path / 'kept'}", "-w", str(work)]
    code, lines, _ = printed(capsys, "store", "check", *where)
    assert code == 1
    assert lines[-1] == "damaged: 4 damaged documents of 5 documents (session: 5)"
    for path in (files["changed"], files["garbage"], files["newer"], sessions / f"h_{'0' * 64}.json"):
        assert sum(str(path) in line for line in lines) == 1
    code, lines, err = printed(capsys, "store", "migrate", *where)
    assert (code, lines) == (1, [])
    assert "schema version 2" in err
    files["newer"].unlink()
    code, lines, err = printed(capsys, "store", "migrate", *where)
    assert (code, lines[1]) == (0, "nothing to do: 4 documents of schema version 1")
    assert "store check" in err


def test_check_reads_the_facts_of_checkpoints(work: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A fact that is missing, or was changed, in a row of SQLite is found through its checkpoint."""
    database = tmp_path / "s.db"
    store = ["--store", f"sqlite:{database}"]
    with provider(called(("ls", {})), [HOLD]) as server:
        killed_at_work(server, work, tmp_path, *store)
    code, lines, err = printed(capsys, "store", "check", *store, "--json")
    assert code == 0, err
    assert json.loads(lines[0])["counts"]["checkpoint"] == 1
    connection = sqlite3.connect(database)
    connection.execute("UPDATE facts SET raw = CAST(replace(CAST(raw AS TEXT), 'go', 'no') AS BLOB) WHERE seq = 2")
    connection.commit()
    code, lines, _ = printed(capsys, "store", "check", *store)
    assert code == 1
    assert "fact 2 doesn't follow" in lines[1]
    connection.execute("DELETE FROM facts WHERE seq = 1")
    connection.commit()
    connection.close()
    code, lines, _ = printed(capsys, "store", "check", *store)
    assert code == 1
    assert "are missing" in lines[1]


def test_migrate_makes_what_is_missing_and_refuses_what_is_newer(
    work: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Once it makes the tables, then there is nothing to do; tables of a newer version stay as they are."""
    database = tmp_path / "s.db"
    migrate = ["store", "migrate", "--store", f"sqlite:{database}", "-w", str(work)]
    assert printed(capsys, *migrate)[1][1] == "made: it has schema version 1 now"
    assert printed(capsys, *migrate)[1][1] == "nothing to do: 0 documents of schema version 1"
    _, lines, _ = printed(capsys, *migrate, "--json")
    assert json.loads(lines[0])["made"] is False
    with sqlite3.connect(database) as connection:
        connection.execute("PRAGMA user_version = 2")
    connection.close()
    code, _, err = printed(capsys, *migrate)
    assert code == 1
    assert "use a newer a3s_code" in err
