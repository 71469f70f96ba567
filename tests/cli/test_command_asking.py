"""What a run asks on a terminal: the whole call, why, and an answer; in real processes on pseudo-terminals."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest
from commands import called, provider, run, said
from terminals import Terminal, terminal

POLICY = 'ask = ["write(notes/*)", "write(plans/*)"]\ndefault_decision = "allow"\n'
QUESTION = "e explain? "


@pytest.fixture
def work(tmp_path: Path) -> Path:
    made = tmp_path / "work"
    made.mkdir()
    (tmp_path / "policy.acl").write_text(POLICY)
    return made


def asking(work: Path, *more: str) -> list[str]:
    return ["run", "-w", str(work), "--policy-file", str(work.parent / "policy.acl"), *more]


def write(path: str, content: str = "new\n") -> tuple[str, dict[str, Any]]:
    return "write", {"file_path": path, "content": content}


def answered(shown: Terminal, *answers: str) -> str:
    """Gives each answer at its question; what was shown up to the last question."""
    before = ""
    for answer in answers:
        before = shown.until(QUESTION)
        shown.type(f"{answer}\r")
    return before


@pytest.mark.parametrize("term", ["xterm-256color", "dumb"])
def test_a_person_sees_the_whole_call_and_approves_it(work: Path, tmp_path: Path, term: str) -> None:
    """What would change, why it asks and by which rule; what is no answer asks again; an explanation; then it runs."""
    (work / "notes").mkdir()
    (work / "notes" / "a.md").write_text("old\nkept\n")
    with (
        provider(called(write("notes/a.md", "new\nkept\n")), said("Written.")) as server,
        terminal(asking(work, "go"), tmp_path, **server.env, TERM=term) as shown,
    ):
        first = shown.until(QUESTION)
        for words in ("write notes/a.md", "-old", "+new", "matches ask rule 'write(notes/*)'", "ask write(notes/*)"):
            assert words in first
        assert (work / "notes" / "a.md").read_text() == "old\nkept\n"
        shown.type("\r")
        shown.until("nothing was decided")
        shown.until(QUESTION)
        shown.type("e\r")
        explained = shown.until(QUESTION)
        assert "notes/a.md  ask       ask write(notes/*)" in explained
        shown.type("y\r")
        shown.until("Written.")
        assert shown.end() == 0
    assert (work / "notes" / "a.md").read_text() == "new\nkept\n"


def test_a_rejection_and_its_reason_reach_the_model(work: Path, tmp_path: Path) -> None:
    """Nothing is written."""
    with (
        provider(called(write("notes/a.md")), said("Well.")) as server,
        terminal(asking(work, "go"), tmp_path, **server.env) as shown,
    ):
        answered(shown, "n not today")
        assert shown.end() == 0
    assert "not today" in server.asked[1][1]["messages"][-1]["content"]
    assert not (work / "notes").exists()


def test_always_answers_for_its_rule_and_nothing_else(work: Path, tmp_path: Path) -> None:
    """The rule's next call runs; another rule's, and a path that asks by itself, are asked about; the next session
    asks again."""
    calls = [write("notes/a.md"), write("notes/b.md"), write("plans/a.md"), write("notes/.env")]
    with (
        provider(*[called(call) for call in calls], said("Done.")) as server,
        terminal(asking(work, "go"), tmp_path, **server.env) as shown,
    ):
        assert "a always for rule 'write(notes/*)' in this session" in shown.until(QUESTION)
        shown.type("a\r")
        second = shown.until(QUESTION)
        assert "always for rule 'write(notes/*)'" in second
        assert "write plans/a.md" in second
        shown.type("n\r")
        third = shown.until(QUESTION)
        assert "write notes/.env" in third
        assert "a always for exactly this call" in third
        shown.type("n\r")
        assert shown.end() == 0
    assert sorted(path.name for path in (work / "notes").iterdir()) == ["a.md", "b.md"]
    with (
        provider(called(write("notes/c.md")), said("Done.")) as server,
        terminal(asking(work, "go"), tmp_path, **server.env) as shown,
    ):
        answered(shown, "n")
        assert shown.end() == 0


def test_several_calls_are_asked_about_in_order(work: Path, tmp_path: Path) -> None:
    """Each answer is for the call above it."""
    with (
        provider(called(write("notes/a.md"), write("plans/b.md"), write("notes/c.md")), said("Done.")) as server,
        terminal(asking(work, "go"), tmp_path, **server.env) as shown,
    ):
        for name, answer in (("notes/a.md", "y"), ("plans/b.md", "n"), ("notes/c.md", "y")):
            assert f"  | write {name}" in shown.until(QUESTION)
            shown.type(f"{answer}\r")
        assert shown.end() == 0
    assert sorted(str(path.relative_to(work)) for path in work.rglob("*.md")) == ["notes/a.md", "notes/c.md"]


def test_ctrl_c_at_the_question_interrupts_the_run(work: Path, tmp_path: Path) -> None:
    """The call is not made, the run ends as cancelled."""
    with (
        provider(called(write("notes/a.md"))) as server,
        terminal(asking(work, "go"), tmp_path, **server.env) as shown,
    ):
        shown.until(QUESTION)
        shown.type("\x03")
        shown.until("interrupting")
        shown.until("cancelled: ")
        assert shown.end() == 130
    assert not (work / "notes").exists()


def test_what_was_typed_before_the_question_is_no_answer(work: Path, tmp_path: Path) -> None:
    """An impatient Enter approves nothing."""
    with (
        provider(called(write("notes/a.md")), said("Done.")) as server,
        terminal(asking(work, "go"), tmp_path, **server.env) as shown,
    ):
        shown.type("y\r")
        answered(shown, "what", "n")
        assert shown.end() == 0
    assert not (work / "notes").exists()


def test_a_long_call_is_paged_and_nothing_hides_in_it(work: Path, tmp_path: Path) -> None:
    """All lines can be seen before the question; a character that hides others is an escape."""
    content = "".join(f"line {i}\n" for i in range(60)) + "\x1b[2Khidden\u202e\n"
    with (
        provider(called(write("notes/a.md", content)), said("Done.")) as server,
        terminal(asking(work, "go"), tmp_path, **server.env) as shown,
    ):
        assert "line 50" not in shown.until("more lines: Enter shows them")
        shown.type("\r")
        shown.until("more lines: Enter shows them")
        shown.type("\r")
        assert "+\\x1b[2Khidden\\u202e" in shown.until(QUESTION)
        shown.type("n\r")
        assert shown.end() == 0


def test_a_chat_asks_too_and_goes_on(work: Path, tmp_path: Path) -> None:
    """ "Always" lasts over the prompts of a session, and ends with /new."""
    with (
        provider(
            called(write("notes/a.md")),
            said("One."),
            called(write("notes/b.md")),
            said("Two."),
            called(write("notes/c.md")),
            said("Three."),
        ) as server,
        terminal(["chat", *asking(work)[1:]], tmp_path, **server.env) as shown,
    ):
        shown.until("/help for help.")
        shown.type("one\r")
        answered(shown, "a")
        shown.until("One.")
        shown.until("done: ")
        shown.until(">")
        shown.type("two\r")
        shown.until("Two.")
        shown.until("done: ")
        shown.until(">")
        shown.type("/new\r")
        shown.until("/help for help.")
        shown.type("three\r")
        answered(shown, "n")
        shown.until("Three.")
        shown.until("done: ")
        shown.until(">")
        shown.type("\x04")
        assert shown.end() == 0
    assert sorted(path.name for path in (work / "notes").iterdir()) == ["a.md", "b.md"]


def test_without_a_terminal_what_asks_is_refused_and_told(work: Path, tmp_path: Path) -> None:
    """The model learns why, the user what would allow it."""
    with provider(called(write("notes/a.md")), said("Well.")) as server:
        code, _, err = run(asking(work, "go"), tmp_path, **server.env)
    assert code == 0
    assert "no confirmation provider" in server.asked[1][1]["messages"][-1]["content"]
    assert "--yes" in err
    assert "--policy-file" in err
    assert not (work / "notes").exists()


def test_yes_approves_everything(work: Path, tmp_path: Path) -> None:
    """Also on no terminal, and a path that asks by itself."""
    with provider(called(write("notes/a.md"), write(".env")), said("Done.")) as server:
        code, _, err = run(asking(work, "--yes", "go"), tmp_path, **server.env)
    assert code == 0, err
    assert (work / "notes" / "a.md").is_file()
    assert (work / ".env").is_file()


def test_the_default_policy_lets_work_inside_run_and_asks_at_its_edge(work: Path, tmp_path: Path) -> None:
    """Files of the workspace are written, metadata that other programs act on isn't; read_only writes nothing."""
    calls = called(write("a.md"), write(".vscode/tasks.json"))
    with provider(calls, said("Done."), calls, said("Done.")) as server:
        assert run(["run", "-w", str(work), "go"], tmp_path, **server.env)[0] == 0
        assert sorted(path.name for path in work.iterdir()) == [".a3s", "a.md"]
        (work / "a.md").unlink()
        assert run(["run", "-w", str(work), "--policy", "read_only", "go"], tmp_path, **server.env)[0] == 0
        assert sorted(path.name for path in work.iterdir()) == [".a3s"]


def test_a_run_whose_program_died_is_answered_and_goes_on_in_others(work: Path, tmp_path: Path) -> None:
    """Killed at the question: `pending` lists it, `answer` puts the answer into the log, `run --resume` runs the call
    once; each is a new process."""
    with provider(called(write("notes/a.md"), write("plans/b.md")), said("Both told.")) as server:
        with terminal(asking(work, "go"), tmp_path, **server.env) as shown:
            shown.until(QUESTION)
            shown.process.send_signal(signal.SIGKILL)
            shown.end()
        where = ["-w", str(work)]
        code, out, err = run(["pending", *where, "--json"], tmp_path)
        first, second = (json.loads(line) for line in out.splitlines())
        assert (code, err) == (0, "")
        assert [first["tool_name"], first["args"]["file_path"], first["holder"]] == ["write", "notes/a.md", None]
        code, out, err = run(["pending", *where], tmp_path)
        assert "write notes/a.md (1 line)" in out
        assert f"a3s-code answer {first['session_id']} {first['tool_id']} yes" in err

        resume = asking(work, "--resume", "--session", first["session_id"])
        code, out, err = run(resume, tmp_path, **server.env)
        assert code == 3
        assert f"a3s-code answer {first['session_id']} {first['tool_id']} yes" in err

        code, out, err = run(["answer", first["session_id"][:6], first["tool_id"], "yes", *where], tmp_path)
        assert (code, out) == (0, "approved: write notes/a.md (1 line)\n"), err
        assert second["tool_id"] in err
        code, out, err = run(
            ["answer", first["session_id"], second["tool_id"], "no", "--reason", "not there", *where], tmp_path
        )
        assert (code, out) == (0, "rejected: write plans/b.md (1 line)\n"), err
        assert "run --resume --session" in err
        assert not (work / "notes").exists()

        code, out, err = run(resume, tmp_path, **server.env)
        assert code == 0, err
        assert "Both told." in out
    assert (work / "notes" / "a.md").is_file()
    assert not (work / "plans").exists()
    assert "not there" in server.asked[1][1]["messages"][-1]["content"]
    assert "nothing waits" in run(["pending", *where], tmp_path)[2]


def test_ctrl_d_leaves_the_run_waiting_and_a_terminal_takes_it_up(work: Path, tmp_path: Path) -> None:
    """The program ends with 3 and says how to answer; a resumed run asks at its own terminal."""
    with provider(called(write("notes/a.md")), said("Done.")) as server:
        with terminal(asking(work, "go"), tmp_path, **server.env) as shown:
            shown.until(QUESTION)
            shown.type("\x04")
            shown.until("go on with")
            assert shown.end() == 3
        (log,) = (work / ".a3s" / "effect-log").glob("*.jsonl")
        with terminal(asking(work, "--resume", "--session", log.stem), tmp_path, **server.env) as shown:
            answered(shown, "y")
            shown.until("Done.")
            assert shown.end() == 0
    assert (work / "notes" / "a.md").is_file()


def test_a_command_is_shown_with_what_it_runs_in(work: Path, tmp_path: Path) -> None:
    """The command line, every other argument, and the state of the sandbox."""
    (tmp_path / "policy.acl").write_text('ask = ["bash(touch*)"]\ndefault_decision = "allow"\n')
    command = {"command": "touch made && echo $WHO", "env": {"WHO": "me"}}
    with (
        provider(called(("bash", command)), said("Done.")) as server,
        terminal(asking(work, "--sandbox", "host", "go"), tmp_path, **server.env) as shown,
    ):
        asked = shown.until(QUESTION)
        for words in ("$ touch made && echo $WHO", 'env: {"WHO": "me"}', "sandbox  process_host: ", "ask bash(touch*)"):
            assert words in asked
        assert "for exactly this call" in asked
        shown.type("yes\r")
        assert shown.end() == 0
    assert (work / "made").is_file()


def test_an_answer_names_what_waits_or_says_what_does(work: Path, tmp_path: Path) -> None:
    """A living program answers for itself; a wrong id, and anything but yes or no, changes nothing."""
    where = ["-w", str(work)]
    with provider(called(write("notes/a.md")), said("Done.")) as server:
        with terminal(asking(work, "go"), tmp_path, **server.env) as shown:
            shown.until(QUESTION)
            (log,) = (work / ".a3s" / "effect-log").glob("*.jsonl")
            _, _, err = run(["pending", *where], tmp_path)
            assert f"session {log.stem} is open in a program: answer there" in err
            code, _, err = run(["answer", log.stem, "c-", "yes", *where], tmp_path)
            assert code == 1
            assert "SESSION_BUSY" in err
            shown.type("\x04")
            assert shown.end() == 3
        for words, told in ((["nope", "yes"], "there waits: c-"), (["c-", "perhaps"], "yes or no")):
            code, _, err = run(["answer", log.stem, *words, *where], tmp_path)
            assert code == 2
            assert told in err
        assert len(run(["pending", *where, "--json"], tmp_path)[1].splitlines()) == 1
        assert run(["answer", log.stem, "c-", "n", *where], tmp_path)[0] == 0
        assert run(["answer", log.stem, "c-", "n", *where], tmp_path)[0] == 2


def test_a_way_out_of_the_sandbox_is_asked_about_with_its_risk(work: Path, tmp_path: Path) -> None:
    """What the model says of it, what it reaches, what it may do; "always" means this command and no other."""
    out = {"sandbox_permissions": "require_escalated", "justification": "it needs\nthe network"}
    first, second = ("bash", {"command": "touch one", **out}), ("bash", {"command": "touch two", **out})
    with (
        provider(called(first), called(first), called(second), said("Done.")) as server,
        terminal(["run", "-w", str(work), "go"], tmp_path, **server.env) as shown,
    ):
        asked = shown.until(QUESTION)
        for words in ("needs\\nthe network", "scope    outside the sandbox", "risk     it may read, change and send"):
            assert words in asked
        shown.type("a\r")
        assert "  | $ touch two" in shown.until(QUESTION)
        shown.type("n\r")
        assert shown.end() == 0
    assert (work / "one").is_file()
    assert not (work / "two").exists()
    assert server.asked[2][1]["messages"][-1]["role"] == "tool"


def test_a_new_prompt_says_that_it_withdraws_what_waits(work: Path, tmp_path: Path) -> None:
    """Before it does."""
    with provider(called(write("notes/a.md")), said("Other.")) as server:
        with terminal(asking(work, "go"), tmp_path, **server.env) as shown:
            shown.until(QUESTION)
            shown.type("\x04")
            assert shown.end() == 3
        (log,) = (work / ".a3s" / "effect-log").glob("*.jsonl")
        code, out, err = run(asking(work, "--session", log.stem, "something else"), tmp_path, **server.env)
    assert (code, "Other." in out) == (0, True)
    assert "1 open call of this session" in err
    assert "nothing waits" in run(["pending", "-w", str(work)], tmp_path)[2]
