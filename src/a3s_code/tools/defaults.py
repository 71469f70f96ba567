"""Defaults of a schema. In: a JSON Schema, once; then valid arguments. Out: the same with what was left out.

One rule: what needs no change is returned as it is; what does is copied, so a caller's object stays its own.
Known weakness: an ``anyOf`` with two object branches gets no nested defaults, as it isn't known which one was meant.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from a3s_code.core.content import JsonObject


class _Node:
    """What filling has to do at one place of the schema."""

    __slots__ = ("additional", "defaults", "integer", "items", "properties")

    def __init__(self) -> None:
        self.integer = False
        self.defaults: list[tuple[str, Any, bool]] = []
        self.properties: dict[str, _Node] = {}
        self.items: _Node | None = None
        self.additional: _Node | None = None

    def idle(self) -> bool:
        return not (self.integer or self.defaults or self.properties or self.items or self.additional)


class Filler:
    def __init__(self, schema: JsonObject) -> None:
        self._root = schema
        self._nodes: dict[int, _Node] = {}
        self._top = self._node(schema)

    def fill(self, args: JsonObject) -> JsonObject:
        """A new top-level object; nested values are shared unless something in them had to be added."""
        filled = _apply(self._top, args)
        return dict(args) if filled is args else filled

    def _node(self, schema: Any) -> _Node:
        known = self._nodes.get(id(schema))
        if known is None:
            known = self._nodes[id(schema)] = _Node()  # before its members, which may refer back to it
            self._read(known, schema)
        return known

    def _read(self, node: _Node, schema: Any) -> None:
        if not isinstance(schema, Mapping):
            return
        kind = schema.get("type")
        kinds = kind if isinstance(kind, list) else [kind]
        node.integer = node.integer or ("integer" in kinds and "number" not in kinds)
        for name, member in _mapping(schema.get("properties")).items():
            if isinstance(member, Mapping) and "default" in member:
                default = member["default"]
                node.defaults.append((name, default, isinstance(default, (dict, list))))
            node.properties[name] = self._node(member)
        if isinstance(schema.get("items"), Mapping):
            node.items = self._node(schema["items"])
        if isinstance(schema.get("additionalProperties"), Mapping):
            node.additional = self._node(schema["additionalProperties"])
        if isinstance(schema.get("$ref"), str):
            self._read(node, self._target(schema["$ref"]))
        for member in schema.get("allOf", ()):
            self._read(node, member)
        self._read_union(node, [*schema.get("anyOf", ()), *schema.get("oneOf", ())])

    def _read_union(self, node: _Node, branches: list[Any]) -> None:
        """A branch counts when it is the only one that its kind of value (object, array, number) can belong to."""
        resolved = [self._target(b["$ref"]) if isinstance(b, Mapping) and "$ref" in b else b for b in branches]
        for wanted in (("object",), ("array",), ("integer", "number")):
            fitting = [b for b in resolved if isinstance(b, Mapping) and b.get("type") in wanted]
            if len(fitting) == 1:
                self._read(node, fitting[0])

    def _target(self, ref: str) -> Any:
        place: Any = self._root
        for part in ref.removeprefix("#").split("/")[1:]:
            key = part.replace("~1", "/").replace("~0", "~")
            if not isinstance(place, Mapping) or key not in place:
                return None
            place = place[key]
        return place


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _apply(node: _Node, value: Any) -> Any:
    if type(value) is float:
        return int(value) if node.integer and value.is_integer() else value
    if isinstance(value, dict):
        return _apply_object(node, value)
    if isinstance(value, list) and node.items is not None and not node.items.idle():
        items = node.items
        filled = [_apply(items, member) for member in value]
        return filled if any(a is not b for a, b in zip(filled, value, strict=True)) else value
    return value


def _apply_object(node: _Node, value: dict[str, Any]) -> dict[str, Any]:
    result = value
    known, other = node.properties, node.additional
    for name, member in value.items():
        below = known.get(name, other)
        if below is not None and type(member) not in (str, int, bool):
            new = _apply(below, member)
            if new is not member:
                result = dict(value) if result is value else result
                result[name] = new
    for name, default, mutable in node.defaults:
        if name not in value:
            result = dict(value) if result is value else result
            result[name] = copy.deepcopy(default) if mutable else default
    return result
