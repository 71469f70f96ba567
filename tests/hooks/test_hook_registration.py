"""Registering hooks (extensions.md §1.1): what is accepted, counted, listed and replaced."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
from hookhelp import Heard, open_session

from a3s_code import HOOK_EVENT_TYPES, HOOK_EVENT_TYPES_EXTENDED, Agent, CodeError, SessionConfigurationError
from a3s_code.testing import call


def handler(event: Any) -> None:
    """Hears and says nothing."""


async def test_all_28_events_are_accepted(agent: Agent, workspace: Path) -> None:
    """25 portable names and three more can be registered for, those of later features too."""
    assert len(HOOK_EVENT_TYPES) == 25
    assert len(set(HOOK_EVENT_TYPES_EXTENDED)) == 28
    session = await open_session(agent, workspace)
    for name in HOOK_EVENT_TYPES_EXTENDED:
        session.register_hook(f"on {name}", name, handler=handler)
    assert session.hook_count() == 28 == await session.hook_count_async()


async def test_hooks_are_listed_in_the_order_of_registration(agent: Agent, workspace: Path) -> None:
    """A listed hook says everything about itself, and an unregistered one is gone."""
    session = await open_session(agent, workspace)
    await session.register_hook_async("b", "pre_tool_use", {"tool": "bash"}, {"priority": 5, "timeoutMs": 70}, handler)
    session.register_hook("a", "on_error", handler)
    session.register_hook("silent", "on_success")
    assert session.list_hooks() == await session.list_hooks_async()
    assert session.list_hooks()[0] == {
        "name": "b",
        "event_type": "pre_tool_use",
        "priority": 5,
        "timeout_ms": 70,
        "matcher": {"tool": "bash"},
        "has_handler": True,
        "abandoned_calls": 0,
    }
    assert [(h["name"], h["has_handler"], h["priority"]) for h in session.list_hooks()[1:]] == [
        ("a", True, 100),
        ("silent", False, 100),
    ]
    assert session.unregister_hook("b") is True
    assert await session.unregister_hook_async("b") is False
    assert [hook["name"] for hook in session.list_hooks()] == ["a", "silent"]


BAD: list[tuple[tuple[Any, ...], str]] = [
    ((" ", "on_error", None, None, handler), "name"),
    ((None, "on_error", None, None, handler), "name"),
    (("x", "on_eror", None, None, handler), "pre_tool_use, post_tool_use"),
    (("x", None, None, None, handler), "unknown event"),
    (("x", "on_error", {"tol": "a"}, None, handler), "did you mean 'tool'"),
    (("x", "on_error", {"tool": 3}, None, handler), "'tool'"),
    (("x", "on_error", {"command_pattern": "("}, None, handler), "not a regular expression"),
    (("x", "on_error", {"path_pattern": "[z-a]"}, None, handler), "'path_pattern'"),
    (("x", "on_error", {"path_pattern": "a" * 4097}, None, handler), "4096"),
    (("x", "on_error", ["tool"], None, handler), "expected a mapping"),
    (("x", "on_error", None, {"prio": 1}, handler), "did you mean 'priority'"),
    (("x", "on_error", None, {"priority": True}, handler), "priority"),
    (("x", "on_error", None, {"priority": "1"}, handler), "priority"),
    (("x", "on_error", None, {"timeout_ms": 0}, handler), "timeout_ms"),
    (("x", "on_error", None, {"timeout_ms": 2.5}, handler), "timeout_ms"),
    (("x", "pre_tool_use", None, {"background": True}, handler), "waits for its hooks"),
    (("x", "on_error", None, None, "handler"), "expected a function"),
]


@pytest.mark.parametrize(("given", "why"), BAD)
async def test_bad_registrations_change_nothing(
    agent: Agent, workspace: Path, given: tuple[Any, ...], why: str
) -> None:
    """What is wrong is INVALID_REQUEST naming it, in both faces and as an option, and no hook is registered."""
    session = await open_session(agent, workspace)
    with pytest.raises(CodeError, match=why) as caught:
        session.register_hook(*given)
    assert caught.value.code == "INVALID_REQUEST"
    with pytest.raises(CodeError, match=why):
        await session.register_hook_async(*given)
    assert session.hook_count() == 0
    members = dict(zip(("name", "event_type", "matcher", "config", "handler"), given, strict=True))
    with pytest.raises(SessionConfigurationError, match=r"session option 'hooks'.*"):
        await open_session(agent, workspace, hooks=[members])


async def test_option_hooks_is_registered_before_anything_fires(agent: Agent, workspace: Path) -> None:
    """The option takes the five arguments as mappings, camelCase too."""
    heard = Heard()
    session = await open_session(
        agent,
        workspace,
        "hi",
        hooks=[
            {"name": "first", "eventType": "session_start", "handler": heard},
            {"name": "second", "event_type": "pre_prompt", "matcher": {"session_id": "s"}, "handler": heard},
        ],
    )
    await session.send_async("go")
    assert heard.types == ["session_start", "pre_prompt"]
    with pytest.raises(SessionConfigurationError, match="unknown key 'evnt_type'"):
        await open_session(agent, workspace, hooks=[{"name": "x", "evnt_type": "on_error"}])
    with pytest.raises(SessionConfigurationError, match="list"):
        await open_session(agent, workspace, hooks={"name": "x"})


async def test_a_name_used_again_replaces_and_warns(
    agent: Agent, workspace: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The later hook takes the place of the earlier one, also when the event is another."""
    first, second = Heard(), Heard()
    session = await open_session(agent, workspace, "hi")
    session.register_hook("x", "pre_prompt", first)
    with caplog.at_level(logging.WARNING, "a3s_code"):
        session.register_hook("x", "on_success", second)
    await session.send_async("go")
    assert (first.types, second.types) == ([], ["on_success"])
    assert session.hook_count() == 1
    assert "hook 'x' was registered again" in caplog.text


async def test_a_hook_can_be_replaced_while_a_run_is_at_work(agent: Agent, workspace: Path) -> None:
    """A change counts from the next event on: here the first handler replaces itself."""
    later = Heard()
    session = await open_session(agent, workspace, [call("ls", {})], [call("ls", {})], "done")

    async def replace(event: dict[str, Any]) -> None:
        session.register_hook("x", "pre_tool_use", later)

    session.register_hook("x", "pre_tool_use", replace)
    await session.send_async("go")
    assert len(later.events) == 1


async def test_a_closed_session_takes_no_hooks(agent: Agent, workspace: Path) -> None:
    """After close() changes are SESSION_CLOSED, and what is there can still be looked at."""
    session = await open_session(agent, workspace)
    session.register_hook("x", "on_error", handler)
    await session.close_async()
    for change in (lambda: session.register_hook("y", "on_error", handler), lambda: session.unregister_hook("x")):
        with pytest.raises(CodeError) as caught:
            change()
        assert caught.value.code == "SESSION_CLOSED"
    assert session.hook_count() == 1
    assert len(session.list_hooks()) == 1
