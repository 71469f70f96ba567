"""Arguments against a JSON Schema (tools.md §1.3). In: a tool's parameters, once; then arguments, at every call.
Out: the arguments with defaults filled in, or the text that the model is told.

One rule: nothing is coerced but a float without a fraction where an integer is meant; the caller's object is never
changed.
Known weakness: defaults are filled in along ``properties``, ``items``, local ``$ref`` and the one object branch of a
union; a default inside ``if``/``then`` or ``patternProperties`` is not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NoReturn

import msgspec

from a3s_code.core.content import JsonObject
from a3s_code.errors import CodeError
from a3s_code.tools.defaults import Filler
from a3s_code.tools.problems import expected, problem_lines

if TYPE_CHECKING:
    from jsonschema_rs import Validator

_encode = msgspec.json.Encoder().encode
_LISTED = 10
_DRAFTS = {
    "draft-04": "Draft4Validator",
    "draft-06": "Draft6Validator",
    "draft-07": "Draft7Validator",
    "2019-09": "Draft201909Validator",
}
_REFS = ("$ref", "$dynamicRef", "$recursiveRef")
_DATA = frozenset({"const", "enum", "default", "examples"})
_MAPS = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
_JSON_NAMES = {
    type(None): "null",
    bool: "a boolean",
    int: "a number",
    float: "a number",
    str: "a string",
    list: "an array",
}


class CompiledSchema:
    """The compiled check of one tool. ``required`` are the arguments that a call without any would lack."""

    __slots__ = ("_fill", "_validator", "name", "parameters", "required")

    def __init__(self, name: str, parameters: JsonObject, validator: Validator) -> None:
        self.name = name
        self.parameters = parameters
        required = parameters.get("required")
        self.required = frozenset(str(r) for r in required) if isinstance(required, list) else frozenset()
        self._validator = validator
        self._fill = Filler(parameters).fill

    def check(self, args: object) -> tuple[JsonObject | None, str | None]:
        """``(arguments with defaults, None)``, or ``(None, the text of §1.3)``. Never raises for bad arguments."""
        if not isinstance(args, dict):
            kind = _JSON_NAMES.get(type(args), type(args).__name__)
            return None, not_an_object(self.name, f"expected an object, got {kind}")
        try:
            _encode(args)  # what passes here can be written to the log
            if self._validator.is_valid(args):
                return self._fill(args), None
            lines = problem_lines(self.parameters, self._validator.iter_errors(args))
        except UnicodeEncodeError:
            lines = ["a string contains a lone surrogate, which is no valid Unicode text"]
        except RecursionError:
            lines = ["nested too deeply"]
        except (TypeError, ValueError) as error:  # what no JSON can hold: another key than text, bytes
            lines = [f"not a JSON value: {error}"]
        return None, self._text(lines)

    def _text(self, lines: list[str]) -> str:
        shown = [f"- {line}" for line in lines[:_LISTED]]
        return "\n".join(
            [f"Invalid arguments for tool '{self.name}':", *shown, f"Expected: {expected(self.parameters)}"]
        )


def not_an_object(name: str, reason: str) -> str:
    """What a call is told whose arguments are no JSON object (§1.3); it counts against ``max_parse_retries``."""
    return f"Arguments for tool '{name}' are not a JSON object: {reason}"


def compile_schema(name: str, parameters: JsonObject) -> CompiledSchema:
    """Compiles a tool's parameters at registration.

    Raises ``CodeError("INVALID_REQUEST")``, naming the tool and the fault, when they are no valid JSON Schema, their
    root is not of type ``object``, or they refer to anything outside themselves. ``$schema`` chooses the draft; an
    unknown one means 2020-12. Nothing is ever fetched.
    """
    if not isinstance(parameters, Mapping):
        raise _fault(name, f"expected a JSON Schema object, got {type(parameters).__name__}")
    if parameters.get("type") != "object":
        raise _fault(name, f'the root type must be "object", got {parameters.get("type")!r}')
    for path, ref in _references(parameters, ""):
        if not ref.startswith("#"):
            raise _fault(name, f"{path} refers outside the schema: {ref[:80]!r}")
    import jsonschema_rs

    draft = str(parameters.get("$schema", ""))
    found = next((cls for mark, cls in _DRAFTS.items() if mark in draft), "Draft202012Validator")
    try:
        validator = getattr(jsonschema_rs, found)(parameters, retriever=_refuse)
    except jsonschema_rs.ValidationError as error:
        where = "".join(f"[{part!r}]" for part in error.instance_path)
        raise _fault(name, f"schema{where}: {error.message[:200]}") from None
    except (ValueError, TypeError) as error:
        raise _fault(name, f"not a JSON Schema: {error}") from None
    return CompiledSchema(name, parameters, validator)


def _refuse(uri: str) -> NoReturn:
    raise ValueError(f"nothing is fetched, asked for {uri[:80]!r}")


def _fault(name: str, fault: str) -> CodeError:
    return CodeError(f"Tool '{name}' has unusable parameters: {fault}", "INVALID_REQUEST")


def _references(schema: Any, path: str) -> Iterator[tuple[str, str]]:
    """Every reference below ``schema``; a property or a datum that is only called ``$ref`` is none."""
    if isinstance(schema, list):
        for i, member in enumerate(schema):
            yield from _references(member, f"{path}/{i}")
    if not isinstance(schema, Mapping):
        return
    for key, value in schema.items():
        here = f"{path}/{key}"
        if key in _REFS and isinstance(value, str):
            yield here, value
        elif key in _MAPS and isinstance(value, Mapping):
            for inner, member in value.items():
                yield from _references(member, f"{here}/{inner}")
        elif key not in _DATA:
            yield from _references(value, here)
