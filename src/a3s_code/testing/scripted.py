"""A model that answers by a script (providers.md). In: a list of turns. Out: a ``Model``, and the requests it got.

One rule: one request takes one turn, in order; a request beyond the script fails and says what was asked.
Known weakness: requests that arrive at the same time take their turns in the order they started.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

import msgspec

from a3s_code.core.content import AssistantMessage, Message, ToolMessage, Usage
from a3s_code.errors import LlmError
from a3s_code.ports.clock import Clock
from a3s_code.ports.model import ModelDelta, ModelRequest
from a3s_code.testing.clock import JumpingClock
from a3s_code.testing.turns import Delay, Failure, Piece, Turn, steps


class ScriptedModel:
    """A ``Model`` for tests: ``opts.llm_client = ScriptedModel(["Hello", calls(("ls", {})), "Done"])``.

    A turn is text, a piece (``text``, ``call``, ``thought``, ``error``, ``cut``, ``delay``, a ``ModelDelta``), a list
    of those (``turn(...)`` and ``calls(...)`` make one), an ``LlmError``, or a function of the request that gives a
    turn. ``usage`` is what every turn says that doesn't say its own; ``None`` says nothing, as some providers do.
    With ``repeat_last`` the last turn answers every further request.

    ``requests`` are the requests so far, each with its messages as they were; ``remaining`` is how many turns are
    left; ``closed`` says that ``aclose`` was called.
    """

    def __init__(
        self,
        turns: Sequence[Turn] = (),
        *,
        usage: Usage | None = None,
        repeat_last: bool = False,
        clock: Clock | None = None,
    ) -> None:
        if isinstance(turns, str):
            raise TypeError("a script is a list of turns; for one text write ScriptedModel(['…'])")
        self.requests: list[ModelRequest] = []
        self.closed = False
        self._turns = list(turns)
        self._usage = usage
        self._repeat_last = repeat_last
        self._clock = clock if clock is not None else JumpingClock()

    @property
    def remaining(self) -> int:
        return max(0, len(self._turns) - len(self.requests))

    def add(self, *turns: Turn) -> None:
        """More turns at the end of the script."""
        self._turns.extend(turns)

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelDelta]:
        self.requests.append(msgspec.structs.replace(request, messages=tuple(request.messages), memo={}))
        number = len(self.requests)
        answer = self._turn(number, request)
        while callable(answer):
            answer = answer(self.requests[number - 1])
        for step in steps(_pieces(answer), number, self._usage):
            match step:
                case Failure():
                    raise step.error
                case Delay(until=asyncio.Event() as event):
                    await event.wait()
                case Delay():
                    assert not isinstance(step.until, asyncio.Event)
                    await self._clock.sleep(step.until)
                case _:
                    yield step

    async def aclose(self) -> None:
        self.closed = True

    def _turn(self, number: int, request: ModelRequest) -> Turn:
        if number <= len(self._turns):
            return self._turns[number - 1]
        if self._repeat_last and self._turns:
            return self._turns[-1]
        last = _brief(request.messages[-1]) if request.messages else "nothing"
        raise LlmError(f"the script has {len(self._turns)} turns, but request {number} came; its last message: {last}")


def _pieces(answer: Turn) -> Sequence[str | Piece]:
    if isinstance(answer, LlmError):
        return [Failure(answer)]
    if isinstance(answer, (str, msgspec.Struct)):
        return [answer]
    assert not callable(answer)
    return answer


def _brief(message: Message) -> str:
    match message:
        case ToolMessage():
            said = f"the result of {message.name}: {message.output}"
        case AssistantMessage():
            said = f"an answer: {message.text}"
        case _:
            said = f"a prompt: {message.text}"
    return said if len(said) <= 200 else f"{said[:199]}…"
