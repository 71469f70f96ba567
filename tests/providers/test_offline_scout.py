"""The offline model looks with the tools it is offered and answers with files, lines and quotations."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
from offline_workspace import Talk

from a3s_code.cli.sample_repo import write_sample
from a3s_code.core.content import AssistantMessage, Call, Message, ToolMessage, UserMessage
from a3s_code.ports.model import Model, ModelRequest, ToolSpec
from a3s_code.providers.offline import Scout

PROJECT = Path(__file__).parent.parent.parent


@pytest.fixture
def sample(tmp_path: Path) -> Path:
    write_sample(tmp_path)
    return tmp_path


def with_history(root: Path) -> Path:
    env = {"PATH": os.environ["PATH"], "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}
    who = ["-c", "user.name=Ada", "-c", "user.email=ada@example.com"]
    for line in (["init", "-q"], ["add", "."], [*who, "commit", "-q", "-m", "Add reports"]):
        subprocess.run(["git", "-C", str(root), *line], check=True, env=env)
    return root


def check_quotations(root: Path, answer: str) -> int:
    """Every ``- `path:line` – `text` `` names a line that holds the text; gives how many there were."""
    found = re.findall(r"^- `([^`]+):(\d+)` – `+ ?(.+?) ?`+(?: –.*)?$", answer, re.MULTILINE)
    for path, line, text in found:
        there = " ".join((root / path).read_text().split("\n")[int(line) - 1].split())
        assert there.startswith(text.rstrip("…").strip()), f"{path}:{line}"
    return len(found)


async def test_a_definition_is_found_and_quoted(sample: Path) -> None:
    """A "where is X" is answered with the line that defines it, not with one that mentions it."""
    talk = Talk(sample)
    answer = await talk.ask("Where is `over_budget` defined?")
    lines = (sample / "tally/report.py").read_text().split("\n")
    line = next(number for number, text in enumerate(lines, 1) if text.startswith("def over_budget("))
    assert answer.startswith(f"`over_budget` is defined at **`tally/report.py:{line}`**.")
    assert f"{line}  def over_budget(" in answer
    assert check_quotations(sample, answer) >= 2
    assert "no language model" in answer


async def test_a_question_in_plain_words_finds_the_place(sample: Path) -> None:
    """Other forms of a word count, and a rare word says more than one that is everywhere."""
    answer = await Talk(sample).ask("where are the entries saved?")
    assert answer.split("\n")[0] == "Best match for `entries`, `saved`: **`tally/storage.py:27`**"


async def test_a_summary_says_what_how_and_where(sample: Path) -> None:
    """A summary names the project, quotes the README, and lists languages, commands, layout, modules and commits."""
    talk = Talk(with_history(sample))
    answer = await talk.ask("Please summarise this repository.")
    for part in (
        "## tally",
        "Household expenses in a CSV file, with reports",
        "> Tally keeps a household's expenses",
        "`README.md:3`",
        "Python 8",
        "make test",
        "- `tally/` – 6 files",
        "`tally/storage.py:1` – The ledger as a CSV file",
        "Ada Add reports",
    ):
        assert part in answer
    assert talk.rounds <= 3


async def test_markers_are_listed_the_urgent_first(sample: Path) -> None:
    """TODO comments are found with their lines; a FIXME stands before a TODO."""
    answer = await Talk(sample).ask("find TODOs")
    assert answer.startswith("**3 markers in 3 files** (2 TODO, 1 FIXME)")
    assert check_quotations(sample, answer) == 3
    assert answer.index("FIXME: an empty ledger") < answer.index("TODO: accept several")


async def test_a_word_that_only_contains_a_marker_is_none(tmp_path: Path) -> None:
    """A list called TODO_ITEMS or a sentence about todos is no marker."""
    (tmp_path / "a.py").write_text('TODO_ITEMS = []\nprint("a TODO list")\nx = 1  # TODO(ada): more\n')
    answer = await Talk(tmp_path).ask("any TODOs?")
    assert answer.startswith("**1 marker in 1 file** (1 TODO)")
    assert "`a.py:3`" in answer


async def test_markers_outside_comments_are_not_kept_silent(tmp_path: Path) -> None:
    """Where no comment has a marker, lines of prose that name one are shown."""
    (tmp_path / "README.md").write_text("# Zeta\nA small project. TODO: fix it\n")
    answer = await Talk(tmp_path).ask("find TODOs")
    assert "`README.md:2`" in answer
    assert "outside comments" in answer


async def test_the_bug_of_the_sample_is_found(sample: Path) -> None:
    """The loop that leaves out the last entry comes first, with the reason."""
    answer = await Talk(sample).ask("Find the bug in this code")
    assert "`tally/report.py:14` – the last element is left out" in answer
    assert answer.index("report.py:14`") < answer.index("report.py:31`")


async def test_the_test_command_comes_with_its_source(sample: Path) -> None:
    """The Makefile's target wins over a guess, and the line that says so is named."""
    answer = await Talk(sample).ask("How do I run the tests?")
    assert "```bash\nmake test\n```\n\nas `Makefile:3` says." in answer
    assert "`python -m pytest` (`pyproject.toml`)" in answer


async def test_recent_changes_come_from_git(sample: Path) -> None:
    """Commits, the state of the working tree and the changelog."""
    (with_history(sample) / "new.py").write_text("x = 1\n")
    answer = await Talk(sample).ask("what changed lately?")
    assert "**The last 1 commit**" in answer
    assert "Ada Add reports" in answer
    assert "1 file not committed: `?? new.py`" in answer
    assert "**From `CHANGELOG.md`**" in answer


async def test_without_the_git_tool_the_shell_is_used(sample: Path) -> None:
    """Only offered tools are called; bash stands in for git."""
    talk = Talk(with_history(sample), "ls", "read", "search", "bash")
    answer = await talk.ask("show me the recent commits")
    assert "Ada Add reports" in answer
    assert {call.name for call in talk.calls} <= {"ls", "read", "search", "bash"}


async def test_with_a_shell_alone_it_still_finds_things(sample: Path) -> None:
    """Listing, searching and reading go through bash when nothing else is there."""
    talk = Talk(sample, "bash")
    answer = await talk.ask("where is over_budget?")
    assert answer.startswith("`over_budget` is defined at **`tally/report.py:")
    assert "def over_budget(ledger" in answer


async def test_without_search_and_shell_it_reads_what_there_is(sample: Path) -> None:
    """With ls and read it can still say what the project is."""
    talk = Talk(sample, "ls", "read")
    answer = await talk.ask("summarise this repository")
    assert "## tally" in answer
    assert {call.name for call in talk.calls} == {"ls", "read"}


async def test_without_git_history_the_newest_files_are_named(sample: Path) -> None:
    """A failing tool is said in the answer, and something else is tried."""
    answer = await Talk(sample).ask("what changed recently?")
    assert "There is no git history here. The files changed last:" in answer
    assert "Not a git repository" in answer


async def test_a_command_that_failed_is_no_history() -> None:
    """What git prints about a missing repository must not be taken for commits."""
    call = Call("1", "bash", {"command": "git log --date=short -n 15"})
    output = "[stderr]\nfatal: not a git repository\n[exit code: 128]"
    messages: list[Message] = [
        UserMessage("what changed lately?"),
        AssistantMessage("", calls=(call,)),
        ToolMessage("1", "bash", output, is_error=True),
    ]
    request = ModelRequest("scout", messages, tools=())
    text = "".join([delta.text async for delta in Scout().stream(request)])
    assert text.startswith("There is no git history here.")
    assert "bash: fatal: not a git repository" in text


@pytest.mark.parametrize("tools", [(), (ToolSpec("program", "", {"type": "object"}),)])
async def test_without_usable_tools_it_says_so(tools: tuple[ToolSpec, ...]) -> None:
    """No tool is invented; the user learns what is missing."""
    model: Model = Scout()
    request = ModelRequest("scout", [UserMessage("where is X1_y?")], tools=tools)
    deltas = [delta async for delta in model.stream(request)]
    assert not any(delta.call for delta in deltas)
    assert "offers me no tool" in "".join(delta.text for delta in deltas)


async def test_when_the_tools_are_taken_away_it_answers_from_what_it_has(sample: Path) -> None:
    """The last round of a run may come without tools; what was found until then is the answer."""
    talk = Talk(sample)
    await talk.ask("where is over_budget?")
    before = talk.messages[:-1]
    request = ModelRequest("scout", before, tools=())
    text = "".join([delta.text async for delta in Scout().stream(request)])
    assert text.startswith("`over_budget` is defined at")


async def test_nothing_found_is_said_and_nothing_invented(sample: Path) -> None:
    """An unknown name gives no guess as an answer."""
    answer = await Talk(sample).ask("where is FluxCapacitor?")
    assert answer.startswith("Nothing in the workspace mentions `FluxCapacitor`.")


async def test_a_named_file_is_outlined(sample: Path) -> None:
    """A prompt that names a path gets that file, also by its base name alone."""
    for prompt in ("explain tally/report.py", "what is in report.py?"):
        answer = await Talk(sample).ask(prompt)
        assert "**`tally/report.py`**" in answer
        assert "def by_category(" in answer
        assert check_quotations(sample, answer) == 4


async def test_a_wish_for_a_change_is_declined_openly(sample: Path) -> None:
    """It says that it can't change code, and still shows where one would start."""
    answer = await Talk(sample).ask("Rename `over_budget` to `beyond`")
    assert answer.startswith("I can look but not change code")
    assert "tally/report.py" in answer


@pytest.mark.parametrize("prompt", ["hi", "Who are you?", "help"])
async def test_a_greeting_gets_an_introduction_and_no_calls(sample: Path, prompt: str) -> None:
    """Nothing is looked at when nothing is asked."""
    talk = Talk(sample)
    assert "I am scout" in await talk.ask(prompt)
    assert talk.calls == []


async def test_the_same_conversation_gives_the_same_bytes(sample: Path) -> None:
    """Deltas, ids and usage follow from the request alone."""
    first, second = Talk(sample), Talk(sample)
    for talk in (first, second):
        await talk.ask("how do the budgets work")
        await talk.ask("find TODOs")
    assert first.messages == second.messages
    assert first.last == second.last


async def test_ids_are_unique_in_a_conversation_and_the_end_is_said(sample: Path) -> None:
    """Each call has its own id over several prompts; each answer ends with its reason and estimated usage."""
    talk = Talk(sample)
    await talk.ask("find TODOs")
    await talk.ask("find TODOs")
    ids = [call.id for call in talk.calls]
    assert len(set(ids)) == len(ids) >= 4
    end = talk.last[-1]
    assert end.finish == "stop"
    assert end.usage is not None
    assert end.usage.estimated
    assert end.usage.total_tokens > 100
    assert sum(1 for delta in talk.last if delta.text) > 5


@pytest.mark.parametrize(
    ("prompt", "words"),
    [
        ("summarise this repository", ["## a3s-code-py", "aiohttp", "src/a3s_code/"]),
        ("where is class CodeError defined?", ["is defined at **`src/a3s_code/errors.py:"]),
        ("how do I run the tests?", ["pytest"]),
        ("what is JumpingClock and who uses it?", ["is defined at **`src/a3s_code/testing/clock.py:"]),
    ],
)
async def test_answers_about_this_repository(prompt: str, words: list[str]) -> None:
    """On a real repository of some hundred files the answers are right, quoted truly, and come within four turns."""
    talk = Talk(PROJECT, "ls", "read", "search")
    answer = await talk.ask(prompt)
    for word in words:
        assert word in answer
    assert talk.rounds <= 3
    assert len(answer) < 6000
