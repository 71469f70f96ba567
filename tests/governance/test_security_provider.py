"""The security provider (tools.md §2.1 step 14; api.md *Governance*; extensions.md §5.3; case F16)."""

from __future__ import annotations

import json
import logging
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from governed import data, log_text, opened
from hypothesis import given, settings
from hypothesis import strategies as st

from a3s_code import Agent, DefaultSecurityProvider, SessionConfigurationError, ToolContext, ToolOutput, tool
from a3s_code.core.held import LONG_LINE, MOST, Held
from a3s_code.testing import call, calls, text

clean = DefaultSecurityProvider().sanitize
KEY = "-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA\nq83vEjRWeJCrze8=\n-----END RSA PRIVATE KEY-----"
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJlLXZhbHVl"
SECRETS = {
    "private key": KEY,
    "aws": "AKIAIOSFODNN7EXAMPLE",
    "aws session": "ASIAIOSFODNN7EXAMPLE",
    "openai": "sk-proj-abcdefgh12345678",
    "github": "ghp_abcdefghijklmnopqrst1234",
    "github fine": "github_pat_11ABCDEFG0abcdefghijkl",
    "slack": "xoxb-123456789012-abcdefghij",
    "google": "AIzaSyA1234567890abcdefghijklmnopqrstuv",
    "jwt": JWT,
}


@pytest.mark.parametrize("secret", SECRETS.values(), ids=SECRETS)
def test_known_forms_are_redacted(secret: str) -> None:
    """The secret goes, wherever it stands in a line; what is around it stays."""
    assert clean(f"before {secret} after\nnext") == "before [redacted] after\nnext"
    assert clean(secret) == "[redacted]"


@pytest.mark.parametrize(
    ("line", "cleaned"),
    [
        ("Authorization: Bearer abc.def-12345", "Authorization: Bearer [redacted]"),
        ("password=hunter22", "password=[redacted]"),
        ("PASSWD: hunter22", "PASSWD: [redacted]"),
        ("db_pwd = 'hunter 22'", "db_pwd = [redacted]"),
        ('"api_key": "abc 123 def"', '"api_key": [redacted]'),
        ("API KEY=abcdef", "API KEY=[redacted]"),
        ("AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG", "AWS_SECRET_ACCESS_KEY=[redacted]"),
        ("GITHUB_TOKEN=abcdef0123", "GITHUB_TOKEN=[redacted]"),
        (r"{\"token\": \"abcdef0123\"}", r"{\"token\": [redacted]}"),
        ("https://h/x?token=abcdef0123&y=1", "https://h/x?token=[redacted]"),
    ],
)
def test_what_is_assigned_to_a_telling_name(line: str, cleaned: str) -> None:
    """Values of six characters and more go, quotes included; the name stays."""
    assert clean(line) == cleaned
    assert clean(cleaned) == cleaned


@pytest.mark.parametrize(
    "line",
    [
        "password=short",
        "the password is wrong",
        "max_tokens=4096000",
        "token = get_token(request)",
        "secret = os.environ['SECRET']",
        "pip install sk-learn-contrib-extras",
        "task-force-of-sixteen",
        "bearer of bad news",
        "GIT_COMMIT=0123456789abcdef",
        "-----BEGIN CERTIFICATE-----",
        "def f(password: str) -> None: ...",
    ],
)
def test_ordinary_text_stays(line: str) -> None:
    """A text without a secret comes back as it was."""
    assert clean(line) == line


@pytest.mark.parametrize(
    "piece",
    [
        "sk-",
        "eyJaaaaaaaaaa-",
        "token=",
        "secret_",
        "token='",
        "bearer  ",
        "-----BEGIN PRIVATE KEY-----",
        "AKIA",
        "ghp_a",
    ],
)
def test_no_text_takes_long(piece: str) -> None:
    """A hostile output of 400 KiB costs about as much as four of 100 KiB: nothing is quadratic."""

    def cost(size: int) -> float:
        hostile = piece * (size // len(piece)) + "("
        began = time.thread_time()
        clean(hostile)
        return time.thread_time() - began

    assert min(cost(400 * 1024) for _ in range(3)) < 10 * max(min(cost(100 * 1024) for _ in range(3)), 0.005)


PIECES = st.lists(
    st.sampled_from([*SECRETS.values(), "word ", "\n", "password: hunter22\n", "é", "x" * 50, " = ", "-----BEGIN "]),
    max_size=30,
).map("".join)


@given(whole=PIECES, cuts=st.lists(st.integers(0, 3000), max_size=12))
@settings(max_examples=200, deadline=None)
def test_a_secret_cut_between_two_pieces_does_not_slip_through(whole: str, cuts: list[int]) -> None:
    """However a text is cut into pieces, what goes out is the text as it is sanitised whole."""
    at = sorted({0, len(whole), *(cut for cut in cuts if cut < len(whole))})
    held = Held(clean)
    out = "".join(held.add(whole[a:b]) for a, b in pairwise(at)) + held.end()
    assert out == clean(whole)


def test_what_is_held_back_is_bounded() -> None:
    """A line without an end is let go at a blank, one without blanks at 64 KiB, and a key that never ends too."""
    words, unbroken, endless = Held(clean), Held(clean), Held(clean)
    assert len("".join(words.add("word " * 20) for _ in range(1000))) > 1000 * 100 - LONG_LINE - 1024
    assert len("".join(unbroken.add("x" * 100) for _ in range(1000))) > 1000 * 100 - MOST - 1024
    assert "MII" not in "".join(endless.add(f"{KEY[:50]}\n") for _ in range(2000))


def leaky(ctx: ToolContext) -> ToolOutput:
    """Prints secrets."""
    for number in range(0, len(KEY), 7):
        ctx.emit(KEY[number : number + 7])
    ctx.emit("\nAKIAIOSF")
    ctx.emit("ODNN7EXAMPLE and more")
    everything = "\n".join(SECRETS.values())
    return ToolOutput(f"all:\n{everything}", metadata={"deep": [{"er": f"token={JWT}"}], "n": 1})


async def test_no_secret_of_a_tool_is_on_disk_or_in_an_event(
    agent: Agent, workspace: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Outputs, metadata and deltas are clean in facts, events, records, traces, history and log lines."""
    caplog.set_level(logging.DEBUG)
    session = await opened(
        agent, workspace, calls(("leaky", {})), "done", tools=[tool(leaky)], security_provider=DefaultSecurityProvider()
    )
    events = [event async for event in session.stream("go")]
    shown = [
        log_text(workspace),
        "\n".join(event.payload_json for event in events),
        json.dumps(session.run_events(str(session.runs()[0]["id"])), default=str),
        json.dumps(session.trace_events()),
        json.dumps(session.history()),
        caplog.text,
        *(path.read_text(errors="replace") for path in (workspace / ".a3s").rglob("*") if path.is_file()),
    ]
    for secret in (*SECRETS.values(), "MIIEpAIBAAKCAQEA", "AKIAIOSF", "c2lnbmF0dXJl"):
        assert [secret for place in shown if secret in place or json.dumps(secret)[1:-1] in place] == []
    (result,) = data(workspace, "tool.result")
    assert result.output == "all:" + "\n[redacted]" * len(SECRETS)
    assert (result.metadata["deep"], result.metadata["n"]) == ([{"er": "token=[redacted]"}], 1)
    deltas = "".join(str(event.text) for event in events if event.type == "tool_output_delta")
    assert deltas == "[redacted]\n[redacted] and more"
    assert events[-1].type == "agent_end"


async def test_what_the_model_says_is_clean_in_result_events_and_log(agent: Agent, workspace: Path) -> None:
    """The model's text is sanitised as a whole before it is a fact; its deltas come by lines, and say the same."""
    said = "Your key:\nAKIAIOSFODNN7EXAMPLE and\npassword: hunter22"
    session = await opened(agent, workspace, [text(said, chunks=9)], security_provider=DefaultSecurityProvider())
    events = [event async for event in session.stream("go")]
    expected = "Your key:\n[redacted] and\npassword: [redacted]"
    assert "".join(str(event.text) for event in events if event.type == "text_delta") == expected
    assert events[-1].text == expected
    assert "hunter22" not in log_text(workspace)


async def test_arguments_run_as_they_are_and_are_shown_clean(agent: Agent, workspace: Path) -> None:
    """A call does what the model asked, secret included; its events and confirmations show it redacted."""
    write = call("write", {"file_path": "a", "content": "password: hunter22"}, chunks=7)
    session = await opened(agent, workspace, [write], "done", security_provider=DefaultSecurityProvider())
    events = [event async for event in session.stream("set password: hunter22")]
    assert (workspace / "a").read_text() == "password: hunter22"
    assert not any("hunter22" in event.payload_json for event in events)
    assert events[0].payload["prompt"] == "set password: [redacted]"
    delta = "".join(str(event.payload["delta"]) for event in events if event.type == "tool_input_delta")
    assert delta == '{"file_path":"a","content":"password: [redacted]"}'


async def test_an_error_of_a_tool_is_clean_everywhere(
    agent: Agent, workspace: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """What a tool raises is its sanitised output, and no traceback with its text is logged."""
    caplog.set_level(logging.DEBUG)

    def broken() -> str:
        """Fails."""
        raise RuntimeError("password: hunter22")

    session = await opened(agent, workspace, tools=[tool(broken)], security_provider=DefaultSecurityProvider())
    result = await session.tool_async("broken")
    assert (result.output, result.error_kind) == ("RuntimeError: password: [redacted]", "internal")
    assert "hunter22" not in result.metadata_json
    assert "hunter22" not in caplog.text


class Fails:
    """A provider that can't cope with the word ``hard``."""

    def __init__(self, answer: Any = None) -> None:
        self.answer = answer

    def sanitize(self, text: str) -> Any:
        if "hard" not in text:
            return text
        if self.answer is None:
            raise RuntimeError(f"no: {text}")
        return self.answer


@pytest.mark.parametrize("provider", [Fails(), Fails(b"bytes")])
async def test_what_can_not_be_sanitised_is_withheld(
    agent: Agent, workspace: Path, provider: Fails, caplog: pytest.LogCaptureFixture
) -> None:
    """A provider that raises or gives no text costs the output, kind ``internal``; the run goes on."""
    (workspace / "a").write_text("a hard text\n")
    session = await opened(agent, workspace, calls(("read", {"file_path": "a"})), "done", security_provider=provider)
    events = [event async for event in session.stream("go")]
    (result,) = data(workspace, "tool.result")
    assert (result.outcome, result.metadata["error"]["type"]) == ("error", "internal")
    assert result.output == "The output was withheld: the security provider failed"
    assert not any("a hard text" in event.payload_json for event in events)
    assert "a hard text" not in caplog.text
    assert "security provider" in caplog.text
    assert events[-1].type == "agent_end"


async def test_artifacts_hold_the_sanitised_text(agent: Agent, workspace: Path) -> None:
    """What is kept whole was sanitised first; helpers with plain values get it too."""
    (workspace / "long").write_text("password: hunter22\n" + "x" * 3000)
    session = await opened(
        agent,
        workspace,
        security_provider=DefaultSecurityProvider(),
        tool_result_transform_policy={"max_output_bytes": 1024, "head_bytes": 100},
    )
    result = await session.tool_async("bash", {"command": "cat long"})
    evidence: Any = result.metadata["a3s_tool_result_evidence"]
    artifact = session.get_artifact(evidence["content_ref"])
    assert artifact is not None
    assert str(artifact["content"]).startswith("password: [redacted]\nxxx")
    assert "hunter22" not in await session.bash_async("cat long")


async def test_a_provider_without_sanitize(agent: Agent, workspace: Path) -> None:
    """Any other object is refused when the session is made."""
    with pytest.raises(SessionConfigurationError, match="security_provider"):
        await opened(agent, workspace, security_provider=object())
