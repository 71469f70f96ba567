"""What gating hooks decide: denials, rewrites, order (extensions.md §1.2, §1.3; cases E14)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from hookhelp import ANSWERED, ASKING, Heard, Note, WithArgs, data, open_session, until

from a3s_code import Agent, CodeError, HookDenied
from a3s_code.testing import call

BLOCK = {"action": "block", "reason": "no"}


async def test_hooks_run_by_priority_then_registration_and_see_each_others_rewrite(
    agent: Agent, workspace: Path
) -> None:
    """Lower priorities first, ties as registered; the tool gets what the last one made."""
    note, order = Note(), list[tuple[str, str]]()

    def adding(name: str) -> Any:
        async def handler(event: dict[str, Any]) -> Any:
            text = event["payload"]["args"]["text"]
            order.append((name, text))
            return {"action": "continue", "modified": {"updatedInput": {"text": text + name}}}

        return handler

    session = await open_session(agent, workspace, tools=[note])
    for name, priority in (("c", 100), ("d", 100), ("a", -1), ("b", 7)):
        session.register_hook(name, "pre_tool_use", None, {"priority": priority}, adding(name))
    await session.tool_async("note", {"text": ""})
    assert order == [("a", ""), ("b", "a"), ("c", "ab"), ("d", "abc")]
    assert note.calls == [{"text": "abcd"}]


async def test_the_first_denial_ends_the_chain_and_skip_consults_no_further_hook(agent: Agent, workspace: Path) -> None:
    """Block and skip both end it; after skip the call runs."""
    note, later = Note(), Heard()
    session = await open_session(agent, workspace, tools=[note])
    session.register_hook("first", "pre_tool_use", Heard({"action": "skip"}))
    session.register_hook("second", "pre_tool_use", later)
    assert (await session.tool_async("note", {"text": "x"})).exit_code == 0
    session.register_hook("first", "pre_tool_use", Heard(BLOCK))
    assert (await session.tool_async("note", {"text": "y"})).error_kind == "hook_denied"
    assert later.events == []
    assert note.calls == [{"text": "x"}]


@pytest.mark.parametrize(
    ("answer", "reason", "retry", "after", "text"),
    [
        (BLOCK, "no", False, None, "Denied by hook: no (retryable=false)"),
        (
            {"action": "block"},
            "blocked by hook 'x'",
            False,
            None,
            "Denied by hook: blocked by hook 'x' (retryable=false)",
        ),
        (
            {"action": "retry", "reason": "busy"},
            "busy",
            True,
            1000,
            "Denied by hook: busy (retryable=true); retry after 1000 ms",
        ),
        (
            {"action": "retry", "reason": "busy", "delayMs": 5},
            "busy",
            True,
            5,
            "Denied by hook: busy (retryable=true); retry after 5 ms",
        ),
    ],
)
async def test_a_denied_call_says_why_to_hosts_and_models(
    agent: Agent, workspace: Path, answer: Any, reason: str, retry: bool, after: int | None, text: str
) -> None:
    """Kind, text and exactly four keys, in the host's result and in the model's fact; one event says so."""
    note = Note()
    session = await open_session(agent, workspace, [call("note", {"text": "x"})], "done", tools=[note])
    session.register_hook("x", "pre_tool_use", Heard(answer))
    expected = {"type": "hook_denied", "reason": reason, "retryable": retry, "retry_after_ms": after}
    result = await session.tool_async("note", {"text": "x"})
    assert (result.error_kind, result.exit_code, result.output) == ("hook_denied", 1, text)
    assert result.metadata["error"] == expected
    run = await session.send_async("go")
    (fact,) = data(workspace, "tool.result")
    assert (fact.outcome, fact.exit_code, fact.output, fact.metadata["error"]) == ("denied", 1, text, expected)
    assert data(workspace, "tool.started") == []
    types = [event["type"] for event in session.run_events(run.run_id)]
    assert types.count("permission_denied") == 1 == types.count("tool_end")
    assert note.calls == []


REWRITES: list[Any] = [
    {"hookSpecificOutput": {"updatedInput": {"text": "new"}}, "updatedInput": {"text": "wrong"}},
    {"hookSpecificOutput": {"text": "new"}},
    {"updatedInput": {"text": "new"}, "updated_input": {"text": "wrong"}},
    {"updated_input": {"text": "new"}, "args": {"text": "wrong"}},
    {"args": {"text": "new"}},
    {"text": "new"},
]


@pytest.mark.parametrize("modified", REWRITES)
async def test_every_spelling_of_a_rewrite(agent: Agent, workspace: Path, modified: Any) -> None:
    """The first present of the documented spellings replaces the whole argument object."""
    note = Note()
    session = await open_session(agent, workspace, [call("note", {"text": "x"})], "done", tools=[note])
    session.register_hook("x", "pre_tool_use", Heard({"action": "continue", "modified": modified}))
    await session.tool_async("note", {"text": "old", "command": "old"})
    await session.send_async("go")
    assert note.calls == [{"text": "new"}, {"text": "new"}]


async def test_args_is_no_spelling_for_a_tool_that_has_args(agent: Agent, workspace: Path) -> None:
    """A tool with a parameter ``args`` gets ``modified`` itself."""
    spread = WithArgs()
    session = await open_session(agent, workspace, tools=[spread])
    session.register_hook("x", "pre_tool_use", Heard({"action": "continue", "modified": {"args": ["a"]}}))
    await session.tool_async("spread", {"args": []})
    assert spread.calls == [{"args": ["a"]}]


@pytest.mark.parametrize("origin", ["model", "host"])
async def test_an_invalid_rewrite_is_an_invalid_argument(agent: Agent, workspace: Path, origin: str) -> None:
    """What a hook made is validated again, before any side effect."""
    note, after = Note(), Heard()
    session = await open_session(agent, workspace, [call("note", {"text": "x"})], "done", tools=[note])
    session.register_hook("x", "pre_tool_use", Heard({"action": "continue", "modified": {"text": 3}}))
    session.register_hook("y", "post_tool_use", after)
    if origin == "host":
        kind = (await session.tool_async("note", {"text": "x"})).error_kind
    else:
        await session.send_async("go")
        kind = data(workspace, "tool.result")[0].metadata["error"]["type"]
    assert kind == "invalid_argument"
    assert note.calls == []
    assert after.events == []


async def test_a_rewrite_is_judged_as_what_it_is(agent: Agent, workspace: Path) -> None:
    """Policy, guardrails and the log see the rewritten arguments, never those of the model."""
    script = [call("write", {"file_path": "a.txt", "content": "x"})], "done"
    policy = {"deny": ["write(secret/**)"], "default_decision": "allow"}
    session = await open_session(agent, workspace, *script, permission_policy=policy)
    target = "secret/a.txt"

    def elsewhere(event: Any) -> Any:
        return {"action": "continue", "modified": {**event["payload"]["args"], "file_path": target}}

    session.register_hook("x", "pre_tool_use", Heard(elsewhere))
    await session.send_async("go")
    assert data(workspace, "tool.result")[0].metadata["error"]["type"] == "permission_denied"
    (judged,) = data(workspace, "call.judged")
    assert judged.args["file_path"] == target
    assert judged.verdict.decision == "deny"
    assert (await session.governed_tool_async("write", {"file_path": "a", "content": "x"})).exit_code == 1
    target = ".a3s/effect-log/s.jsonl"
    result = await session.governed_tool_async("write", {"file_path": "a", "content": "x"})
    assert result.error_kind == "protected_path"
    assert not (workspace / "secret").exists()
    assert not (workspace / "a.txt").exists()


async def test_what_a_person_approves_is_what_runs(agent: Agent, workspace: Path) -> None:
    """A call that parks shows the rewritten arguments; the hook isn't asked again when it goes on (E14)."""
    note = Note()
    session = await open_session(
        agent, workspace, [call("note", {"text": "model"}, id="c")], "done", tools=[note], **ANSWERED
    )
    heard = Heard({"action": "continue", "modified": {"text": "hook"}})
    session.register_hook("x", "pre_tool_use", heard)
    running = asyncio.ensure_future(session.send_async("go"))
    await until(session.pending_confirmations)
    assert session.pending_confirmations()[0]["args"] == {"text": "hook"}
    assert await session.confirm_tool_use_async("c", True)
    await running
    assert note.calls == [{"text": "hook"}]
    assert len(heard.events) == 1


async def test_a_call_denied_as_sent_is_not_shown_to_hooks(agent: Agent, workspace: Path) -> None:
    """What the policy denies as the model sent it goes straight to its refusal."""
    heard = Heard({"action": "continue", "modified": {"text": "fine"}})
    policy = {"deny": ["note"], "default_decision": "allow"}
    script = [call("note", {"text": "x"})], "done"
    session = await open_session(agent, workspace, *script, tools=[Note()], permission_policy=policy)
    session.register_hook("x", "pre_tool_use", heard)
    await session.send_async("go")
    assert heard.events == []
    assert data(workspace, "tool.result")[0].outcome == "denied"


async def test_a_prompt_is_rewritten_before_it_is_a_fact(agent: Agent, workspace: Path) -> None:
    """Prompt and context of all hooks; the context comes in one labelled block, cut at 16 KiB."""
    session = await open_session(agent, workspace, "hi", "hi")
    session.register_hook("a", "pre_prompt", Heard({"action": "continue", "modified": {"prompt": "new"}}))
    second = Heard({"action": "continue", "modified": {"additional_context": "branch main"}})
    session.register_hook("b", "pre_prompt", second)
    session.register_hook(
        "c", "pre_prompt", Heard({"action": "continue", "modified": {"additionalContext": "é" * 9999}})
    )
    await session.send_async("old")
    (said,) = data(workspace, "user.message")
    prompt, block = said.text.split("\n\n", 1)
    assert prompt == "new" == second.payloads[0]["prompt"]
    assert block.startswith("<additional_context>\nbranch main\n\néé")
    assert block.endswith("é\n</additional_context>")
    assert 16 * 1024 - 1 <= len(block.encode()) <= 16 * 1024
    assert session.runs()[0]["prompt"] == said.text


@pytest.mark.parametrize(
    ("answer", "code", "after"),
    [(BLOCK, "HOOK_DENIED", None), ({"action": "retry", "reason": "no", "delay_ms": 7}, "HOOK_RETRY", 7)],
)
async def test_a_denied_prompt_leaves_nothing(
    agent: Agent, workspace: Path, answer: Any, code: str, after: int | None
) -> None:
    """HookDenied says whether a retry makes sense; no fact, no run, and the session goes on."""
    session = await open_session(agent, workspace, "hi")
    session.register_hook("x", "pre_prompt", Heard(answer))
    for begin in (
        lambda: session.send_async("go"),
        lambda: session.stream_async("go"),
        lambda: session.spawn_run_with_id_async("r", "go"),
    ):
        with pytest.raises(HookDenied, match=r"^Denied by hook: no$") as caught:
            await begin()
        assert (caught.value.code, caught.value.retry_after_ms) == (code, after)
    assert session.runs() == []
    assert data(workspace, "user.message") == []
    assert not (workspace / ".a3s" / "effect-log").exists()
    session.unregister_hook("x")
    assert (await session.send_async("go")).text == "hi"


async def test_a_steer_or_interrupt_can_be_denied_and_stays_so(agent: Agent, workspace: Path) -> None:
    """Nothing enters the inbox; the same request id gets the recorded decision without asking again."""
    codes: list[str] = []
    heard = Heard(BLOCK)

    class Steering(Note):
        async def execute(self, args: dict[str, Any], ctx: Any) -> str:
            for _ in range(2):
                with pytest.raises(HookDenied) as caught:
                    await session.steer_async("left", {"request_id": "r"})
                codes.append(caught.value.code)
            with pytest.raises(CodeError) as other:
                await session.steer_async("right", {"request_id": "r"})
            codes.append(other.value.code)
            with pytest.raises(HookDenied):
                await session.interrupt_async()
            return "ok"

    session = await open_session(agent, workspace, [call("note", {"text": "x"})], "done", tools=[Steering()])
    session.register_hook("x", "pre_run_control", heard)
    assert (await session.send_async("go")).stop_reason == "done"
    assert codes == ["HOOK_DENIED", "HOOK_DENIED", "DUPLICATE_REQUEST"]
    assert [p["kind"] for p in heard.payloads] == ["steer", "interrupt"]
    assert [fact.source for fact in data(workspace, "user.message")] == ["prompt"]


@pytest.mark.parametrize("origin", ["model", "host"])
@pytest.mark.parametrize("options", [ANSWERED, ASKING])
async def test_a_hook_answers_for_a_person(agent: Agent, workspace: Path, options: Any, origin: str) -> None:
    """permission_request settles an ask of the policy, also where nobody else could; by says which hook it was."""
    note = Note()
    session = await open_session(
        agent, workspace, [call("note", {"text": "x"}, id="c")], "done", tools=[note], **options
    )
    heard = Heard({"decision": "allow", "reason": "known"})
    session.register_hook("judge", "permission_request", heard)
    if origin == "host":
        await session.governed_tool_async("note", {"text": "x"})
    else:
        await session.send_async("go")
        (answer,) = data(workspace, "confirmation.answered")
        assert (answer.call, answer.approved, answer.by, answer.reason) == ("c", True, "judge", "known")
    assert note.calls == [{"text": "x"}]
    assert [(p["tool"], p["args"], p["rule"]) for p in heard.payloads] == [("note", {"text": "x"}, "note")]


@pytest.mark.parametrize("options", [ANSWERED, ASKING])
async def test_a_hook_refuses_for_a_person(agent: Agent, workspace: Path, options: Any) -> None:
    """A denial is a denial, whoever else would be asked; one hook's yes doesn't outvote another's no."""
    note = Note()
    session = await open_session(agent, workspace, [call("note", {"text": "x"})], "done", tools=[note], **options)
    session.register_hook("yes", "permission_request", Heard({"decision": "allow"}))
    session.register_hook("no", "permission_request", Heard({"decision": "deny", "reason": "never"}))
    await session.send_async("go")
    assert data(workspace, "tool.result")[0].metadata["error"]["reason"] == "never"
    assert (await session.governed_tool_async("note", {"text": "x"})).error_kind == "hook_denied"
    assert note.calls == []


async def test_without_a_decision_the_confirmation_goes_on(agent: Agent, workspace: Path) -> None:
    """A hook that says nothing leaves the call to a person, or refused where there is none."""
    heard = Heard()
    options: dict[str, Any] = {"hooks": [{"name": "x", "event_type": "permission_request", "handler": heard}]}
    script = [call("note", {"text": "x"}, id="c")], "done"
    session = await open_session(agent, workspace, *script, tools=[Note()], **ANSWERED, **options)
    running = asyncio.ensure_future(session.send_async("go"))
    await until(session.pending_confirmations)
    assert await session.confirm_tool_use_async("c", False)
    await running
    assert len(heard.events) == 1
    await session.close_async()
    other = workspace / "other"
    other.mkdir()
    session = await open_session(agent, other, *script, tools=[Note()], **ASKING, **options)
    await session.send_async("go")
    result = data(other, "tool.result")[0]
    assert result.metadata["error"]["type"] == "confirmation_unavailable"
    assert "confirmation_policy" in result.output
    direct = await session.governed_tool_async("note", {"text": "x"})
    assert (direct.error_kind, direct.output) == ("confirmation_unavailable", result.output)


async def test_a_tools_own_demand_still_asks(agent: Agent, workspace: Path) -> None:
    """A hook's yes to the policy's ask doesn't answer what the tool itself asks about."""
    from a3s_code import Escalation

    class Careful(Note):
        def escalation(self, args: dict[str, Any], ctx: Any) -> Escalation:
            return Escalation("it is sharp")

    note = Careful()
    script = [call("note", {"text": "x"}, id="c")], "done"
    session = await open_session(agent, workspace, *script, tools=[note], **ANSWERED)
    session.register_hook("x", "permission_request", Heard({"decision": "allow"}))
    running = asyncio.ensure_future(session.send_async("go"))
    await until(session.pending_confirmations)
    assert session.pending_confirmations()[0]["reason"] == "it is sharp"
    assert note.calls == []
    assert await session.confirm_tool_use_async("c", True)
    await running
    assert note.calls == [{"text": "x"}]


async def test_a_hook_asked_by_nobody_is_not_waited_for(agent: Agent, workspace: Path) -> None:
    """A permission_request hook that is gone when its call comes up leaves the refusal, never a run that waits."""
    script = [call("note", {"text": "x"}, id="c")], "done"
    session = await open_session(agent, workspace, *script, tools=[Note()], **ASKING)
    session.register_hook("x", "permission_request", Heard({"decision": "allow"}))
    session.register_hook("y", "post_reasoning", Heard(lambda event: session.unregister_hook("x") and None))
    assert (await session.send_async("go")).text == "done"
    assert data(workspace, "tool.result")[0].metadata["error"]["type"] == "confirmation_unavailable"


async def test_a_denied_prompt_forgets_no_call(agent: Agent, workspace: Path) -> None:
    """Hooks are asked once about a call of a parked run, though a prompt was denied meanwhile."""
    note, heard = Note(), Heard()
    script = [call("note", {"text": "x"}, id="c")], "done"
    session = await open_session(agent, workspace, *script, tools=[note], **ANSWERED)
    session.register_hook("x", "pre_tool_use", heard)
    session.register_hook("y", "pre_prompt", Heard(lambda event: BLOCK if heard.events else None))
    running = asyncio.ensure_future(session.send_async("go"))
    await until(session.pending_confirmations)
    with pytest.raises(CodeError):
        await session.send_async("again")
    assert await session.confirm_tool_use_async("c", True)
    await running
    assert len(heard.events) == 1


async def test_a_prompt_is_asked_about_once_for_each_run(agent: Agent, workspace: Path) -> None:
    """A call with an id that an earlier run had is a new call to the hooks of the next one."""
    heard = Heard()
    session = await open_session(agent, workspace, [call("ls", {})], "one", [call("ls", {})], "two")
    session.register_hook("x", "pre_tool_use", heard)
    await session.send_async("go")
    await session.send_async("go on")
    assert [event["turn_id"] for event in heard.events] == ["turn-1", "turn-3"]
