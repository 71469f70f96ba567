"""A function's parameters as a JSON Schema. In: a function. Out: the schema, and how to call it with JSON arguments.

One rule: what can't be expressed is refused when the tool is made, by an error that names the parameter.
Known weakness: a class parameter becomes a ``$ref`` into ``$defs``; one that two modules give the same name is refused.
"""

from __future__ import annotations

import builtins
import inspect
import typing
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Annotated, Any, get_args, get_origin

import msgspec

from a3s_code.core.content import JsonObject
from a3s_code.errors import CodeError
from a3s_code.ports.tool import ToolContext, ToolFailure


class Signature(msgspec.Struct, frozen=True):
    """``types`` are the parameters that a model gives; ``context`` is the one that receives the ToolContext."""

    parameters: JsonObject
    types: dict[str, Any]
    context: str | None

    def bind(self, args: Mapping[str, Any], ctx: ToolContext) -> dict[str, Any]:
        """Keyword arguments: checked JSON values as the types the function declares."""
        bound: dict[str, Any] = {}
        for name, value in args.items():
            try:
                bound[name] = msgspec.convert(value, self.types[name])
            except msgspec.ValidationError as error:  # what a schema doesn't say, such as the form of a date
                raise ToolFailure("invalid_argument", f"Invalid arguments:\n- {name}: {error}") from None
        if self.context is not None:
            bound[self.context] = ctx
        return bound


def read_signature(name: str, fn: Callable[..., Any], described: Mapping[str, str]) -> Signature:
    """``described`` are parameter descriptions from the docstring; one in ``Annotated`` wins over them."""
    types: dict[str, Any] = {}
    texts: dict[str, str] = dict(described)
    defaults: dict[str, Any] = {}
    context: str | None = None
    for parameter in inspect.signature(fn).parameters.values():
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise _refused(
                name, parameter.name, "a model gives arguments by name: no *args, **kwargs or positional-only"
            )
        if _is_context(parameter):
            if context is not None:
                raise _refused(name, parameter.name, "only one parameter can receive the ToolContext")
            context = parameter.name
            continue
        if parameter.name == "self" and parameter.annotation is parameter.empty:
            raise _refused(name, "self", "make a tool of the bound method: as_tool(thing.method)")
        kind, text = _resolve(name, fn, parameter)
        types[parameter.name] = kind
        texts.update({parameter.name: text} if text else {})
        if parameter.default is not parameter.empty:
            defaults[parameter.name] = parameter.default
    return Signature(_schema(name, types, texts, defaults), types, context)


def _is_context(parameter: inspect.Parameter) -> bool:
    kind = parameter.annotation
    if isinstance(kind, str):  # may name a class that is imported for type checkers only
        return parameter.name == "ctx" or kind.strip("'\" ").split(".")[-1] == "ToolContext"
    return kind is ToolContext or parameter.name == "ctx"


def _resolve(tool: str, fn: Callable[..., Any], parameter: inspect.Parameter) -> tuple[Any, str]:
    """The type, and the description string of an ``Annotated``."""
    kind = parameter.annotation
    if kind is parameter.empty or kind is object:
        return Any, ""
    if isinstance(kind, str):
        plain = inspect.unwrap(fn)
        plain = getattr(plain, "__func__", plain)
        local = inspect.getclosurevars(plain).nonlocals if inspect.isfunction(plain) else {}
        space = {**vars(builtins), **getattr(plain, "__globals__", {})}
        holder: Any = SimpleNamespace(__annotations__={"it": kind})
        try:
            kind = typing.get_type_hints(holder, space, dict(local), include_extras=True)["it"]
        except (NameError, SyntaxError, TypeError, AttributeError) as error:
            raise _refused(tool, parameter.name, f"the annotation {kind!r} can't be resolved: {error}") from None
    if get_origin(kind) is not Annotated:
        return kind, ""
    text = next((extra for extra in get_args(kind)[1:] if isinstance(extra, str)), "")
    return kind, text


def _schema(tool: str, types: dict[str, Any], texts: Mapping[str, str], defaults: dict[str, Any]) -> JsonObject:
    members: dict[str, Any] = {}
    definitions: dict[str, Any] = {}
    for name, kind in types.items():
        try:
            (member,), needed = msgspec.json.schema_components([kind], ref_template="#/$defs/{name}")
            msgspec.json.Decoder(kind)
        except (TypeError, ValueError, NameError) as error:
            reason = str(error).rsplit("\n", 1)[-1]
            raise _refused(tool, name, f"a model can't give a value of this type: {reason}") from None
        for key, definition in needed.items():
            if definitions.setdefault(key, definition) != definition:
                raise _refused(tool, name, f"two different types are called {key!r}")
        if name in texts and "description" not in member:
            member["description"] = texts[name]
        if name in defaults:
            _add_default(tool, name, member, defaults[name])
        members[name] = member
    schema: dict[str, Any] = {"type": "object", "properties": members, "additionalProperties": False}
    required = [name for name in types if name not in defaults]
    schema.update({"required": required} if required else {})
    schema.update({"$defs": definitions} if definitions else {})
    return schema


def _add_default(tool: str, name: str, member: dict[str, Any], default: Any) -> None:
    try:
        member["default"] = msgspec.to_builtins(default, str_keys=True)
    except (TypeError, ValueError, RecursionError) as error:
        raise _refused(tool, name, f"its default is no JSON value: {error}") from None


def _refused(tool: str, parameter: str, reason: str) -> CodeError:
    return CodeError(f"Tool '{tool}', parameter '{parameter}': {reason}", "INVALID_REQUEST")
