"""Words for invalid arguments (tools.md §1.3). In: a schema and the faults found. Out: one line a fault, and what was
expected.

One rule: a line names the argument, the value (80 characters at most) and the limit it breaks, and leaks nothing else.
Known weakness: for a union of objects only the types are named, not the fault in the branch that was meant.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from jsonschema_rs import ValidationError

_VALUE = 80
_CHOICES = 12
_LIMITS = {
    "minimum": "{value} is less than the minimum of {limit}",
    "maximum": "{value} is greater than the maximum of {limit}",
    "exclusiveMinimum": "{value} must be greater than {limit}",
    "exclusiveMaximum": "{value} must be less than {limit}",
    "multipleOf": "{value} is not a multiple of {multiple_of}",
    "minLength": "{value} has {length} characters, at least {limit} needed",
    "maxLength": "{value} has {length} characters, at most {limit} allowed",
    "pattern": "{value} does not match the pattern {pattern}",
    "minItems": "has {length} items, at least {limit} needed",
    "maxItems": "has {length} items, at most {limit} allowed",
    "uniqueItems": "has items that are the same",
    "minProperties": "has {length} members, at least {limit} needed",
    "maxProperties": "has {length} members, at most {limit} allowed",
    "falseSchema": "is not allowed here",
}


def problem_lines(schema: Mapping[str, Any], errors: Iterable[ValidationError]) -> list[str]:
    """What is missing, then wrong values in the order of the schema, then unknown arguments."""
    order = {name: i for i, name in enumerate(schema.get("properties", ()))}
    ranked: list[tuple[tuple[int, int, int], str]] = []
    for error in errors:
        path = [str(part) for part in error.instance_path]
        place = order.get(path[0], len(order)) if path else -1
        kind = error.kind.name
        rank = 2 if kind == "additionalProperties" and not path else 0 if kind == "required" and not path else 1
        ranked.extend(((rank, place, len(ranked)), line) for line in _lines(schema, error))
    return list(dict.fromkeys(line for _, line in sorted(ranked)))


def _lines(schema: Mapping[str, Any], error: ValidationError) -> Iterator[str]:
    where = _where(error.instance_path)
    kind, said = error.kind.name, error.kind.as_dict()
    if kind == "required":
        yield f"{_join(where, said['property'])}: required argument is missing"
    elif kind in ("additionalProperties", "unevaluatedProperties"):
        known = _known(schema, error)
        for name in said["unexpected"]:
            near = difflib.get_close_matches(name, known, 1, 0.6)
            hint = f" (did you mean '{near[0]}'?)" if near else ""
            yield f"{_join(where, shorten(name))}: unknown argument{hint}"
    else:
        yield f"{where or 'arguments'}: {_fault(schema, error, kind, said)}"


def _fault(schema: Mapping[str, Any], error: ValidationError, kind: str, said: dict[str, Any]) -> str:
    value = show(error.instance)
    if kind == "type":
        return f"{value} is not of type {' or '.join(said['types'])}"
    if kind == "enum":
        near = _near(error.instance, said["options"])
        return f"{value} is not one of {_choices(said['options'], ', ')}{near}"
    if kind == "const":
        return f"{value} is not {show(said['expected_value'])}"
    if kind in ("anyOf", "oneOf", "oneOfNotValid", "oneOfMultipleValid"):
        names = describe(_at(schema, error.schema_path[:-1]))
        return f"{value} does not fit {names}"
    if kind in _LIMITS:
        size = len(error.instance) if isinstance(error.instance, (str, list, dict)) else 0
        words = {key: shorten(str(part)) for key, part in said.items()}
        return _LIMITS[kind].format_map({**words, "value": value, "length": size})
    return shorten(error.message, 200)


def _known(schema: Mapping[str, Any], error: ValidationError) -> list[str]:
    owner = _at(schema, error.schema_path[:-1])
    return list(owner.get("properties", ())) if isinstance(owner, Mapping) else []


def _at(schema: Any, path: Iterable[str | int]) -> Any:
    for part in path:
        if isinstance(schema, Mapping):
            schema = schema.get(part)
        elif isinstance(schema, list) and isinstance(part, int) and part < len(schema):
            schema = schema[part]
        else:  # the path went through a reference: no owner to name
            return None
    return schema


def _near(value: object, options: list[Any]) -> str:
    texts = [option for option in options if isinstance(option, str)]
    near = difflib.get_close_matches(value, texts, 1, 0.6) if isinstance(value, str) else []
    return f" (did you mean '{near[0]}'?)" if near else ""


def _where(path: list[str | int]) -> str:
    text = ""
    for part in path:
        text = f"{text}[{part}]" if isinstance(part, int) else _join(text, shorten(part))
    return text


def _join(where: str, name: str) -> str:
    return f"{where}.{name}" if where else name


def show(value: object) -> str:
    """A value as JSON text of at most 80 characters."""
    if isinstance(value, str) and len(value) > _VALUE:
        value = value[: _VALUE + 1]  # enough to be shortened below, and no megabytes encoded for it
    try:
        return shorten(msgspec.json.encode(value).decode())
    except (TypeError, ValueError, RecursionError):
        return shorten(type(value).__name__)


def shorten(text: str, limit: int = _VALUE) -> str:
    text = text.replace("\n", " ")
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def expected(schema: Mapping[str, Any]) -> str:
    """``file_path: string, limit?: integer 1..10000``."""
    required = schema.get("required", ())
    members = schema.get("properties") or {}
    listed = [f"{name}{'' if name in required else '?'}: {describe(member)}" for name, member in members.items()]
    return ", ".join(listed) or "no arguments"


def describe(schema: Any) -> str:
    if not isinstance(schema, Mapping):
        return "any"
    if isinstance(schema.get("enum"), list):
        return _choices(schema["enum"], "|")
    if "const" in schema:
        return _choice(schema["const"])
    for key in ("anyOf", "oneOf"):
        if isinstance(schema.get(key), list):
            return "|".join(dict.fromkeys(describe(branch) for branch in schema[key]))
    kind = schema.get("type")
    if isinstance(kind, list):
        return "|".join(str(k) for k in kind)
    if kind in ("integer", "number"):
        return f"{kind}{_range(schema)}"
    return str(kind) if kind else "object" if "$ref" in schema else "any"


def _range(schema: Mapping[str, Any]) -> str:
    low, high = schema.get("minimum"), schema.get("maximum")
    above, below = schema.get("exclusiveMinimum"), schema.get("exclusiveMaximum")
    if low is not None and high is not None:
        return f" {low}..{high}"
    parts = [
        f"{sign}{limit}"
        for sign, limit in ((">=", low), (">", above), ("<=", high), ("<", below))
        if limit is not None and not isinstance(limit, bool)  # a boolean is draft 4's, which moves the limit beside it
    ]
    return " and ".join(parts)


def _choices(options: list[Any], joint: str) -> str:
    shown = [_choice(option) for option in options[:_CHOICES]]
    return joint.join([*shown, "…"] if len(options) > _CHOICES else shown)


def _choice(option: object) -> str:
    return f"'{shorten(option)}'" if isinstance(option, str) else show(option)
