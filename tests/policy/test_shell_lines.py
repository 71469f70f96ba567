"""Shell lines under the policies of the decision table: tricks, and what developers type (cases E01 to E07)."""

from __future__ import annotations

import pytest
from judging import SHELL, decision
from lines import COVERED, DENIED, REFUSED, SAFE, UNCOVERED, lines
from table import A, B

from a3s_code.core.policy import PermissionPolicy, compile_policy
from a3s_code.core.policy.verdict import explain


@pytest.mark.parametrize("line", lines(DENIED))
def test_denied_however_it_is_written(line: str) -> None:
    """A denied program is found wherever a line runs it, under whatever spelling."""
    assert decision(A, line) == "deny"


@pytest.mark.parametrize("line", lines(REFUSED))
def test_what_could_be_denied_asks(line: str) -> None:
    """What the line leaves open, or what isn't understood, is not allowed, even where everything else is."""
    assert decision(A, line) != "allow"
    assert decision(B, line) != "allow"
    everything = PermissionPolicy(deny=["bash(rm -rf*)"], allow=["bash"])
    assert decision(everything, line) != "allow"


@pytest.mark.parametrize("line", lines(SAFE))
def test_ordinary_lines_run_under_a_deny_list(line: str) -> None:
    """A deny rule touches no line that can't do what it denies."""
    assert decision(B, line) == "allow"


@pytest.mark.parametrize("line", lines(COVERED))
def test_covered_by_an_allow_list(line: str) -> None:
    """Allowed programs may be combined, wrapped and repeated."""
    assert decision(A, line) == "allow"


@pytest.mark.parametrize("line", lines(UNCOVERED))
def test_not_covered_by_an_allow_list(line: str) -> None:
    """One part that no rule allows is enough to ask, or to deny where that is the default."""
    assert decision(A, line) == "ask"
    closed = PermissionPolicy(deny=A.deny, ask=A.ask, allow=A.allow, default_decision="deny")
    assert decision(closed, line) == "deny"


@pytest.mark.parametrize("separator", ["; ", " && ", " | ", "\n", " & ", " || "])
def test_chaining_reaches_no_further(separator: str) -> None:
    """An allowed beginning allows nothing behind it (case E01)."""
    policy = PermissionPolicy(allow=["bash(git log*)"])
    assert decision(policy, "git log") == "allow"
    assert decision(policy, f"git log{separator}touch x") == "ask"


@pytest.mark.parametrize("line", ["rm -rf x\r\n", "rm\u00a0-rf x", "rm\x0b-rf x", "rm -rf x\x00", "\ufeffrm -rf x"])
def test_odd_blanks(line: str) -> None:
    """What bash may read differently isn't guessed at: such a line runs no `rm -rf`, or asks."""
    found = decision(PermissionPolicy(deny=["bash(rm:*)"], default_decision="allow"), line)
    assert found != "allow" or line[0] == "\ufeff" or "\u00a0" in line


@pytest.mark.parametrize(
    "line",
    [
        "(" * 40_000,
        "$(" * 30_000,
        "a;" * 40_000,
        "a\n" * 40_000,
        "echo " + "a " * 45_000,
        "echo " + "'a'" * 30_000,
        "{a," * 20_000,
        '"' + "$x" * 20_000 + '"',
        "sudo " * 3_000 + "ls",
        "find . " + "-exec ls {} \\; " * 2_000,
        "eval " * 200 + "ls",
        "rm " + "*" * 3_000 + "x",
        "case x in " * 5_000,
        "<<A " * 5_000,
        "cat > f <<'E'\n" + "line $(x) `y`\n" * 6_000 + "E",
    ],
    ids=lambda line: repr(line[:12]),
)
def test_long_and_deep_lines_are_decided(line: str) -> None:
    """Lines of a hundred thousand characters or many levels get a decision and no error."""
    assert decision(A, line) == "ask"


def test_environment_given_beside_the_line() -> None:
    """The argument `env` counts as assignments: only harmless names leave an allow rule standing."""
    assert decision(A, "npm test", env={"CI": "1"}) == "allow"
    assert decision(A, "npm test", env={"LD_PRELOAD": "./x.so"}) == "ask"
    assert decision(PermissionPolicy(allow=["bash"]), "npm test", env={"LD_PRELOAD": "./x.so"}) == "allow"


def test_working_directory_of_redirections() -> None:
    """A relative target is taken from where the line runs."""
    policy = PermissionPolicy(deny=["write(web/.env)"], allow=["write(out/*)"], default_decision="ask")
    assert decision(policy, "echo x > .env") == "ask"
    assert decision(policy, "echo x > .env", cwd="web") == "deny"
    assert decision(policy, "echo x > ../.env", cwd="web/a") == "deny"
    assert decision(policy, "echo x > /w/web/.env") == "deny"
    assert decision(policy, "echo x > a", cwd="out") == "allow"
    assert decision(policy, "cd out && echo x > a") == "ask"


def test_rules_on_the_tool_write_and_redirections() -> None:
    """Only rules on certain paths concern `bash`; a universal allow of `bash` covers its redirections."""
    assert decision(PermissionPolicy(deny=["write"], default_decision="allow"), "echo x > a") == "allow"
    assert decision(PermissionPolicy(allow=["bash"]), "echo x > a") == "allow"
    assert decision(PermissionPolicy(ask=["write(a)"], allow=["bash"]), "echo x > a") == "ask"
    assert decision(PermissionPolicy(deny=["write(**/.env)"], allow=["bash"]), 'echo x > "$F"') == "ask"


def test_a_link_as_target_of_a_redirection() -> None:
    """Where a redirection leads through a link is looked at too (case E08)."""
    policy = PermissionPolicy(deny=["write(**/.env)"], allow=["bash"])
    assert decision(policy, "echo x > docs/link", resolve=lambda path: (path, ".env")) == "deny"


@pytest.mark.parametrize(
    ("line", "part", "subject", "rule"),
    [
        ("cd a && FOO=1 rm -rf b", "FOO=1 rm -rf b", "rm -rf b", "bash(rm -rf*)"),
        ("npm test; sudo rm -fr x", "sudo rm -fr x", "rm -fr x", "bash(rm -rf*)"),
        ("npm test > .env", "> .env", ".env", "write(**/.env*)"),
        ("npm test; ls -l", "ls -l", "ls -l", None),
        ("npm test", "npm test", "npm test", "bash(npm test*)"),
    ],
)
def test_explanations_name_part_and_rule(line: str, part: str, subject: str, rule: str | None) -> None:
    """`explain` shows the part of the line that led to the decision (case E12)."""
    found = explain(compile_policy(A), "bash", {"command": line}, SHELL).as_json()
    assert (found["part"], found["subject"], found["rule"]) == (part, subject, rule)
