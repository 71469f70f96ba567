"""Deltas → a turn. In: the ModelDeltas of one answer, in order. Out: CallProgress on the way, the AssembledTurn.

One rule: a call starts on a new index or a new non-empty id only; empty strings say nothing; arguments that are no
JSON object are kept as they came, with the exact fault, and are never guessed into a different call.
Known weakness: a name sent in pieces after the arguments began is right in the turn, but not in the progress.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import Final

import msgspec

from a3s_code.core.content import Call, JsonObject, Reasoning, Usage
from a3s_code.core.delta import CallDelta, ModelDelta
from a3s_code.core.nesting import is_deeper

UNCOUNTED: Final = Usage(estimated=True)
DEEPEST: Final = 100
"""How deep a call's arguments may be nested: much of what they pass through recurses."""


class CallProgress(msgspec.Struct, frozen=True):
    """A call has begun (``begun``; its id and name are known), or a piece of its arguments has come."""

    id: str
    name: str
    arguments: str = ""
    begun: bool = False


class AssembledTurn(msgspec.Struct, frozen=True):
    text: str
    reasoning: tuple[Reasoning, ...]
    calls: tuple[Call, ...]
    usage: Usage
    finish: str
    model: str


class _Open:
    """A call that is being received. ``given`` is the provider's id, ``id`` ours once it was told."""

    __slots__ = ("given", "id", "name", "pieces", "position")

    def __init__(self, position: int) -> None:
        self.position = position
        self.given = ""
        self.id = ""
        self.name = ""
        self.pieces: list[str] = []


class _Thought:
    __slots__ = ("field", "pieces")

    def __init__(self, field: str) -> None:
        self.field = field
        self.pieces: list[str] = []


class Assembler:
    """``call_id`` gives the id of the call at a position, for a provider that sent none or one of ``used_ids``."""

    def __init__(self, call_id: Callable[[int], str], used_ids: Container[str] = ()) -> None:
        self._call_id = call_id
        self._used_ids = used_ids
        self._taken: set[str] = set()
        self._text: list[str] = []
        self._reasoning: list[Reasoning] = []
        self._thought: _Thought | None = None
        self._calls: list[_Open] = []
        self._at: dict[tuple[int | None, str], _Open] = {}
        self._usage: Usage | None = None
        self._finish = ""
        self._model = ""

    def add(self, delta: ModelDelta) -> tuple[CallProgress, ...]:
        """Takes the next delta; tells what became known of calls by it."""
        if delta.text:
            self._text.append(delta.text)
        if delta.reasoning or delta.reasoning_field or delta.signature or delta.redacted:
            self._think(delta)
        if delta.usage is not None:
            self._usage = delta.usage
        if delta.model:
            self._model = delta.model
        if delta.call is not None:
            return self._call(delta.call, delta.finish)
        if delta.finish:
            self._finish = delta.finish
            return tuple(self._announce())
        return ()

    def turn(self) -> AssembledTurn:
        """The whole turn. Usage that the provider never sent stays 0 and is marked estimated (providers.md)."""
        self._close_thought()
        text = "".join(self._text)
        calls = self._finished_calls()
        return AssembledTurn(
            text=text,
            reasoning=tuple(self._reasoning),
            calls=calls,
            usage=self._usage or UNCOUNTED,
            finish=self._finish,
            model=self._model,
        )

    def _call(self, piece: CallDelta, finish: str) -> tuple[CallProgress, ...]:
        progress: list[CallProgress] = []
        call = self._find(piece)
        if call is None:
            progress += self._announce()
            call = _Open(len(self._calls))
            self._calls.append(call)
        if piece.id and not call.given:
            call.given = piece.id
        for index in (piece.index, None):  # a later piece without an index goes on with the call touched last
            self._at[index, ""] = self._at[index, call.given] = call
        if piece.name and piece.name != call.name:
            call.name += piece.name
        arguments = piece.arguments
        if not isinstance(arguments, str):
            arguments = msgspec.json.encode(arguments).decode()
            if arguments == "".join(call.pieces):
                arguments = ""  # the same whole object once more
        if arguments:
            told = bool(call.id)
            call.pieces.append(arguments)
            if told:
                progress.append(CallProgress(call.id, call.name, arguments))
            elif call.name:
                progress += self._begin(call)
        if finish:
            self._finish = finish
            progress += self._announce()
        return tuple(progress)

    def _find(self, piece: CallDelta) -> _Open | None:
        """The call that ``piece`` continues, or ``None`` when it starts one."""
        last = self._at.get((piece.index, ""))
        if last is None:
            return None
        if piece.id:
            known = self._at.get((piece.index, piece.id))
            return known or (last if piece.index is not None and not last.given else None)
        if piece.index is None and not last.given and piece.name and piece.arguments and _is_whole(last):
            return None  # neither ids nor indexes: a finished object can't go on, so this is the next call
        return last

    def _announce(self) -> list[CallProgress]:
        """Tells of the last call if that is still to be done: nothing more of its name will come."""
        call = self._calls[-1] if self._calls else None
        return self._begin(call) if call is not None and call.name and not call.id else []

    def _begin(self, call: _Open) -> list[CallProgress]:
        begun = CallProgress(self._identify(call), call.name, begun=True)
        return [begun, *(CallProgress(call.id, call.name, piece) for piece in call.pieces)]

    def _identify(self, call: _Open) -> str:
        if not call.id:
            given = call.given
            fresh = given and given not in self._taken and given not in self._used_ids
            call.id = given if fresh else self._call_id(call.position)
            self._taken.add(call.id)
        return call.id

    def _think(self, delta: ModelDelta) -> None:
        if delta.reasoning or delta.reasoning_field:
            if self._thought is None or self._thought.field != delta.reasoning_field:
                self._close_thought()
                self._thought = _Thought(delta.reasoning_field)
            self._thought.pieces.append(delta.reasoning)
        if delta.signature:
            self._close_thought(delta.signature)
        if delta.redacted:
            self._close_thought()
            self._reasoning.append(Reasoning(redacted=delta.redacted))

    def _close_thought(self, signature: str = "") -> None:
        thought, self._thought = self._thought, None
        if thought is not None:
            self._reasoning.append(Reasoning("".join(thought.pieces), signature, field=thought.field))
        elif signature:
            self._reasoning.append(Reasoning(signature=signature))  # a thinking block whose text is withheld

    def _finished_calls(self) -> tuple[Call, ...]:
        calls: list[Call] = []
        for call in self._calls:
            text = "".join(call.pieces)
            if not call.name and not text:
                continue  # a placeholder for a gap between indexes
            args, fault = parse_arguments(text)
            if not call.name:
                fault = "the call names no tool"
            elif not text and self._finish == "length" and call is self._calls[-1]:
                fault = "the answer reached its output limit before this call's arguments"
            if fault is None:
                calls.append(Call(self._identify(call), call.name, args))
            else:
                raw = text.encode("utf-8", "replace").decode()
                calls.append(Call(self._identify(call), call.name, {}, raw=raw, fault=fault))
        return tuple(calls)


def parse_arguments(text: str) -> tuple[JsonObject, str | None]:
    """A call's arguments and what is wrong with them; no text at all is an empty object."""
    if not text.strip():
        return {}, None
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError) as error:
        return {}, f"the arguments are no valid JSON: {_position(text) or error}"
    if isinstance(value, dict):
        if is_deeper(value, DEEPEST):
            return {}, f"the arguments are nested more than {DEEPEST} deep"
        return value, None
    kinds = {list: "an array", str: "a string", bool: "a boolean", type(None): "null"}
    return {}, f"the arguments are {kinds.get(type(value), 'a number')}, not a JSON object"


def _position(text: str) -> str:
    """What the standard parser says, which names line and column; empty when it finds nothing wrong."""
    import json  # only broken arguments need it

    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        return str(error)
    except RecursionError:
        return "it is nested too deeply"
    except ValueError:
        return "a number has too many digits"
    return ""


def _is_whole(call: _Open) -> bool:
    text = "".join(call.pieces)
    return bool(text.strip()) and parse_arguments(text)[1] is None
