"""The forms in which models write calls as text. In: whole markup, and the schemas of the offered tools. Out: calls.

One rule: markup is read as a whole or not at all; a value reaches from its opening to the closing that balances it.
Known weakness: forms that hold no closing mark of their own (Llama's bare JSON, Mistral's ``[TOOL_CALLS]``) are not
read, nor is DeepSeek V3's with a fenced object.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from a3s_code.core.content import Json, JsonObject

_PREFIXES: Final = ("", "antml:", "｜DSML｜", "|DSML|")
_PREFIX: Final = "(?:antml:|｜DSML｜|\\|DSML\\|)?"
ATTEMPTS: Final = 32
"""How many closings may stand in the values of one call before it is given up; each costs another reading."""
_NO_JSON: Final = (msgspec.DecodeError, RecursionError, UnicodeEncodeError)


class TextCall(msgspec.Struct, frozen=True):
    name: str
    arguments: JsonObject


class Malformed(Exception):
    """The markup has none of the forms."""


Tools = Mapping[str, JsonObject]
Reader = Callable[[str, Tools], list[TextCall]]


class _Tagged(msgspec.Struct, frozen=True):
    """A form with a tag for each parameter. ``typed`` is an attribute that says ``true`` for a text. With ``trims``
    one line break after the opening and one before the closing are not of the value."""

    opening: re.Pattern[str]
    parameter: re.Pattern[str]
    nested: re.Pattern[str]
    closing: re.Pattern[str]
    trims: bool


def _tagged(opening: str, parameter: str, inner: str, outer: str, end: str, *, trims: bool) -> _Tagged:
    return _Tagged(
        opening=re.compile(rf"\s*(?:{opening})"),
        parameter=re.compile(rf"\s*(?:{parameter})"),
        nested=re.compile(f"(?P<open>{inner})|{outer}"),
        closing=re.compile(rf"\s*{end}\s*"),
        trims=trims,
    )


_NAME: Final = r"(?P<name>[\w.-]+)"
_INVOKE: Final = _tagged(
    rf'<{_PREFIX}invoke name="(?P<name>[^"<>]+)">',
    rf'<{_PREFIX}parameter name="(?P<key>[^"<>]+)"(?: string="(?P<typed>true|false)")?>',
    rf"<{_PREFIX}parameter\b[^<>]*>",
    rf"</{_PREFIX}parameter>",
    rf"</{_PREFIX}invoke>",
    trims=False,
)
_FUNCTION: Final = _tagged(
    rf"<function={_NAME}>",
    r"<parameter=(?P<key>[^<>]+)>(?P<typed>)",
    r"<parameter=[^<>]*>",
    "</parameter>",
    "</function>",
    trims=True,
)
_GLM: Final = _tagged(
    rf"<tool_call>\s*{_NAME}",
    r"<arg_key>(?P<key>[^<>]+)</arg_key>\s*<arg_value>(?P<typed>)",
    "<arg_value>",
    "</arg_value>",
    "</tool_call>",
    trims=True,
)
_KIMI: Final = re.compile(
    r"\s*<\|tool_call_begin\|>\s*(?:functions\.)?(?P<name>[\w.-]+?)(?::\d+)?\s*<\|tool_call_argument_begin\|>"
)
_DEEPSEEK: Final = re.compile(r"\s*<｜tool▁call▁begin｜>\s*(?P<name>[\w.-]+)\s*<｜tool▁sep｜>")


def _read_element(markup: str, tools: Tools) -> list[TextCall]:
    """``<tool_call>`` and ``<function_call>``: around an object, around ``<function=…>``, or GLM's pairs."""
    tag, rest = markup[1:].split(">", 1)
    inner = rest.removesuffix(f"</{tag}>").strip()
    if inner.startswith("{"):
        return [_from_object(_object(inner))]
    if inner.startswith("<function="):
        return _read_all(_FUNCTION, inner, tools)
    return _read_all(_GLM, markup, tools)


def _read_function(markup: str, tools: Tools) -> list[TextCall]:
    return _read_all(_FUNCTION, markup, tools)


def _read_invokes(markup: str, tools: Tools) -> list[TextCall]:
    return _read_all(_INVOKE, _unwrapped(markup), tools)


def _unwrapped(markup: str) -> str:
    """What is inside ``<function_calls>``, if that is around it."""
    return re.sub(rf"\A<{_PREFIX}(function|tool)_calls>|</{_PREFIX}(function|tool)_calls>\Z", "", markup)


def _read_kimi(markup: str, tools: Tools) -> list[TextCall]:
    wrapped = "<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"
    return _read_objects(_KIMI, "<|tool_call_end|>", markup.removeprefix(wrapped[0]).removesuffix(wrapped[1]))


def _read_deepseek(markup: str, tools: Tools) -> list[TextCall]:
    wrapped = "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"
    return _read_objects(_DEEPSEEK, "<｜tool▁call▁end｜>", markup.removeprefix(wrapped[0]).removesuffix(wrapped[1]))


def _markers() -> dict[str, tuple[str, Reader]]:
    markers: dict[str, tuple[str, Reader]] = {
        "<tool_call>": ("</tool_call>", _read_element),
        "<function_call>": ("</function_call>", _read_element),
        "<function=": ("</function>", _read_function),
        "<|tool_calls_section_begin|>": ("<|tool_calls_section_end|>", _read_kimi),
        "<|tool_call_begin|>": ("<|tool_call_end|>", _read_kimi),
        "<｜tool▁calls▁begin｜>": ("<｜tool▁calls▁end｜>", _read_deepseek),
        "<｜tool▁call▁begin｜>": ("<｜tool▁call▁end｜>", _read_deepseek),
    }
    for prefix in _PREFIXES:
        markers[f'<{prefix}invoke name="'] = (f"</{prefix}invoke>", _read_invokes)
        for group in ("function_calls", "tool_calls"):
            markers[f"<{prefix}{group}>"] = (f"</{prefix}{group}>", _read_invokes)
    return markers


MARKERS: Final = _markers()
"""What markup begins with: what it ends with, and what reads it."""

STRAYS: Final = (
    "</arg_value>",
    "</function>",
    *(f"</{prefix}{tag}>" for prefix in _PREFIXES for tag in ("parameter", "invoke")),
)
"""Closings that nothing opened tell that a value before them held such closings itself and was read too short."""


def read_calls(marker: str, markup: str, tools: Tools) -> list[TextCall]:
    """The calls of ``markup``, which begins with ``marker`` and ends as it must; none at all when one of them is of a
    tool that isn't offered. Raises ``Malformed``."""
    calls = MARKERS[marker][1](markup, tools)
    return calls if all(call.name in tools for call in calls) else []


def _read_all(form: _Tagged, text: str, tools: Tools) -> list[TextCall]:
    calls, at = [], 0
    while at < len(text.rstrip()):
        call, at = _read_tagged(form, text, at, tools)
        calls.append(call)
    return calls


def _read_tagged(form: _Tagged, text: str, at: int, tools: Tools) -> tuple[TextCall, int]:
    opened = form.opening.match(text, at)
    if opened is None:
        raise Malformed
    properties = tools.get(opened["name"], {}).get("properties")
    arguments: JsonObject = {}
    at = opened.end()
    while (parameter := form.parameter.match(text, at)) is not None:
        key = parameter["key"].strip()
        value, at = _balanced(form.nested, text, parameter.end())
        if key in arguments:
            raise Malformed
        if form.trims:
            value = value.removeprefix("\n").removesuffix("\n")
        schema = properties.get(key) if isinstance(properties, dict) else None
        is_text = parameter["typed"] == "true" if parameter["typed"] else _is_text(schema)
        arguments[key] = value if is_text else _json_or_text(value)
    closed = form.closing.match(text, at)
    if closed is None:
        raise Malformed
    return TextCall(opened["name"], arguments), closed.end()


def _balanced(nested: re.Pattern[str], text: str, start: int) -> tuple[str, int]:
    """The value that starts at ``start``, and where its closing ends."""
    depth = 1
    for tag in nested.finditer(text, start):
        depth += 1 if tag["open"] else -1
        if depth == 0:
            return text[start : tag.start()], tag.end()
    raise Malformed


def _read_objects(opening: re.Pattern[str], end: str, text: str) -> list[TextCall]:
    calls, at, text = [], 0, text.rstrip()
    while at < len(text):
        opened = opening.match(text, at)
        if opened is None:
            raise Malformed
        arguments, at = _object_before(end, text, opened.end())
        calls.append(TextCall(opened["name"], arguments))
    return calls


def _object_before(end: str, text: str, start: int) -> tuple[JsonObject, int]:
    """The object from ``start`` to ``end``; an ``end`` inside one of its texts leaves no whole object before it."""
    stop = start
    for _ in range(ATTEMPTS):
        stop = text.find(end, stop + 1)
        if stop < 0:
            break
        try:
            return _object(text[start:stop]), stop + len(end)
        except Malformed:
            continue
    raise Malformed


def _object(text: str) -> JsonObject:
    try:
        value = msgspec.json.decode(text)
    except _NO_JSON:
        raise Malformed from None
    if not isinstance(value, dict):
        raise Malformed
    return value


def _from_object(call: JsonObject) -> TextCall:
    """``arguments`` (``parameters`` in Llama's) may be an object, or one written as text."""
    name, arguments = call.get("name"), call.get("arguments", call.get("parameters", {}))
    if isinstance(arguments, str):
        arguments = _object(arguments)
    if not isinstance(name, str) or not isinstance(arguments, dict):
        raise Malformed
    return TextCall(name, arguments)


def _is_text(schema: Json) -> bool:
    """Whether a value of ``schema`` may be text; what the schema doesn't tell is."""
    if not isinstance(schema, dict):
        return True
    kind = schema.get("type")
    if kind is not None:
        return "string" in kind if isinstance(kind, list) else kind == "string"
    branches = schema.get("anyOf", schema.get("oneOf"))
    return any(_is_text(branch) for branch in branches) if isinstance(branches, list) else True


def _json_or_text(value: str) -> Json:
    """What is no JSON stays text, so that the tool's own check can say what is wrong."""
    try:
        decoded: Json = msgspec.json.decode(value)
    except _NO_JSON:
        return value
    return decoded
