"""The rule language and what is decided about whole tools (tools.md §5.1, §5.2)."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from judging import SHELL, decision

from a3s_code.core.content import ALLOW, Decision
from a3s_code.core.policy import PermissionPolicy, PolicyError, Scope, compile_policy, preset
from a3s_code.core.policy.verdict import explain, judge

LISTS: list[Decision] = ["deny", "ask", "allow"]


@pytest.mark.parametrize("present", [list(c) for n in range(4) for c in itertools.combinations(LISTS, n)])
@pytest.mark.parametrize("default", LISTS)
def test_deny_beats_ask_beats_allow_beats_the_default(present: list[str], default: Decision) -> None:
    """The strictest list that names a tool decides, whatever the order (case E12)."""
    policy = PermissionPolicy(**{name: ["bash"] for name in present}, default_decision=default)  # type: ignore[arg-type]  # the names are the lists'
    assert decision(policy, "x") == (present[0] if present else default)


@pytest.mark.parametrize("rule", ["bash", " bash ", "BASH", "bash(*)", "bash(**)", "ba*", "*", "b*h", "*(*)"])
def test_forms_of_a_rule_on_a_whole_tool(rule: str) -> None:
    """Bare names, universal patterns, wildcards and any case match the tool."""
    assert decision(PermissionPolicy(deny=[rule], default_decision="allow"), "x") == "deny"


@pytest.mark.parametrize("rule", ["bas", "bash2", "ash", "b.sh", "mcp__*", "bash_*"])
def test_a_rule_matches_whole_names_only(rule: str) -> None:
    """A part of a name, or a character that means something elsewhere, is no match."""
    assert decision(PermissionPolicy(deny=[rule], default_decision="allow"), "x") == "allow"


@pytest.mark.parametrize(
    ("rule", "text", "matches"),
    [
        ("bash(ls *)", "ls a/b", True),
        ("bash(ls *)", "ls", False),
        ("bash(*)", "ls", True),
        ("bash(*.sh)", "a/b.sh", True),
        ("bash(ls:*)", "ls", True),
        ("bash(ls:*)", "ls -l /", True),
        ("bash(ls:*)", "lsof", False),
        ("bash(git push:*)", "git push origin", True),
        ("bash(git push:*)", "git pushes", False),
        (r"bash(ls \*)", "ls '*'", True),
        (r"bash(ls \*)", "ls a", False),
        (r"bash(echo \\)", r"echo '\'", True),
        ("bash(ls [ab])", "ls a", False),
        ("bash(ls [ab])", "ls '[ab]'", True),
        ("bash(ls ?)", "ls a", False),
        ("bash(ls {a,b})", "ls a", False),
        ("bash(a(b))", "'a(b)'", True),
        ("bash( ls)", "ls", False),
        ("BASH(ls)", "ls", True),
        ("bash(LS)", "ls", False),
        ("ba*(ls)", "ls", True),
        ("  bash(ls)\n", "ls", True),
    ],
)
def test_patterns_of_shell_lines(rule: str, text: str, matches: bool) -> None:
    """A pattern matches the whole text, `*` runs over everything, `:*` is a prefix of words, the rest is literal."""
    found = decision(PermissionPolicy(deny=[rule], default_decision="allow"), text)
    assert found == ("deny" if matches else "allow")


@pytest.mark.parametrize(
    ("rule", "path", "matches"),
    [
        ("src/*", "src/a.py", True),
        ("src/*", "src/a/b.py", False),
        ("src/**", "src/a/b.py", True),
        ("src/**", "src", False),
        ("**/.env*", ".env", True),
        ("**/.env*", "a/b/.env.local", True),
        ("**/.env*", "a/b/x.env", False),
        ("src/**/t.py", "src/t.py", True),
        ("src/**/t.py", "src/a/b/t.py", True),
        ("src/**/t.py", "src/xt.py", False),
        ("/w/src/*", "src/a", True),
        ("/w/src/*", "/w/src/a", True),
        ("/other/*", "/other/a", True),
        ("./src/*", "src/a", True),
        ("src/*", "./src/a", True),
        ("src/*", "src//a", True),
        ("src/*", "src/../lib/a", False),
        ("lib/*", "src/../lib/a", True),
        ("a:*", "a", True),
        ("caf\u00e9", "cafe\u0301", True),
        ("*", "a/b", True),
    ],
)
def test_patterns_of_paths(rule: str, path: str, matches: bool) -> None:
    """`*` stops at `/`; `**/` may be nothing; both sides are made relative and normal first."""
    found = decision(PermissionPolicy(deny=[f"read({rule})"], default_decision="allow"), path, "read")
    assert found == ("deny" if matches else "allow")


def test_case_counts_where_the_file_system_says_so() -> None:
    """Deny and ask compare without case on systems that don't tell it apart; allow never does."""
    policy = PermissionPolicy(deny=["write(**/.env)", "bash(rm *)"], allow=["write(src/*)"], default_decision="ask")
    for fold, expected in ((True, ["deny", "deny", "ask"]), (False, ["ask", "ask", "ask"])):
        compiled = compile_policy(policy, Scope("/w", fold))
        calls: list[tuple[str, dict[str, object]]] = [
            ("write", {"file_path": "A/.ENV"}),
            ("bash", {"command": "RM x"}),
            ("write", {"file_path": "SRC/a"}),
        ]
        assert [explain(compiled, tool, args, SHELL).decision for tool, args in calls] == expected


@pytest.mark.parametrize("rule", ["", " ", "bash(", "bash()", "(x)", "bash)", "ba sh", "bash(x)y"])
def test_malformed_rules_are_refused(rule: str) -> None:
    """A rule that says nothing clear is an error that shows it."""
    with pytest.raises(PolicyError, match="malformed"):
        compile_policy(PermissionPolicy(allow=[rule]))


@given(st.text(max_size=20))
def test_any_text_is_a_rule_or_an_error(text: str) -> None:
    """No text makes the parser fail in another way, and a rule on a whole tool decides about it."""
    try:
        policy = compile_policy(PermissionPolicy(deny=[text], default_decision="allow"))
    except PolicyError:
        return
    if "(" not in text and text.strip().lower() not in ("grep", "glob", "bm25"):
        assert judge(policy, text.strip(), {}, SHELL).decision == "deny"


@pytest.mark.parametrize("tool", ["batch", "update_plan", "ask_user", "search_skills"])
def test_harmless_tools_are_allowed_unless_a_rule_names_them(tool: str) -> None:
    """They pass under any default, and a rule still decides about them."""
    assert decision(PermissionPolicy(default_decision="deny"), "x", tool) == "allow"
    assert decision(PermissionPolicy(deny=[tool]), "x", tool) == "deny"


def test_disabled_policy_allows_everything() -> None:
    """``enabled=False`` switches the rules off."""
    policy = PermissionPolicy(deny=["*"], enabled=False)
    assert decision(policy, "rm -rf x") == "allow"
    assert explain(compile_policy(policy), "bash", {"command": "x"}, SHELL).list == "disabled"


def test_verdicts_say_why() -> None:
    """A refusal carries the text for the model, its error kind and the rule; an allowed call shares one verdict."""
    policy = compile_policy(PermissionPolicy(deny=["bash(rm:*)"], ask=["git"], default_decision="deny"))
    denied = judge(policy, "bash", {"command": "cd x; rm y"}, SHELL)
    assert denied.reason == "Permission denied: bash(rm y) matches deny rule 'bash(rm:*)'"
    assert denied.kind == "permission_denied"
    assert denied.permission() == {
        "permission": {"decision": "deny", "list": "deny", "rule": "bash(rm:*)", "subject": "rm y"}
    }
    assert judge(policy, "write", {"file_path": "a"}, SHELL).reason == "Permission denied: write(a): no rule allows it"
    assert "ask rule 'git'" in judge(policy, "git", {"command": "status"}, SHELL).reason
    assert judge(policy, "batch", {}, SHELL) is ALLOW
    assert ALLOW.permission() == {}


def test_presets() -> None:
    """``full`` allows all, ``read_only`` nothing that changes anything, ``workspace`` asks before it is left."""
    assert decision(preset("full"), "rm -rf /") == "allow"
    looking: list[tuple[str, dict[str, object]]] = [
        ("read", {"file_path": "a/b"}),
        ("search", {"mode": "grep", "query": "a/b"}),
        ("git", {"command": "log"}),
    ]
    changing: list[tuple[str, dict[str, object]]] = [
        ("git", {"command": "checkout", "ref": "a/b"}),
        ("git", {"command": "stash", "include_untracked": True}),
        ("git", {"command": "branch", "name": "x"}),
        ("download", {"url": "http://h/x"}),
    ]
    inside: list[tuple[str, dict[str, object]]] = [
        ("write", {"file_path": "a/b"}),
        ("bash", {"command": "make"}),
        ("mcp__x__y", {}),
    ]
    expected = {"read_only": ("allow", "deny", "deny"), "workspace": ("allow", "ask", "allow")}
    for name, decisions in expected.items():
        policy = compile_policy(preset(name))
        groups: list[list[tuple[str, dict[str, object]]]] = [looking, changing, inside]
        for calls, wanted in zip(groups, decisions, strict=True):
            assert {explain(policy, tool, args, SHELL).decision for tool, args in calls} == {wanted}
    with pytest.raises(PolicyError, match="'workspace'"):
        preset("some")
