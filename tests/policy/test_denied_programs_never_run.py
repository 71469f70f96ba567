"""Lines run by a real bash: what it would run and a policy denies is never allowed (cases E01, E02, E04)."""

from __future__ import annotations

import re

import pytest
from grammar import damaged, denied
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from judging import decision
from stubs import Stubs

from a3s_code.core.policy import PermissionPolicy

BY_NAME = PermissionPolicy(deny=["bash(rm:*)"], default_decision="allow")
BY_FLAGS = PermissionPolicy(deny=["bash(rm -rf*)"], allow=["bash"])
_OTHERS = "ls echo cat grep printf xargs find env sudo timeout nice nohup sh bash eval time command exec export".split()
BY_ALLOWING = PermissionPolicy(allow=[f"bash({name}:*)" for name in _OTHERS])


@pytest.fixture(scope="module")
def stubs(tmp_path_factory: pytest.TempPathFactory) -> Stubs:
    return Stubs(tmp_path_factory.mktemp("stubs"))


def removes_all(call: str) -> bool:
    """Whether these arguments of ``rm`` are what ``rm -rf*`` denies."""
    words = call.split(" ")
    words = words[: words.index("--")] if "--" in words else words
    letters = {letter for word in words if re.fullmatch("-[A-Za-z]+", word) for letter in word[1:].replace("R", "r")}
    for word in words:
        if len(word) > 2:
            letters |= {name[2] for name in ("--recursive", "--force") if name.startswith(word)}
    return {"r", "f"} <= letters


def check(stubs: Stubs, line: str) -> None:
    calls = stubs.run(line)
    if not calls:
        return
    assert decision(BY_NAME, line) != "allow", calls
    assert decision(BY_ALLOWING, line) != "allow", calls
    if any(removes_all(call) for call in calls):
        assert decision(BY_FLAGS, line) != "allow", calls


FEW = settings(
    max_examples=60,
    derandomize=True,
    deadline=None,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=[*HealthCheck],
)
MANY = settings(FEW, max_examples=1_500)


@FEW
@given(line=st.one_of(denied(), damaged()))
def test_some_lines(stubs: Stubs, line: str) -> None:
    """Whenever bash runs the denied program, no policy that denies it, or doesn't allow it, allows the line."""
    check(stubs, line)


@pytest.mark.prove
@MANY
@given(line=st.one_of(denied(), damaged()))
def test_many_lines(stubs: Stubs, line: str) -> None:
    """The same over many more lines."""
    check(stubs, line)


@pytest.mark.parametrize(
    ("line", "calls"),
    [
        ("rm -rf x", ["-rf x"]),
        ("echo rm", []),
        ("$X -rf x", ["-rf x"]),
        ("sudo -u root rm x", ["x"]),
        ("echo a | xargs rm", ["a"]),
        ("bash -c 'rm x; rm y'", ["x", "y"]),
    ],
)
def test_stubs_tell_what_ran(stubs: Stubs, line: str, calls: list[str]) -> None:
    """The place itself works: a stub records each call of it, and nothing else."""
    assert stubs.run(line) == calls
