"""``steer``, ``interrupt``, ``passivate`` and ``answer`` for sessions that another process holds."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from commands import HOLD, called, provider, run, said, start

from a3s_code import Agent, SqliteSessionStore
from a3s_code.stores.logfile import read_log
from a3s_code.testing import ScriptedModel, calls


@pytest.fixture
def work(tmp_path: Path) -> Path:
    made = tmp_path / "work"
    made.mkdir()
    return made


@pytest.fixture
def store(tmp_path: Path) -> str:
    return f"sqlite:{tmp_path / 's.db'}"


def log_of(work: Path) -> Path:
    (log,) = (work / ".a3s" / "effect-log").glob("*.jsonl")
    return log


def test_an_interrupt_reaches_a_run_of_another_process(work: Path, tmp_path: Path, store: str) -> None:
    """The run ends as cancelled, its command with 130, and the receipt says so; from any workspace."""
    with provider([HOLD]) as server:
        process = start(["run", "-w", str(work), "--store", store, "--json", "go"], tmp_path, **server.env)
        assert server.holding.wait(20)
        session = log_of(work).stem
        elsewhere = ["-w", str(tmp_path), "--store", store]
        code, out, err = run(["interrupt", session, *elsewhere, "--json"], tmp_path)
        assert code == 0, err
        assert json.loads(out)["state"] in ("applied", "settled")
        printed, _ = process.communicate(timeout=20)
    assert process.returncode == 130, printed
    assert [line.fact.kind for line in read_log(str(log_of(work)))][-1] == "run.closed"


def test_a_session_is_left_for_others_on_request(work: Path, tmp_path: Path, store: str) -> None:
    """Passivate is answered by the holder, and the run stays open for ``resume``, in another workspace as well."""
    there = tmp_path / "there"
    there.mkdir()
    with provider(called(("ls", {})), [HOLD], said("Done there.")) as server:
        process = start(["run", "-w", str(work), "--store", store, "--json", "go"], tmp_path, **server.env)
        assert server.holding.wait(20)
        where = ["-w", str(work), "--store", store]
        code, out, err = run(["passivate", log_of(work).stem, *where, "--deadline", "0"], tmp_path)
        assert code == 0, err
        assert out.startswith("passivate: settled")
        process.communicate(timeout=20)
        _, out, _ = run(["sessions", *where, "--json"], tmp_path)
        assert json.loads(out)["status"] == "left open"
        code, out, err = run(["resume", "-w", str(there), "--store", store], tmp_path, **server.env)
        assert (code, out.splitlines()[0]) == (0, "Done there."), err
        assert [message["role"] for message in server.asked[-1][1]["messages"]][-2:] == ["assistant", "tool"]
    _, out, _ = run(["sessions", "show", log_of(there).stem, "-w", str(there), "--store", store, "--json"], tmp_path)
    shown = json.loads(out)
    assert (shown["status"], shown["open_run"], shown["checkpoints"]) == ("completed", None, [])


def test_a_steer_without_a_holder_is_kept(work: Path, tmp_path: Path, store: str) -> None:
    """Exit code 3 says that nobody has answered; without a store, or for a strange session, bad usage."""
    assert run(["run", "-w", str(work), "--store", store, "hello"], tmp_path)[0] == 0
    session = log_of(work).stem
    code, out, _ = run(["steer", session, "Only tests", "-w", str(work), "--store", store, "--wait", "0"], tmp_path)
    assert (code, "nobody holds it now" in out) == (3, True)
    code, _, err = run(["steer", session, "Only tests", "-w", str(work)], tmp_path)
    assert (code, "which store?" in err) == (2, True)
    code, _, err = run(["steer", "nobody", "Only tests", "-w", str(work), "--store", store], tmp_path)
    assert (code, "no session 'nobody'" in err) == (2, True)


@contextmanager
def asking(work: Path, store: str) -> Iterator[threading.Event]:
    """A session of this process whose run waits for an answer; the event says that the run has ended."""
    model = ScriptedModel([calls(("write", {"file_path": ".vscode/tasks.json", "content": "{}"})), "Done."])
    options = {
        "permission_policy": "workspace",
        "confirmation_policy": {"enabled": True},
        "session_store": SqliteSessionStore(store.removeprefix("sqlite:")),
    }
    asks, ended = threading.Event(), threading.Event()
    with Agent.create('default_model = "offline/scout"') as agent:
        session = agent.session(work, options, session_id="plans", llm_client=model)

        def watch() -> None:
            for event in session.stream("Add a task"):
                if event.type == "confirmation_required":
                    asks.set()
            ended.set()

        thread = threading.Thread(target=watch)
        thread.start()
        assert asks.wait(20)
        try:
            yield ended
        finally:
            session.cancel()
            thread.join(20)


def test_an_answer_reaches_a_living_holder(work: Path, tmp_path: Path, store: str) -> None:
    """By the call's first letters; the run goes on at once. A call that doesn't wait, and a living holder without a
    store, are errors that say so."""
    with asking(work, store) as ended:
        where = ["-w", str(work), "--store", store]
        code, _, err = run(["answer", "plans", "call_9", "yes", *where], tmp_path)
        assert (code, "there waits: call_1_1" in err) == (2, True)
        code, _, err = run(["answer", "plans", "call_1_1", "yes", "-w", str(work)], tmp_path)
        assert (code, "SESSION_BUSY" in err) == (1, True)
        code, out, err = run(["answer", "plans", "call", "yes", *where], tmp_path)
        assert (code, out) == (0, "confirm: applied\n"), err
        assert ended.wait(20)
    assert (work / ".vscode" / "tasks.json").read_text() == "{}"


def test_an_answer_for_a_log_that_is_elsewhere_is_checked_by_the_holder(work: Path, tmp_path: Path, store: str) -> None:
    """From a workspace without the log: the holder refuses what doesn't wait, and takes what does."""
    with asking(work, store) as ended:
        elsewhere = ["-w", str(tmp_path), "--store", store]
        code, out, err = run(["answer", "plans", "call_9", "yes", *elsewhere], tmp_path)
        assert (code, out) == (1, "confirm: rejected\n")
        assert "no such call waits" in err
        code, out, err = run(["answer", "plans", "call_1_1", "no", "--reason", "not here", *elsewhere], tmp_path)
        assert (code, out) == (0, "confirm: applied\n"), err
        assert ended.wait(20)
    assert not (work / ".vscode" / "tasks.json").exists()
