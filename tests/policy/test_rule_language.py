"""Permission rules on whole tools (tools.md §5.1, §5.2)."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from a3s_code.core.content import ALLOW, Decision
from a3s_code.core.policy import PermissionPolicy, PolicyError, compile_policy, explain, judge, preset

LISTS: list[Decision] = ["deny", "ask", "allow"]


def decision(policy: PermissionPolicy, tool: str) -> str:
    return judge(compile_policy(policy), tool).decision


@pytest.mark.parametrize("present", [list(c) for n in range(4) for c in itertools.combinations(LISTS, n)])
@pytest.mark.parametrize("default", LISTS)
def test_deny_beats_ask_beats_allow_beats_the_default(present: list[str], default: Decision) -> None:
    """The strictest list that names a tool decides, whatever the order (case E12)."""
    policy = PermissionPolicy(**{name: ["bash"] for name in present}, default_decision=default)  # type: ignore[arg-type]  # the names are the lists'
    assert decision(policy, "bash") == (present[0] if present else default)


@pytest.mark.parametrize("rule", ["bash", " bash ", "BASH", "bash(*)", "bash(**)", "ba*", "*", "b*h", "*(*)"])
def test_forms_of_a_rule_on_a_whole_tool(rule: str) -> None:
    """Bare names, universal patterns, wildcards and any case match the tool."""
    assert decision(PermissionPolicy(deny=[rule], default_decision="allow"), "bash") == "deny"


@pytest.mark.parametrize("rule", ["bas", "bash2", "ash", "b.sh", "mcp__*", "bash_*"])
def test_a_rule_matches_whole_names_only(rule: str) -> None:
    """A part of a name, or a character that means something elsewhere, is no match."""
    assert decision(PermissionPolicy(deny=[rule], default_decision="allow"), "bash") == "allow"


@pytest.mark.parametrize(
    "rule", ["bash(rm -rf*)", "read(src/**)", "git(push)", "write(***)", "grep", "glob(*)", "bm25"]
)
def test_rules_on_arguments_are_refused_not_ignored(rule: str) -> None:
    """What this version can't judge is an error that says so (case E15)."""
    with pytest.raises(PolicyError, match="not available in this version"):
        compile_policy(PermissionPolicy(deny=[rule]))


@pytest.mark.parametrize("rule", ["", " ", "bash(", "bash()", "(x)", "bash)", "ba sh", "bash(x)y"])
def test_malformed_rules_are_refused(rule: str) -> None:
    """A rule that says nothing clear is an error that shows it."""
    with pytest.raises(PolicyError, match="malformed"):
        compile_policy(PermissionPolicy(allow=[rule]))


@given(st.text(max_size=20))
def test_any_text_is_a_rule_or_an_error(text: str) -> None:
    """No text makes the parser fail in another way."""
    try:
        policy = compile_policy(PermissionPolicy(deny=[text], default_decision="allow"))
    except PolicyError:
        return
    assert judge(policy, text.strip().partition("(")[0]).decision == "deny"


@pytest.mark.parametrize("tool", ["batch", "update_plan", "ask_user", "search_skills"])
def test_harmless_tools_are_allowed_unless_a_rule_names_them(tool: str) -> None:
    """They pass under any default, and a rule still decides about them."""
    assert decision(PermissionPolicy(default_decision="deny"), tool) == "allow"
    assert decision(PermissionPolicy(deny=[tool]), tool) == "deny"


def test_disabled_policy_allows_everything() -> None:
    """``enabled=False`` switches the rules off."""
    policy = PermissionPolicy(deny=["*"], enabled=False)
    assert decision(policy, "bash") == "allow"
    assert policy.explain("bash", {"command": "x"})["list"] == "disabled"


def test_verdicts_say_why() -> None:
    """A refusal carries the text for the model and its error kind; an allowed call shares one verdict."""
    policy = compile_policy(PermissionPolicy(deny=["bash"], ask=["git"], default_decision="deny"))
    denied = judge(policy, "bash")
    assert (denied.reason, denied.kind) == ("Permission denied: bash matches deny rule 'bash'", "permission_denied")
    assert judge(policy, "write").reason == "Permission denied: write: no rule allows it"
    assert "ask rule 'git'" in judge(policy, "git").reason
    assert judge(policy, "batch") is ALLOW


def test_explain_names_list_and_rule() -> None:
    """``explain`` gives the decision and the rule as it was written, without running anything."""
    policy = PermissionPolicy(ask=["mcp__*"], default_decision="allow")
    assert policy.explain("mcp__a__b") == {"decision": "ask", "list": "ask", "rule": "mcp__*", "subject": "mcp__a__b"}
    assert explain(compile_policy(policy), "read") == ("allow", "default", None)


def test_presets() -> None:
    """``full`` allows all, ``read_only`` nothing that changes anything; ``workspace`` waits for the sandbox."""
    assert decision(preset("full"), "bash") == "allow"
    assert [decision(preset("read_only"), tool) for tool in ("read", "bash", "write", "git", "mcp__x__y")] == [
        "allow",
        *["deny"] * 4,
    ]
    with pytest.raises(PolicyError, match="sandbox"):
        preset("workspace")
