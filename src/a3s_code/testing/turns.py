"""What a scripted model may answer. In: a turn as a test writes it. Out: the steps that a stream takes.

One rule: the same script gives the same deltas, ids included.
Known weakness: none known.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeAlias, Union

import msgspec

from a3s_code.core.content import JsonObject, Usage
from a3s_code.errors import LlmError
from a3s_code.ports.model import CallDelta, ModelDelta, ModelRequest

_RETRYABLE = frozenset({408, 409, 425, 429, 529})


class Text(msgspec.Struct, frozen=True):
    text: str
    chunks: int = 1


class Thought(msgspec.Struct, frozen=True):
    text: str
    signature: str = ""


class ScriptedCall(msgspec.Struct, frozen=True):
    name: str
    args: JsonObject | str
    id: str | None = None
    chunks: int = 1


class Delay(msgspec.Struct, frozen=True):
    until: float | asyncio.Event


class Cut(msgspec.Struct, frozen=True):
    after: int | None = None


class Failure(msgspec.Struct, frozen=True):
    error: LlmError


class Finish(msgspec.Struct, frozen=True):
    reason: str


Piece: TypeAlias = Text | Thought | ScriptedCall | Delay | Cut | Failure | Finish | Usage | ModelDelta
Turn: TypeAlias = Union[  # noqa: UP007  a string inside
    str, Piece, LlmError, Sequence[str | Piece], Callable[[ModelRequest], "Turn"]
]
Step: TypeAlias = ModelDelta | Delay | Failure


def text(content: str, chunks: int = 1) -> Text:
    """Text, streamed in ``chunks`` pieces of about one length."""
    return Text(content, chunks)


def thought(content: str, signature: str = "") -> Thought:
    """A block of reasoning."""
    return Thought(content, signature)


def call(name: str, args: JsonObject | str | None = None, id: str | None = None, chunks: int = 1) -> ScriptedCall:  # noqa: A002  its name on the wire
    """A tool call. ``args`` as a string goes out as it is, also when it is no JSON; without ``id`` one is counted."""
    return ScriptedCall(name, args if args is not None else {}, id, chunks)


def calls(*wanted: tuple[str, JsonObject] | ScriptedCall) -> list[str | Piece]:
    """Several calls in one turn: ``calls(("read", {"file_path": "a"}), ("ls", {}))``."""
    return [one if isinstance(one, ScriptedCall) else call(*one) for one in wanted]


def turn(
    *pieces: str | Piece | Sequence[str | Piece], finish: str = "", usage: Usage | None = None
) -> list[str | Piece]:
    """One turn of several pieces, with the reason it ended for and the tokens it took."""
    flat: list[str | Piece] = []
    for piece in pieces:
        flat.extend([piece] if isinstance(piece, (str, msgspec.Struct)) else piece)
    flat.extend([Finish(finish)] if finish else [])
    flat.extend([usage] if usage is not None else [])
    return flat


def error(what: LlmError | int, message: str = "", *, retry_after_ms: int | None = None) -> Failure:
    """A failure of the provider: an ``LlmError``, or the HTTP status of one (retryable as in providers.md)."""
    if isinstance(what, LlmError):
        return Failure(what)
    retryable = what in _RETRYABLE or 500 <= what < 600
    said = message or f"the provider answered with status {what}"
    return Failure(LlmError(said, status=what, retryable=retryable, retry_after_ms=retry_after_ms))


def cut(after: int | None = None) -> Cut:
    """The stream ends here without having finished: retryable. With ``after``: after that many deltas of the turn."""
    return Cut(after)


def delay(until: float | asyncio.Event) -> Delay:
    """Waits for an event, or for seconds on the model's clock (which takes no real time unless it was given one)."""
    return Delay(until)


def steps(pieces: Sequence[str | Piece], number: int, usage: Usage | None) -> list[Step]:
    """The steps of the ``number``-th answer. A turn that says no reason ends with ``tool_calls`` or ``stop``."""
    taken: list[Step] = []
    indexes = 0
    finish = ""
    limit: int | None = None
    for piece in pieces:
        match piece:
            case str() | Text():
                taken.extend(_text(piece if isinstance(piece, Text) else Text(piece)))
            case Thought():
                taken.append(ModelDelta(reasoning=piece.text))
                taken.extend([ModelDelta(signature=piece.signature)] if piece.signature else [])
            case ScriptedCall():
                taken.extend(_call(piece, number, indexes))
                indexes += 1
            case Finish():
                finish = piece.reason
            case Usage():
                usage = piece
            case Cut(after=None):
                taken.append(Failure(_cut_error()))
            case Cut():
                limit = piece.after
            case _:
                taken.append(piece)
    if usage is not None:
        taken.append(ModelDelta(usage=usage))
    taken.append(ModelDelta(finish=finish or ("tool_calls" if indexes else "stop")))
    return taken if limit is None else [*_first(taken, limit), Failure(_cut_error())]


def _first(taken: list[Step], limit: int) -> list[Step]:
    kept: list[Step] = []
    for step in taken:
        if isinstance(step, ModelDelta):
            if limit == 0:
                break
            limit -= 1
        kept.append(step)
    return kept


def _text(piece: Text) -> list[ModelDelta]:
    return [ModelDelta(text=part) for part in _parts(piece.text, piece.chunks)]


def _call(piece: ScriptedCall, number: int, index: int) -> list[ModelDelta]:
    sent = piece.args if isinstance(piece.args, str) else msgspec.json.encode(piece.args).decode()
    first, *rest = _parts(sent, piece.chunks) or [""]
    made = piece.id if piece.id is not None else f"call_{number}_{index + 1}"
    opening = ModelDelta(call=CallDelta(index, made, piece.name, first))
    return [opening, *(ModelDelta(call=CallDelta(index, arguments=part)) for part in rest)]


def _parts(whole: str, chunks: int) -> list[str]:
    size = max(1, -(-len(whole) // max(1, chunks)))
    return [whole[at : at + size] for at in range(0, len(whole), size)]


def _cut_error() -> LlmError:
    return LlmError("the stream was cut before its end", retryable=True)
