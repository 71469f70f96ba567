"""View ⇄ bytes, for the shortcut beside a long log (facts.md, *View and phases*). In: a view, or bytes. Out: the other.

One rule: bytes are only taken back by the layout that wrote them; anything else is ``None`` and the log is folded.
Known weakness: the whole conversation is encoded at once.
"""

from __future__ import annotations

import hashlib
from typing import Any, Final, get_args, get_origin

import msgspec

from a3s_code.core.chain import Chain, IdSet
from a3s_code.core.codec import LOGIC
from a3s_code.core.content import AssistantMessage, Call, Reasoning, ToolMessage, Usage, UserMessage, Verdict
from a3s_code.core.facts.runs import Failure
from a3s_code.core.state import CallState, ClosedRun, RunState, View


def _plain(value: object) -> object:
    if isinstance(value, (Chain, IdSet)):
        return list(value)
    raise TypeError(f"{type(value).__name__} is not part of a view")


def _made(kind: Any, value: Any) -> object:
    if kind is IdSet:
        return IdSet().add(msgspec.convert(value, list[str]))
    if get_origin(kind) is Chain:
        return Chain(msgspec.convert(value, list[get_args(kind)[0]]))  # type: ignore[misc]  # the item type is a value here
    raise TypeError(f"{kind} is not part of a view")


_PARTS: Final = (View, CallState, RunState, ClosedRun, Failure, Call, Verdict, Usage, UserMessage, AssistantMessage)
LAYOUT: Final = hashlib.sha256(
    repr((LOGIC, [(part.__name__, part.__struct_fields__) for part in (*_PARTS, ToolMessage, Reasoning)])).encode()
).hexdigest()[:16]
"""Changes whenever what a view is made of does, or what folding means."""

_ENCODER: Final = msgspec.json.Encoder(enc_hook=_plain)


def encode_view(view: View) -> bytes:
    return _ENCODER.encode(view)


def decode_view(data: bytes) -> View | None:
    try:
        return msgspec.json.decode(data, type=View, dec_hook=_made)  # a decoder made on import costs 1 ms
    except msgspec.MsgspecError:
        return None
