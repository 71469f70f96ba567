"""The offline model (providers.md). In: a ModelRequest. Out: the calls of its next round, or its answer, streamed.

One rule: everything follows from the request: the prompt, what was looked at since, and the tools that are offered;
the same request gives the same deltas.
Known weakness: it knows the built-in tools only, and English prompts.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator, Sequence

import msgspec

from a3s_code.core.content import AssistantMessage, Call, Message, Usage
from a3s_code.ports.model import CallDelta, ModelDelta, ModelRequest
from a3s_code.providers.offline_answer import answer
from a3s_code.providers.offline_evidence import gather
from a3s_code.providers.offline_look import Desk, next_calls
from a3s_code.providers.offline_question import understand

MODEL = "scout"
_PIECE = re.compile(r"(?s).{1,48}(?:\s+|$)|\S{48}")


class Scout:
    """``offline/scout``: a ``Model`` without key and network. It works by rules over the tools it is offered: at most
    three rounds of looking, then an answer with files, lines and quotations. It can't change anything."""

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelDelta]:
        found = gather(request.messages)
        question = understand(found.prompt)
        desk = Desk(request.tools)
        calls = next_calls(question, desk, found)
        text = "" if calls else answer(question, desk, found)
        for piece in _PIECE.findall(text):
            yield ModelDelta(text=piece, model=MODEL)
        for delta in _call_deltas(calls, request):
            yield delta
        yield ModelDelta(usage=_usage(request, text, calls), finish="tool_calls" if calls else "stop", model=MODEL)

    async def aclose(self) -> None:
        """Nothing is held."""


def _call_deltas(calls: Sequence[Call], request: ModelRequest) -> Iterator[ModelDelta]:
    """Ids count on over the conversation; after a compaction the generation tells them from earlier ones."""
    before = sum(len(message.calls) for message in request.messages if isinstance(message, AssistantMessage))
    for index, call in enumerate(calls):
        made = f"scout_{request.generation}_{before + index + 1}"
        arguments = msgspec.json.encode(call.args).decode()
        yield ModelDelta(call=CallDelta(index, made, call.name, arguments), model=MODEL)


def _usage(request: ModelRequest, text: str, calls: Sequence[Call]) -> Usage:
    """About four characters a token, as no tokens are really used."""
    asked = len(request.system) + sum(len(tool.description) + 200 for tool in request.tools)
    asked += sum(_length(message) for message in request.messages)
    said = len(text) + sum(len(call.name) + len(msgspec.json.encode(call.args)) for call in calls)
    prompt, completion = -(-asked // 4), -(-said // 4)
    return Usage(prompt, completion, prompt + completion, estimated=True)


def _length(message: Message) -> int:
    if isinstance(message, AssistantMessage):
        return len(message.text) + sum(len(call.name) + len(msgspec.json.encode(call.args)) for call in message.calls)
    return len(getattr(message, "text", "") or getattr(message, "output", ""))
