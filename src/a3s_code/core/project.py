"""Facts, deltas and parked calls to public events (api.md, *Events*). In: what happened. Out: (type, payload) pairs.

One rule: this is the only place where an event's payload is written.
Known weakness: events of features that come later have no projection yet and are never sent.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, TypeAlias

from a3s_code.core.content import Call, Json, JsonObject, Usage, Verdict
from a3s_code.core.decide.approvals import asks_person
from a3s_code.core.digest import json_copy
from a3s_code.core.events.catalogue import AGENT_EVENT_TYPES_V1
from a3s_code.core.evidence import with_evidence
from a3s_code.core.facts import (
    CompactionDone,
    ConfirmationAnswered,
    Fact,
    ModelTurn,
    RunClosed,
    RunOpened,
    ToolResulted,
    ToolStarted,
    UserSaid,
)
from a3s_code.core.facts.tools import Outcome
from a3s_code.core.state import View
from a3s_code.errors import CodeError

Event: TypeAlias = tuple[str, JsonObject]
_REFUSED: tuple[Outcome, ...] = ("denied", "blocked")


def of_fact(fact: Fact, view: View) -> Iterator[Event]:
    """The events of ``fact``; ``view`` is the view after it."""
    match fact.data:
        case RunOpened(resumes=str()) as opened:
            yield "agent_start", {"prompt": view.prompt, "resumes": opened.resumes}
        case UserSaid(source="prompt") as said:
            yield "agent_start", {"prompt": said.text}
        case UserSaid(source="steer") as said:
            turn = f"turn-{view.turns + 1}"
            applied: JsonObject = {"request_id": said.request_id, "kind": "steer", "run_id": fact.run, "turn_id": turn}
            yield "run_control_applied", applied
        case ModelTurn(source="model") as turn:
            yield "turn_end", {"turn": view.turns, "usage": usage(turn.usage)}
        case ToolStarted() as started:
            state = view.call(started.call)
            if state is not None:
                yield "tool_execution_start", {"id": started.call, "name": state.call.name, "args": state.call.args}
        case ToolResulted(source=None) as result:
            yield from _tool_end(result, view)
        case ConfirmationAnswered() as answer:
            yield answered(answer.call, answer.approved, answer.reason)
        case CompactionDone() as done:
            counts: JsonObject = {
                "tokens_before": done.tokens_before,
                "tokens_after": done.tokens_after,
                "facts": done.upto,
            }
            yield "context_compacted", counts
        case RunClosed() as closed:
            yield _run_end(closed, view)
        case _:
            return


def _tool_end(result: ToolResulted, view: View) -> Iterator[Event]:
    state = view.call(result.call)
    if result.outcome in _REFUSED and state is not None:
        denied: JsonObject = {
            "id": result.call,
            "name": result.name,
            "args": state.call.args,
            "reason": state.reject_reason or result.output,
        }
        yield "permission_denied", denied
    ended: JsonObject = {
        "id": result.call,
        "name": result.name,
        "output": result.output,
        "exit_code": result.exit_code,
        "metadata": with_evidence(result.name, result.output, result.metadata),
        "took_ms": result.took_ms,
    }
    yield "tool_end", ended


def _run_end(closed: RunClosed, view: View) -> Event:
    if closed.error is not None:
        return "error", {"message": closed.error.message, "code": closed.error.code}
    run = view.closed.run if view.closed is not None else None
    ended: JsonObject = {
        "text": run.text if run else "",
        "usage": usage(run.usage if run else Usage()),
        "tool_calls_count": run.tool_calls if run else 0,
        "stop_reason": closed.stop_reason,
        "verification_summary": no_summary(),
        "completion": None,
    }
    return "agent_end", ended


def usage(counted: Usage) -> JsonObject:
    """The five public counters, and whether they are an estimate."""
    shaped: JsonObject = {
        "prompt_tokens": counted.prompt_tokens,
        "completion_tokens": counted.completion_tokens,
        "total_tokens": counted.total_tokens,
        "cache_read_tokens": counted.cache_read_tokens,
        "cache_write_tokens": counted.cache_write_tokens,
    }
    if counted.estimated:
        shaped["estimated"] = True
    return shaped


def no_summary() -> JsonObject:
    """The verification summary without a report (extensions.md §7.1)."""
    return {
        "status": "skipped",
        "report_count": 0,
        "required_check_count": 0,
        "pending_required_check_count": 0,
        "failed_check_count": 0,
        "residual_risk_count": 0,
        "pending_subjects": [],
        "failed_subjects": [],
    }


def turn_started(turn: int) -> Event:
    return "turn_start", {"turn": turn}


def text_delta(text: str) -> Event:
    return "text_delta", {"text": text}


def reasoning_delta(text: str) -> Event:
    return "reasoning_delta", {"text": text}


def call_begun(call_id: str, name: str) -> Event:
    return "tool_start", {"id": call_id, "name": name}


def call_input(call_id: str, name: str, delta: str) -> Event:
    return "tool_input_delta", {"id": call_id, "name": name, "delta": delta}


def output_delta(call_id: str, name: str, text: str) -> Event:
    return "tool_output_delta", {"id": call_id, "name": name, "text": text}


def budget_hit(decision: Mapping[str, Json], *, hard: bool) -> Event:
    """A budget guard's soft limit, or its refusal."""
    payload: JsonObject = {
        "resource": decision["resource"],
        "kind": "hard" if hard else "soft",
        "consumed": decision.get("consumed"),
        "limit": decision.get("limit"),
    }
    message = decision.get("reason" if hard else "message")
    return "budget_threshold_hit", payload | ({"message": message} if message is not None else {})


def heartbeat(phase: str) -> Event:
    """A run that has been quiet for a while is alive; its phase says what it waits for. No name of the catalogue."""
    return "heartbeat", {"phase": phase}


def failed(message: str, code: str) -> Event:
    """The end of a run whose log could not take its closing fact."""
    return "error", {"message": message, "code": code}


def not_kept(what: str, error: str) -> Event:
    """A session store didn't take something; the run goes on."""
    return "persistence_failed", {"what": what, "error": error}


_TEXT, _TIME = (str, "a text"), (int, "a Unix time in milliseconds")
_OF_HOSTS: Final[dict[str, tuple[dict[str, tuple[type, str]], dict[str, tuple[type, str]]]]] = {
    "passivation_requested": ({"reason": _TEXT}, {"deadline_ms": _TIME}),
    "peer_invocation": ({"from_session_id": _TEXT}, {"from_tenant_id": _TEXT, "correlation_id": _TEXT}),
}
"""The types of the catalogue that hosts publish: members that must be there, and those that may."""


def published(kind: str, payload: Mapping[str, Json]) -> Event:
    """An event of a host's. ``INVALID_REQUEST`` for a type of the catalogue that is the runtime's own, and for a
    payload that its type doesn't allow or that is no JSON."""
    if not isinstance(kind, str) or not kind.strip() or not isinstance(payload, Mapping):
        raise CodeError("publish_event: expected a type that is not blank and a mapping", "INVALID_REQUEST")
    if kind in AGENT_EVENT_TYPES_V1 and kind not in _OF_HOSTS:
        raise CodeError(f"publish_event: '{kind}' is the runtime's own; name your event otherwise", "INVALID_REQUEST")
    needed, allowed = _OF_HOSTS.get(kind, ({}, {}))
    for name, (type_, shown) in (needed | allowed).items():
        value = payload.get(name)
        if (value is not None or name in needed) and (not isinstance(value, type_) or isinstance(value, bool)):
            raise CodeError(f"publish_event: '{kind}' needs {shown} in '{name}'", "INVALID_REQUEST")
    if kind in _OF_HOSTS and (unknown := payload.keys() - needed.keys() - allowed.keys()):
        raise CodeError(f"publish_event: '{kind}' has no member '{min(unknown)}'", "INVALID_REQUEST")
    try:
        copy: JsonObject = json_copy(dict(payload))
    except (TypeError, ValueError, RecursionError) as error:
        raise CodeError(f"publish_event: the payload is not JSON: {error}", "INVALID_REQUEST") from error
    return kind, copy


def parked(call: Call, reason: str) -> Event:
    """A call that waits for a person, and why."""
    if asks_person(call):
        question: JsonObject = {"tool_id": call.id, "question": call.args.get("question")}
        options: Json = call.args.get("options")
        return "user_question", question | ({"options": options} if options else {})
    return asked(call, reason)


def asked(call: Call, reason: str) -> Event:
    """A call that somebody has to approve or reject."""
    about: JsonObject = {"tool_id": call.id, "tool_name": call.name, "args": call.args, "reason": reason}
    return "confirmation_required", {**about, **escalation(call.verdict), **call.verdict.permission()}


def escalation(verdict: Verdict) -> JsonObject:
    """What a tool that asks by itself says of the call, as far as it says anything."""
    return {name: text for name, text in (("scope", verdict.scope), ("risk", verdict.risk)) if text}


def answered(call_id: str, approved: bool, reason: str | None) -> Event:
    return "confirmation_received", {"tool_id": call_id, "approved": approved, "reason": reason}


def unanswered(call_id: str, action: str) -> Event:
    """Nobody answered a call that can't park; ``action`` is the policy's ``timeout_action``."""
    return "confirmation_timeout", {"tool_id": call_id, "action_taken": action}
