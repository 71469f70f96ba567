"""The conversation as hosts see it. In: a view, or OpenAI-shaped messages. Out: OpenAI-shaped messages, or facts.

One rule: what ``history`` gives, ``seed`` takes back.
Known weakness: reasoning signatures, attachments and whether a tool failed are not part of this shape.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from a3s_code.core.assemble import parse_arguments
from a3s_code.core.content import (
    AssistantMessage,
    Call,
    Json,
    JsonObject,
    Message,
    Reasoning,
    ToolMessage,
    UserMessage,
)
from a3s_code.core.digest import canonical
from a3s_code.core.facts import FactData, ModelTurn, ToolResulted, UserSaid
from a3s_code.core.state import View
from a3s_code.errors import CodeError


def history(view: View) -> list[JsonObject]:
    """The session's messages (api.md): those of runs with explicit history are left out."""
    shown: list[Message] = []
    at = 0
    for start, end in view.sides:
        shown += view.messages[at:start]
        at = len(view.messages) if end < 0 else end
    last = view.messages.tail(at)
    shown += last
    if last and view.ends_with == "assistant":
        shown += [state.result for state in view.turn if state.result is not None]
    return [_shape(message) for message in shown]


def _shape(message: Message) -> JsonObject:
    match message:
        case UserMessage():
            return {"role": "user", "content": message.text}
        case ToolMessage():
            return {"role": "tool", "tool_call_id": message.call, "name": message.name, "content": message.output}
        case AssistantMessage():
            shaped: JsonObject = {"role": "assistant", "content": message.text}
            if message.reasoning:
                shaped["reasoning_content"] = "".join(part.text for part in message.reasoning)
            if message.calls:
                shaped["tool_calls"] = [_shape_call(call) for call in message.calls]
            return shaped


def _shape_call(call: Call) -> JsonObject:
    arguments = call.raw if call.raw is not None else canonical(call.args)
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}}


def seed(messages: Sequence[Mapping[str, Json]]) -> list[FactData]:
    """Facts for an explicit history. A malformed message is INVALID_REQUEST naming its place; a system message is
    refused, since instructions come from the options; a result that doesn't follow its call is refused too."""
    facts: list[FactData] = []
    calls: dict[str, str] = {}
    for at, message in enumerate(messages):
        if not isinstance(message, Mapping):
            raise _bad(at, f"a message must be a mapping, not {type(message).__name__}")
        role = message.get("role")
        text = _text(message.get("content"), at)
        if role == "user":
            calls = {}
            facts.append(UserSaid(text, "history"))
        elif role == "assistant":
            made = tuple(_call(item, at) for item in _items(message.get("tool_calls"), at))
            calls = {call.id: call.name for call in made}
            if len(calls) < len(made):
                raise _bad(at, "two tool calls have the same 'id'")
            facts.append(ModelTurn(text, "history", made, _reasoning(message.get("reasoning_content"), at)))
        elif role == "tool":
            call_id = message.get("tool_call_id")
            if not isinstance(call_id, str) or call_id not in calls:
                raise _bad(at, "a tool message must name an unanswered call of the turn before it in 'tool_call_id'")
            facts.append(ToolResulted(call_id, calls.pop(call_id), text, 0, "ok", source="history"))
        else:
            raise _bad(at, f"'role' must be user, assistant or tool, not {role!r}")
    return facts


def _text(content: Json | None, at: int) -> str:
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(_part(part, at) for part in content)
    raise _bad(at, "'content' must be text or a list of text parts")


def _part(part: Json, at: int) -> str:
    text = part.get("text") if isinstance(part, dict) and part.get("type") == "text" else None
    if not isinstance(text, str):
        raise _bad(at, "each part of 'content' must be {'type': 'text', 'text': …}; give images as attachments")
    return text


def _reasoning(text: Json | None, at: int) -> tuple[Reasoning, ...]:
    if text is None:
        return ()
    if not isinstance(text, str):
        raise _bad(at, "'reasoning_content' must be text")
    return (Reasoning(text, field="reasoning_content"),)


def _items(calls: Json | None, at: int) -> list[Json]:
    if calls is None:
        return []
    if not isinstance(calls, list):
        raise _bad(at, "'tool_calls' must be a list")
    return calls


def _call(item: Json, at: int) -> Call:
    function = item.get("function") if isinstance(item, dict) else None
    if not isinstance(item, dict) or not isinstance(function, dict):
        raise _bad(at, "each tool call needs 'id' and 'function'")
    call_id, name, arguments = item.get("id"), function.get("name"), function.get("arguments", "{}")
    if not isinstance(call_id, str) or not isinstance(name, str):
        raise _bad(at, "each tool call needs 'id' and 'function.name' as text")
    if isinstance(arguments, str):
        args, fault = parse_arguments(arguments)
        return Call(call_id, name, args, raw=arguments if fault else None, fault=fault)
    if not isinstance(arguments, dict):
        raise _bad(at, "a tool call's 'arguments' must be JSON text or a mapping")
    try:
        canonical(arguments)
    except (TypeError, ValueError, RecursionError) as error:
        raise _bad(at, f"a tool call's 'arguments' are not JSON: {error}") from error
    return Call(call_id, name, arguments)


def _bad(at: int, fault: str) -> CodeError:
    return CodeError(f"history[{at}]: {fault}", "INVALID_REQUEST")
