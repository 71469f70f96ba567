"""Policies in force: what a session refuses and asks, and what it says about it (tools.md §5.1, §5.3)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from a3s_code import Agent, PermissionPolicy, SessionConfigurationError
from a3s_code.api.judge import explain_call
from a3s_code.core.content import ToolMessage
from a3s_code.core.policy import preset
from a3s_code.testing import ScriptedModel, calls


@pytest.fixture
def agent() -> Iterator[Agent]:
    made = Agent.create('default_model = "offline/scout"')
    yield made
    made.close()


def told(agent: Agent, workspace: Path, tool: str, args: dict[str, Any], policy: PermissionPolicy) -> str:
    """What the model is told about its one call."""
    model = ScriptedModel([calls((tool, args)), "done"])
    with agent.session(workspace, permission_policy=policy, llm_client=model) as session:
        session.send("go")
    answer = model.requests[1].messages[-1]
    assert isinstance(answer, ToolMessage)
    return answer.output


def test_a_denied_line_has_no_effect(agent: Agent, tmp_path: Path) -> None:
    """A line with one denied command doesn't run at all, and the model is told which rule it met."""
    policy = PermissionPolicy(deny=["bash(touch:*)"], default_decision="allow")
    output = told(agent, tmp_path, "bash", {"command": "mkdir a && touch b"}, policy)
    assert output == "Permission denied: bash(touch b) matches deny rule 'bash(touch:*)'"
    assert not (tmp_path / "a").exists()


def test_a_write_through_a_link_is_judged_by_where_it_leads(agent: Agent, tmp_path: Path) -> None:
    """A link gives a denied file no other name (case E08)."""
    (tmp_path / "secret.txt").write_text("old")
    (tmp_path / "link").symlink_to("secret.txt")
    policy = PermissionPolicy(deny=["write(secret.txt)"], default_decision="allow")
    for tool, args in (
        ("write", {"file_path": "link", "content": "new"}),
        ("edit", {"file_path": "./link", "old_string": "old", "new_string": "new"}),
        ("bash", {"command": "echo new > link"}),
    ):
        assert "deny rule 'write(secret.txt)'" in told(agent, tmp_path, tool, args, policy)
    assert (tmp_path / "secret.txt").read_text() == "old"


def test_absolute_rules_and_paths_inside_the_workspace(agent: Agent, tmp_path: Path) -> None:
    """A rule and a call may name a file from the root; both mean the same file."""
    (tmp_path / "a").write_text("x")
    policy = PermissionPolicy(allow=[f"read({tmp_path}/a)"], default_decision="deny")
    assert "x" in told(agent, tmp_path, "read", {"file_path": "a"}, policy)
    assert "x" in told(agent, tmp_path, "read", {"file_path": f"{tmp_path}/a"}, policy)
    assert "no rule allows it" in told(agent, tmp_path, "read", {"file_path": "b"}, policy)


def test_a_call_that_asks_says_why(agent: Agent, tmp_path: Path) -> None:
    """The event and the refused result carry the decision, the list, the rule and what it was matched with."""
    model = ScriptedModel([calls(("write", {"file_path": "src/a", "content": "x"})), "done"])
    options = {"permission_policy": {"ask": ["write(src/**)"]}, "confirmation_policy": {"enabled": True}}
    expected = {"decision": "ask", "list": "ask", "rule": "write(src/**)", "subject": "src/a"}
    with agent.session(tmp_path, options, llm_client=model) as session:
        events = []
        for event in session.stream("go"):
            events.append(event)
            if event.type == "confirmation_required":
                session.confirm_tool_use(str(event.tool_id), False, "no")
    asked = next(event for event in events if event.type == "confirmation_required")
    ended = next(event for event in events if event.type == "tool_end")
    assert asked.payload["permission"] == expected
    metadata = ended.payload["metadata"]
    assert isinstance(metadata, dict)
    assert metadata["permission"] == expected
    assert not (tmp_path / "src").exists()


def test_explain_follows_links_when_it_knows_the_workspace(tmp_path: Path) -> None:
    """Without a workspace only the name is known."""
    (tmp_path / "link").symlink_to(".env")
    policy = PermissionPolicy(deny=["write(**/.env*)"], default_decision="allow")
    args = {"file_path": "link", "content": ""}
    assert policy.explain("write", args)["decision"] == "allow"
    found = policy.explain("write", args, tmp_path)
    assert found == {"decision": "deny", "list": "deny", "rule": "write(**/.env*)", "subject": ".env"}


def test_explain_refuses_a_malformed_rule() -> None:
    """A rule that can't be used is shown, not ignored (case E15)."""
    with pytest.raises(SessionConfigurationError, match=r"malformed deny rule 'bash\('"):
        PermissionPolicy(deny=["bash("]).explain("bash", {"command": "x"})


def test_the_preset_workspace_wants_commands_in_a_sandbox() -> None:
    """Outside of one every command asks; the rest of the preset stays."""
    policy, args = preset("workspace"), {"command": "make"}
    assert explain_call(policy, "bash", args, sandboxed=True)["decision"] == "allow"
    assert explain_call(policy, "bash", args, sandboxed=False)["decision"] == "ask"
    assert explain_call(policy, "write", {"file_path": "a"}, sandboxed=False)["decision"] == "allow"
    assert explain_call(preset("full"), "bash", args, sandboxed=False)["decision"] == "allow"
