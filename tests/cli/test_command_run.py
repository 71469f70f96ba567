"""``a3s-code run``: one prompt, watched, in real processes where a process is what matters."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest
from commands import HOLD, called, provider, run, said, start

from a3s_code.cli.main import main
from a3s_code.cli.sample_repo import write_sample
from a3s_code.stores.logfile import read_log, verify_log


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The sample repository, in an environment without keys."""
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_BASE_URL", "A3S_CODE_MODEL"):
        monkeypatch.delenv(name, raising=False)
    made = tmp_path / "work"
    write_sample(made)
    return made


def logs(workspace: Path) -> list[Path]:
    return sorted((workspace / ".a3s" / "effect-log").glob("*.jsonl"))


def test_a_first_run_without_a_key_answers_and_says_how_to_go_on(workspace: Path, tmp_path: Path) -> None:
    """The offline model answers on standard output; where it comes from and what to type next are beside it."""
    code, out, err = run(["run", "-w", str(workspace), "Summarise this repository"], tmp_path)
    assert code == 0, err
    assert "Household expenses" in out
    assert out.splitlines()[-1].startswith("done: ")
    notes = err.splitlines()
    (log,) = logs(workspace)
    assert "no API key was found" in notes[0]
    assert "OPENAI_API_KEY" in notes[0]
    assert notes[1:] == [
        f'a3s-code: session {log.stem}: go on with `a3s-code run --session {log.stem} -w {workspace} "..."`'
    ]
    assert verify_log(str(log)).ok


def test_json_gives_one_event_a_line_and_nothing_else(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With --json both outputs hold what a program expects."""
    assert main(["run", "-w", str(workspace), "--json", "find TODOs"]) == 0
    printed = capsys.readouterr()
    events = [json.loads(line) for line in printed.out.splitlines()]
    assert [events[0]["type"], events[-1]["type"]] == ["agent_start", "agent_end"]
    assert "tally/storage.py" in events[-1]["payload"]["text"]
    assert printed.err == ""


def test_a_dash_reads_the_prompt_from_standard_input(workspace: Path, tmp_path: Path) -> None:
    """The prompt arrives whole, with its line ends."""
    code, out, _ = run(["run", "-w", str(workspace), "--json", "-"], tmp_path, "find\nTODOs\n")
    assert code == 0
    assert json.loads(out.splitlines()[0])["payload"]["prompt"] == "find\nTODOs\n"


def test_a_session_goes_on(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """--session takes an id or its beginning, and adds to the same log."""
    where = ["-w", str(workspace)]
    assert main(["run", *where, "hello"]) == 0
    (log,) = logs(workspace)
    assert main(["run", *where, "--session", log.stem, "hello again"]) == 0
    assert main(["run", *where, "--session", log.stem[:5], "and again"]) == 0
    capsys.readouterr()
    assert logs(workspace) == [log]
    assert [line.fact.kind for line in read_log(str(log))].count("run.closed") == 3


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--session", "nobody", "x"], ["INVALID_REQUEST", "no session 'nobody'", "a3s-code sessions"]),
        ([], ["INVALID_REQUEST", "what is to be done"]),
        (["  "], ["INVALID_REQUEST", "empty"]),
        (["-w", "/nowhere", "x"], ["INVALID_REQUEST", "no such directory"]),
        (["--resume"], ["INVALID_REQUEST", "--session"]),
        (["--model", "openai/gpt-9", "x"], ["CONFIG_ERROR", "--model", "OPENAI_API_KEY", "--config"]),
        (["--attach", "/nowhere.png", "x"], ["INVALID_REQUEST", "/nowhere.png"]),
        (["--config", "/nowhere.acl", "x"], ["CONFIG_ERROR", "/nowhere.acl"]),
    ],
)
def test_what_can_not_be_done_is_said_in_one_sentence(
    workspace: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], words: list[str]
) -> None:
    """Bad usage exits with 2, names its code and what to do, and leaves no log."""
    assert main(["run", "-w", str(workspace), *arguments]) == 2
    last = capsys.readouterr().err.strip().splitlines()[-1]
    assert [word for word in words if word not in last] == []
    assert logs(workspace) == []


def test_a_bad_configuration_is_shown_with_its_line(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """File, line and column, the line itself and a mark under the place; no traceback."""
    acl = workspace / "agent.acl"
    acl.write_text('default_model = "openai/x"\nmax_tool_rounds = "many"\n')
    assert main(["run", "-w", str(workspace), "x"]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith(f"a3s-code: CONFIG_ERROR: {acl}:2:19:")
    assert lines[1].strip() == '2 | max_tool_rounds = "many"'
    assert lines[2].strip() == "|                   ^"


def test_the_configuration_of_the_workspace_is_used_and_told(
    workspace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A model that isn't declared there is refused, with those that are."""
    acl = workspace / ".a3s" / "agent.acl"
    acl.parent.mkdir()
    acl.write_text('default_model = "offline/scout"\nproviders "openai" { models "m" {} }')
    assert main(["run", "-w", str(workspace), "hello"]) == 0
    assert capsys.readouterr().err.startswith(f"a3s-code: configuration {acl}\n")
    assert main(["run", "-w", str(workspace), "--model", "openai/n", "hello"]) == 2
    assert "openai/m" in capsys.readouterr().err


def test_a_key_in_the_environment_is_enough_for_any_model_of_its_provider(workspace: Path, tmp_path: Path) -> None:
    """--model is declared on the fly; attachments reach the model; the key is sent and never printed."""
    notes = tmp_path / "notes.txt"
    notes.write_text("remember the milk")
    with provider(said("Noted.")) as server:
        args = ["run", "-w", str(workspace), "--model", "openai/gpt-9", "--attach", str(notes), "note it"]
        code, out, err = run(args, tmp_path, **server.env)
    assert code == 0, err
    assert out.startswith("Noted.\ndone: ")
    headers, body = server.asked[0]
    assert headers["authorization"] == "Bearer sk-test-1234567890"
    assert body["model"] == "gpt-9"
    assert "remember the milk" in json.dumps(body)
    assert "sk-test" not in out + err + logs(workspace)[0].read_text()


def test_the_command_lifts_the_documents_limits(workspace: Path, tmp_path: Path) -> None:
    """More tool calls and steps than the library's defaults (8 and 32) take are done."""
    rounds = [called(("bash", {"command": f"echo {n}"})) for n in range(18)]
    with provider(*rounds, said("All of them.")) as server:
        code, out, err = run(["run", "-w", str(workspace), "go"], tmp_path, **server.env)
    assert (code, out.splitlines()[-1].split(",")[0]) == (0, "done: 18 tool calls"), err


def test_a_refused_key_fails_the_run_and_says_what_to_do(workspace: Path, tmp_path: Path) -> None:
    """The run's error is told once; the exit code is 1 and the way on is shown."""
    with provider(401) as server:
        code, out, err = run(["run", "-w", str(workspace), "go"], tmp_path, **server.env)
    assert code == 1
    assert "LLM_ERROR" in out
    assert "401" in out
    assert f"--resume --session {logs(workspace)[0].stem}" in err
    assert "Traceback" not in out + err


def test_a_killed_run_is_gone_on_with(workspace: Path, tmp_path: Path) -> None:
    """--resume takes up what SIGKILL left open, with the results it has, and leaves a finished run alone."""
    with provider(called(("ls", {})), [HOLD], said("Resumed.")) as server:
        process = start(["run", "-w", str(workspace), "--json", "go"], tmp_path, **server.env)
        assert server.holding.wait(20)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        where = ["--session", logs(workspace)[0].stem, "-w", str(workspace)]
        code, out, err = run(["run", "--resume", *where], tmp_path, **server.env)
        assert code == 0, err
        assert out.startswith("Resumed.\n")
        assert [message["role"] for message in server.asked[2][1]["messages"]][-2:] == ["assistant", "tool"]
        code, out, err = run(["run", "--resume", *where], tmp_path, **server.env)
    assert (code, out) == (0, "")
    assert "no run that was left open" in err


def test_a_reader_that_goes_away_ends_the_command_quietly(workspace: Path, tmp_path: Path) -> None:
    """`a3s-code run … | head -1` prints no traceback."""
    process = start(["run", "-w", str(workspace), "--json", "find TODOs"], tmp_path)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.readline()
    process.stdout.close()
    assert process.wait(20) in (0, 141)
    assert "Traceback" not in process.stderr.read()
    process.stderr.close()
    assert process.stdin is not None
    process.stdin.close()


def test_the_version_is_that_of_the_package(capsys: pytest.CaptureFixture[str]) -> None:
    """--version prints it and nothing else is loaded or asked."""
    with pytest.raises(SystemExit) as left:
        main(["--version"])
    assert left.value.code == 0
    assert capsys.readouterr().out.startswith("a3s-code 0.")
