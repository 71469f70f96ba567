"""Pieces of a model's answer. In: nothing. Out: ModelDelta and CallDelta, as every provider yields them.

One rule: an unset member says nothing; it never takes anything back.
Known weakness: none known.
"""

from __future__ import annotations

import msgspec

from a3s_code.core.content import JsonObject, Usage


class CallDelta(msgspec.Struct, frozen=True):
    """A piece of a tool call, as it came. ``index`` is ``None`` when the provider sent none; empty ``id`` and
    ``name`` mean nothing was said. ``arguments`` is text to append, or a whole object."""

    index: int | None = None
    id: str = ""
    name: str = ""
    arguments: str | JsonObject = ""


class ModelDelta(msgspec.Struct, frozen=True):
    """One piece of an answer; unset members say nothing. ``finish`` is ``stop``, ``length`` or ``tool_calls`` (a
    content filter is an ``LlmError``). ``usage`` replaces what came before it in the same answer. ``signature``
    closes the reasoning block before it; ``redacted`` is a whole one. A ``reasoning_field`` without ``reasoning``
    tells that the provider sent that member empty, and may want it back."""

    text: str = ""
    reasoning: str = ""
    reasoning_field: str = ""
    signature: str = ""
    redacted: str = ""
    call: CallDelta | None = None
    usage: Usage | None = None
    finish: str = ""
    model: str = ""
