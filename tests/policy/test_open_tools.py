"""The short way of a call that no rule concerns: it gives what the long way gives."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from a3s_code.api.judge import Judge
from a3s_code.api.policy import Judging, compiled_for
from a3s_code.core.content import JsonObject
from a3s_code.core.policy import PermissionPolicy, needs_sandbox, preset
from a3s_code.workspace.local import LocalWorkspace

RULES = st.lists(st.sampled_from(["read", "write(src/**)", "bash(git push*)", "search", "ed*", "mcp__*"]), max_size=2)
POLICIES = st.one_of(
    st.sampled_from([preset("workspace"), preset("full"), preset("read_only")]),
    st.builds(
        PermissionPolicy,
        deny=RULES,
        ask=RULES,
        allow=RULES,
        default_decision=st.sampled_from(["allow", "ask", "deny"]),
        enabled=st.booleans(),
    ),
)
CALLS: list[tuple[str, JsonObject]] = [
    ("read", {"file_path": "a"}),
    ("edit", {"file_path": "src/a"}),
    ("write", {"file_path": "b"}),
    ("bash", {"command": "git push > src/x"}),
    ("ask_user", {"question": "why?"}),
    ("mcp__x__y", {}),
]


@given(POLICIES, st.sampled_from(CALLS))
def test_both_ways_decide_the_same(policy: PermissionPolicy, call: tuple[str, JsonObject]) -> None:
    """Whatever the rules, skipping them is only done where they could not matter."""
    workspace = LocalWorkspace(str(Path.cwd()))
    judging = Judging(policy, workspace)
    tool, args = call
    expected = Judge(compiled_for(policy, workspace), needs_sandbox(policy), workspace).verdict(tool, args).decision
    assert [judging.verdict(tool, args).decision for _ in range(2)] == [expected, expected]
