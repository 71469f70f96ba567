"""Paths that are more than files: protected metadata, credentials, hard links (tools.md §4.2, §4.4, §4.5)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from governed import asking, data, one_call, opened, until

from a3s_code import Agent, PermissionPolicy
from a3s_code.core.protected import is_credential, is_protected
from a3s_code.testing import call, calls

PROTECTED = [
    ".git/config",
    ".GIT/config",
    "sub/.git/hooks/pre-commit",
    "sub/.git",
    ".a3s/settings.json",
    ".agents/a.md",
    ".codex/x",
    ".claude/settings.json",
    ".vscode/tasks.json",
    ".idea/x.xml",
    ".gitmodules",
    ".mcp.json",
    ".ripgreprc",
    ".bashrc",
    ".bash_profile",
    ".zshrc",
    ".zprofile",
    ".profile",
]
ORDINARY = [".github/workflows/ci.yml", ".gitignore", "sub/.vscode/tasks.json", "sub/.bashrc", "git/config", "x.git"]
CREDENTIALS = [
    ".env",
    "web/.env.local",
    ".ENV",
    ".netrc",
    ".npmrc",
    ".pypirc",
    ".pgpass",
    ".htpasswd",
    ".git-credentials",
    "id_rsa",
    "keys/id_dsa",
    "id_ecdsa",
    "id_ed25519",
    "tls/server.pem",
    "a.key",
    "a.p12",
    "a.pfx",
    "a.jks",
    "a.keystore",
    "a.kdbx",
    "credentials.json",
    "service-account-prod.json",
    ".ssh/config",
    "home/.aws/config",
    ".kube/config",
    ".docker/config.json",
    ".gnupg/ring",
    "x/.config/gcloud/a/b",
    ".config/gh/hosts.yml",
]
NO_CREDENTIALS = [".env.example", ".env.sample", "web/.env.template", "env", "id_rsa.pub", ".config/x", "key.py"]


def test_names_that_are_protected() -> None:
    """Every name of §4.4 is protected, without regard to case, and nothing beside them."""
    assert [path for path in PROTECTED if not is_protected(path)] == []
    assert [path for path in ORDINARY if is_protected(path)] == []


def test_names_that_hold_credentials() -> None:
    """Every name of §4.5 counts as a credential file, and nothing beside them."""
    assert [path for path in CREDENTIALS if not is_credential(path)] == []
    assert [path for path in NO_CREDENTIALS if is_credential(path)] == []


async def test_metadata_is_refused_when_nobody_can_answer(agent: Agent, workspace: Path) -> None:
    """A model's write to protected metadata fails closed without a confirmation channel, whatever the policy allows."""
    result = await one_call(agent, workspace, "write", {"file_path": ".git/config", "content": "x"})
    assert (result.outcome, result.metadata["error"]["type"]) == ("denied", "confirmation_unavailable")
    assert ".git/config is metadata that other programs act on" in result.output
    assert not (workspace / ".git").exists()


async def test_metadata_is_asked_once_and_says_what_for(agent: Agent, workspace: Path) -> None:
    """The verdict on record, the event and the pending list say reason, scope and risk; an approval runs it once."""
    session = await opened(
        agent,
        workspace,
        calls(("write", {"file_path": ".vscode/tasks.json", "content": "{}"})),
        "done",
        permission_policy=PermissionPolicy(allow=["write(.vscode/tasks.json)"]),
        **asking(),
    )
    events = []
    async for event in session.stream("go"):
        events.append(event)
        if event.type == "confirmation_required":
            (waiting,) = session.pending_confirmations()
            told = {name: event.payload[name] for name in ("tool_name", "reason", "scope", "risk")}
            assert told == {name: waiting[name] for name in told}
            assert told["scope"] == ".vscode/tasks.json"
            assert await session.confirm_tool_use_async(str(waiting["tool_id"]), True)
    assert [event.type for event in events].count("confirmation_required") == 1
    (call,) = data(workspace, "model.turn")[0].calls
    assert (call.verdict.decision, call.verdict.scope) == ("ask", ".vscode/tasks.json")
    assert (workspace / ".vscode/tasks.json").read_text() == "{}"


async def test_what_changes_no_metadata_is_not_asked(agent: Agent, workspace: Path) -> None:
    """Reading and dry runs of protected files are ordinary; a host's own write is its own affair."""
    (workspace / ".git").mkdir()
    (workspace / ".git/config").write_text("[core]\n")
    edit: dict[str, Any] = {"file_path": ".git/config", "old_string": "core", "new_string": "user", "dry_run": True}
    session = await opened(agent, workspace, calls(("read", {"file_path": ".git/config"}), ("edit", edit)), "done")
    await session.send_async("go")
    assert [result.outcome for result in data(workspace, "tool.result")] == ["ok", "ok"]
    assert not (await session.write_file_async(".git/config", "mine\n")).is_error


async def test_a_link_to_metadata_is_metadata(agent: Agent, workspace: Path) -> None:
    """The name that a link leads to counts as much as the one that was given."""
    (workspace / ".git").mkdir()
    (workspace / "harmless").symlink_to(".git")
    result = await one_call(agent, workspace, "write", {"file_path": "harmless/config", "content": "x"})
    assert result.metadata["error"]["type"] == "confirmation_unavailable"


async def test_the_log_is_written_by_nobody_else(agent: Agent, workspace: Path) -> None:
    """No approval lets a model write the session's log: ``protected_path``."""
    session = await opened(
        agent, workspace, calls(("write", {"file_path": ".a3s/effect-log/s.jsonl", "content": ""})), "done", **asking()
    )
    async for event in session.stream("go"):
        if event.type == "confirmation_required":
            await session.confirm_tool_use_async(str(event.tool_id), True)
    (result,) = data(workspace, "tool.result")
    assert (result.outcome, result.metadata["error"]["type"]) == ("denied", "protected_path")


@pytest.mark.parametrize(
    ("policy", "rules", "kind"),
    [
        ("ask", {}, "confirmation_unavailable"),
        ("deny", {}, "credential_path"),
        ("off", {}, None),
        ("ask", {"allow": ["read(*)"]}, "confirmation_unavailable"),
        ("ask", {"allow": ["read(.env)"]}, None),
        ("ask", {"allow": ["read(.en*)"]}, None),
        ("ask", {"allow": ["write(.env)", "read"]}, "confirmation_unavailable"),
        ("deny", {"allow": ["read(.env)"]}, "credential_path"),
    ],
)
async def test_reading_credentials(
    agent: Agent, workspace: Path, policy: str, rules: dict[str, Any], kind: str | None
) -> None:
    """``credential_policy`` decides; only an allow rule that names the path stands for the answer to an ask."""
    (workspace / ".env").write_text("KEY=1\n")
    permission = PermissionPolicy(default_decision="allow", **rules)
    result = await one_call(
        agent, workspace, "read", {"file_path": ".env"}, credential_policy=policy, permission_policy=permission
    )
    assert result.metadata.get("error", {}).get("type") == kind
    assert ("KEY" in result.output) == (kind is None)


async def test_every_way_to_a_credential_file(agent: Agent, workspace: Path) -> None:
    """A member of ``files``, a link, another hard link and an absolute path are the file; each is refused."""
    (workspace / ".env").write_text("KEY=1\n")
    (workspace / "plain").symlink_to(".env")
    os.link(workspace / ".env", workspace / "alias.txt")
    (workspace / "other.txt").write_text("fine\n")
    os.link(workspace / "other.txt", workspace / "second.txt")
    wanted = calls(
        ("read", {"files": [{"path": "other.txt"}, {"path": ".env"}]}),
        ("read", {"file_path": "plain"}),
        ("read", {"path": "alias.txt"}),
        ("read", {"file_path": str(workspace / ".env")}),
        ("read", {"file_path": "second.txt"}),
        ("write", {"file_path": ".env", "content": ""}),
        ("edit", {"file_path": "plain", "old_string": "KEY", "new_string": "K", "dry_run": True}),
    )
    session = await opened(agent, workspace, wanted, "done", credential_policy="deny")
    await session.send_async("go")
    by_call = {result.call: result for result in data(workspace, "tool.result")}
    (turn, *_) = data(workspace, "model.turn")
    kinds = [by_call[call.id].metadata.get("error", {}).get("type") for call in turn.calls]
    assert kinds == [*["credential_path"] * 4, None, "hard_link", "credential_path"]
    assert await session.read_file_async(".env") == "KEY=1\n"


async def test_searches_leave_credentials_out_and_count_them(agent: Agent, workspace: Path) -> None:
    """Grep, glob and bm25 of a model show nothing of credential files, their aliases and files that rules on ``read``
    name; the host sees all but what is ignored."""
    for name in ("a.txt", ".env", "private.md"):
        (workspace / name).write_text("needle\n")
    (workspace / "sub").mkdir()
    os.link(workspace / ".env", workspace / "sub/alias")
    rules = PermissionPolicy(default_decision="allow", deny=["read(private.md)"])
    wanted = [("grep", "needle"), ("glob", "**/*"), ("bm25", "needle")]
    script = calls(*[call("search", {"mode": mode, "query": query}) for mode, query in wanted])
    session = await opened(agent, workspace, script, "done", permission_policy=rules)
    await session.send_async("go")
    for result in data(workspace, "tool.result"):
        assert result.outcome == "ok"
        assert "a.txt" in result.output
        assert not any(name in result.output for name in (".env", "alias", "private"))
        assert result.metadata["search"]["skipped"]["protected"] == 3
    assert sorted(await session.glob_async("**/*")) == [".env", "a.txt", "private.md", "sub/alias"]


async def test_a_search_of_a_credential_file_finds_nothing(agent: Agent, workspace: Path) -> None:
    """Naming the file as ``path`` is no way around; ``credential_policy="off"`` is."""
    (workspace / ".env").write_text("needle\n")
    search: dict[str, Any] = {"mode": "grep", "query": "needle", "path": ".env"}
    result = await one_call(agent, workspace, "search", search)
    assert result.output == "No matches found for pattern: needle"
    again = await opened(agent, workspace, calls(("search", search)), "x", session_id="t", credential_policy="off")
    await again.send_async("go")
    assert ".env:1:needle" in str(again.history()[-2]["content"])


async def test_a_file_with_several_names_is_not_written(agent: Agent, workspace: Path) -> None:
    """A hard link is refused for models, package stores apart; the host may write it."""
    (workspace / "a").write_text("old\n")
    os.link(workspace / "a", workspace / "b")
    store = workspace / "node_modules/x"
    store.mkdir(parents=True)
    (store / "i.js").write_text("old\n")
    os.link(store / "i.js", store / "j.js")
    os.link(workspace / "a", store / "k.js")
    (workspace / ".env").write_text("KEY=1\n")
    os.link(workspace / ".env", store / "env.js")
    edit = {"old_string": "old", "new_string": "new"}
    wanted = calls(
        ("write", {"file_path": "a", "content": "new\n"}),
        ("edit", {"file_path": "b", **edit}),
        ("write", {"file_path": "node_modules/x/i.js", "content": "new\n"}),
        ("write", {"file_path": "node_modules/x/env.js", "content": "new\n"}),
    )
    session = await opened(agent, workspace, wanted, "done")
    await session.send_async("go")
    by_call = {result.call: result for result in data(workspace, "tool.result")}
    (turn, *_) = data(workspace, "model.turn")
    kinds = [by_call[call.id].metadata.get("error", {}).get("type") for call in turn.calls]
    assert kinds == ["hard_link", "hard_link", None, "hard_link"]
    assert (workspace / "b").read_text() == "old\n"
    assert (store / "j.js").read_text() == "old\n"
    assert not (await session.write_file_async("a", "mine\n")).is_error


async def test_a_link_that_appears_while_a_call_waits(agent: Agent, workspace: Path) -> None:
    """What no approval lifts is looked at again when an approved call is about to run."""
    (workspace / "a").write_text("old\n")
    session = await opened(
        agent,
        workspace,
        calls(("write", {"file_path": "a", "content": "new\n"})),
        "done",
        permission_policy=PermissionPolicy(ask=["write"]),
        **asking(),
    )
    stream = session.stream("go")
    await until(session.pending_confirmations)
    os.link(workspace / "a", workspace / "b")
    await session.confirm_tool_use_async(str(session.pending_confirmations()[0]["tool_id"]), True)
    assert [event.type async for event in stream][-1] == "agent_end"
    (result,) = data(workspace, "tool.result")
    assert (result.metadata["error"]["type"], (workspace / "b").read_text()) == ("hard_link", "old\n")
