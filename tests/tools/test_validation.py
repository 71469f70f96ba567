"""Arguments are judged before anything happens, and the model is told exactly what to mend (tools.md §1.3, A15)."""

from __future__ import annotations

import timeit
from typing import Any

import pytest

from a3s_code.core.content import JsonObject
from a3s_code.errors import CodeError
from a3s_code.tools.validate import compile_schema, not_an_object

READ: JsonObject = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "file_path": {"type": "string"},
        "offset": {"type": "integer", "minimum": 0, "default": 0},
        "limit": {"type": "integer", "minimum": 1, "maximum": 10000, "default": 2000},
        "files": {
            "type": "array",
            "maxItems": 2,
            "items": {
                "type": "object",
                "required": ["path"],
                "additionalProperties": False,
                "properties": {"path": {"type": "string"}, "offset": {"type": "integer", "default": 0}},
            },
        },
        "max_output_bytes": {"type": "integer"},
    },
}


def said(schema: JsonObject, args: object) -> list[str]:
    """The problem lines of an invalid call, without their dash."""
    good, text = compile_schema("t", schema).check(args)
    assert good is None
    assert text is not None
    return [line[2:] for line in text.split("\n") if line.startswith("- ")]


def one(member: JsonObject, value: object) -> list[str]:
    return said({"type": "object", "properties": {"x": member}}, {"x": value})


def test_text_of_an_invalid_call_is_the_specified_one() -> None:
    """The whole text must be that of the chapter: head, problems, what was expected."""
    _, text = compile_schema("read", READ).check({"limit": -1, "fil_path": "x"})
    assert text == (
        "Invalid arguments for tool 'read':\n"
        "- limit: -1 is less than the minimum of 1\n"
        "- fil_path: unknown argument (did you mean 'file_path'?)\n"
        "Expected: file_path?: string, offset?: integer>=0, limit?: integer 1..10000, files?: array, "
        "max_output_bytes?: integer"
    )


def test_defaults_are_filled_in_at_the_top_and_below_and_the_callers_object_stays() -> None:
    """A valid call gets every default, also in array members, and its own objects unchanged."""
    args = {"files": [{"path": "a"}, {"path": "b", "offset": 7}]}
    good, text = compile_schema("read", READ).check(args)
    assert text is None
    assert good == {
        "files": [{"path": "a", "offset": 0}, {"path": "b", "offset": 7}],
        "offset": 0,
        "limit": 2000,
    }
    assert args == {"files": [{"path": "a"}, {"path": "b", "offset": 7}]}


def test_a_mutable_default_is_not_shared_between_calls() -> None:
    """A tool that changes a list it got by default must not change the next call's."""
    check = compile_schema("t", {"type": "object", "properties": {"x": {"type": "array", "default": []}}}).check
    first, _ = check({})
    assert first is not None
    assert isinstance(first["x"], list)
    first["x"].append(1)
    assert check({}) == ({"x": []}, None)


def test_defaults_reach_through_a_local_reference_and_an_optional_object() -> None:
    """``#/$defs`` and ``anyOf [object, null]`` are what typed signatures produce; their defaults count too."""
    schema: JsonObject = {
        "type": "object",
        "properties": {"at": {"anyOf": [{"$ref": "#/$defs/P"}, {"type": "null"}]}},
        "$defs": {"P": {"type": "object", "properties": {"x": {"type": "integer"}, "y": {"default": 2}}}},
    }
    check = compile_schema("t", schema).check
    assert check({"at": {"x": 1.0}}) == ({"at": {"x": 1, "y": 2}}, None)
    assert check({"at": None}) == ({"at": None}, None)


def test_a_schema_that_refers_to_itself_compiles_and_fills() -> None:
    """A tree type is a legal schema and must not send compiling round in circles."""
    schema: JsonObject = {
        "type": "object",
        "properties": {"n": {"type": "integer", "default": 1}, "next": {"$ref": "#"}},
    }
    assert compile_schema("t", schema).check({"next": {"next": {}}}) == (
        {"n": 1, "next": {"n": 1, "next": {"n": 1}}},
        None,
    )


@pytest.mark.parametrize(("given", "wanted"), [(3.0, 3), (-0.0, 0), (1e3, 1000), (2**70, 2**70)])
def test_a_float_without_fraction_is_given_as_an_integer(given: float, wanted: int) -> None:
    """The one coercion there is; the tool gets an ``int``."""
    good, text = compile_schema("t", {"type": "object", "properties": {"x": {"type": "integer"}}}).check({"x": given})
    assert text is None
    assert good is not None
    assert good["x"] == wanted
    assert type(good["x"]) is int


def test_a_float_stays_one_where_numbers_are_meant() -> None:
    """Where the schema says number, 3.0 is left alone."""
    good, _ = compile_schema("t", {"type": "object", "properties": {"x": {"type": "number"}}}).check({"x": 3.0})
    assert good is not None
    assert type(good["x"]) is float


@pytest.mark.parametrize(
    ("member", "value", "line"),
    [
        ({"type": "integer"}, True, "x: true is not of type integer"),
        ({"type": "integer"}, "3", 'x: "3" is not of type integer'),
        ({"type": "integer"}, 2.5, "x: 2.5 is not of type integer"),
        ({"type": "string"}, None, "x: null is not of type string"),
        ({"type": ["string", "null"]}, 1, "x: 1 is not of type null or string"),
        ({"enum": ["grep", "glob"]}, "gerp", "x: \"gerp\" is not one of 'grep', 'glob' (did you mean 'grep'?)"),
        ({"const": 3}, 4, "x: 4 is not 3"),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, 3, "x: 3 does not fit string|null"),
        ({"type": "string", "minLength": 1}, "", 'x: "" has 0 characters, at least 1 needed'),
        ({"type": "string", "maxLength": 2}, "abc", 'x: "abc" has 3 characters, at most 2 allowed'),
        ({"type": "string", "pattern": "^a{1,2}$"}, "b", 'x: "b" does not match the pattern ^a{1,2}$'),
        ({"maximum": 5}, 6, "x: 6 is greater than the maximum of 5"),
        ({"exclusiveMinimum": 0}, 0, "x: 0 must be greater than 0"),
        ({"multipleOf": 2}, 3, "x: 3 is not a multiple of 2"),
        ({"type": "array", "minItems": 1}, [], "x: has 0 items, at least 1 needed"),
        ({"uniqueItems": True}, [1, 1], "x: has items that are the same"),
        (False, 1, "x: is not allowed here"),
    ],
)
def test_each_fault_is_named_with_its_value_and_limit(member: Any, value: object, line: str) -> None:
    """A line must hold all that is needed to mend the call."""
    assert one(member, value) == [line]


def test_faults_inside_arrays_and_objects_carry_their_path() -> None:
    """A nested fault is found by its path, and unknown members get a near name there too."""
    assert said(READ, {"files": [{"path": "a"}, {"pth": 1}]}) == [
        "files[1].pth: unknown argument (did you mean 'path'?)",
        "files[1].path: required argument is missing",
    ]


def test_missing_comes_first_then_wrong_then_unknown() -> None:
    """The order of the problems does not depend on the order of the arguments."""
    schema: JsonObject = {
        "type": "object",
        "required": ["a"],
        "additionalProperties": False,
        "properties": {"a": {}, "b": {"type": "string"}, "c": {"type": "string"}},
    }
    lines = said(schema, {"zz": 1, "c": 1, "b": 1})
    assert [line.split(":")[0] for line in lines] == ["a", "b", "c", "zz"]


def test_at_most_ten_problems_and_short_values() -> None:
    """A call with forty faults and huge values must not fill the context."""
    members: JsonObject = {f"p{i}": {"type": "integer"} for i in range(40)}
    lines = said({"type": "object", "properties": members}, dict.fromkeys(members, "v" * 100_000))
    assert len(lines) == 10
    assert lines[0] == f'p0: "{"v" * 78}… is not of type integer'


@pytest.mark.parametrize(
    ("args", "reason"),
    [
        ([1], "expected an object, got an array"),
        (None, "expected an object, got null"),
        ("", "expected an object, got a string"),
        (7, "expected an object, got a number"),
    ],
)
def test_what_is_no_object_is_said_so(args: object, reason: str) -> None:
    """Arrays, null and text are no arguments (A15); the text names the tool and what came."""
    assert compile_schema("read", READ).check(args) == (None, not_an_object("read", reason))
    assert not_an_object("read", reason) == f"Arguments for tool 'read' are not a JSON object: {reason}"


def test_values_that_no_json_holds_are_problems_and_not_exceptions() -> None:
    """Lone surrogates, foreign keys and endless nesting come from hooks and hosts, and must not break the run."""
    deep: dict[str, Any] = {}
    for _ in range(5000):
        deep = {"x": deep}
    assert one({"type": "string"}, "\ud800") == ["a string contains a lone surrogate, which is no valid Unicode text"]
    assert "Dict key must be str" in said({"type": "object"}, {1: 2})[0]
    assert len(said({"type": "object", "properties": {"x": {"$ref": "#"}}}, deep)) == 1


@pytest.mark.parametrize(
    ("schema", "word"),
    [
        ({"type": "objct"}, "root type"),
        ({"properties": {}}, "root type"),
        ({"type": "object", "properties": 3}, "properties"),
        ({"type": "object", "properties": {"a": {"pattern": "("}}}, "pattern"),
        ({"type": "object", "properties": {"a": {"$ref": "https://example.com/x"}}}, "/properties/a/$ref"),
        ({"type": "object", "allOf": [{"$ref": "other.json#/a"}]}, "other.json"),
        ({"type": "object", "properties": {"a": {"$ref": "#/$defs/none"}}}, "$defs/none"),
        ([], "list"),
    ],
)
def test_bad_parameters_are_refused_at_registration(schema: Any, word: str) -> None:
    """A tool with a broken schema must never be offered; the error names the tool and the fault."""
    with pytest.raises(CodeError) as caught:
        compile_schema("my_tool", schema)
    assert caught.value.code == "INVALID_REQUEST"
    assert "my_tool" in str(caught.value)
    assert word in str(caught.value)


def test_properties_and_data_called_ref_are_no_references() -> None:
    """An argument may be called ``$ref``, and an enum may hold such an object."""
    schema: JsonObject = {
        "type": "object",
        "properties": {"$ref": {"type": "string"}, "x": {"enum": [{"$ref": "http://example.com"}]}},
    }
    args: JsonObject = {"$ref": "a", "x": {"$ref": "http://example.com"}}
    assert compile_schema("t", schema).check(args) == (args, None)


def test_an_older_draft_is_honoured() -> None:
    """Servers announce draft 7, where a list of ``items`` means a tuple."""
    schema: JsonObject = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "properties": {"x": {"items": [{"type": "string"}]}},
    }
    assert compile_schema("t", schema).check({"x": ["a"]}) == ({"x": ["a"]}, None)
    assert one({"items": False}, [1])


def test_required_arguments_are_known_without_checking() -> None:
    """Empty argument text stands for ``{}`` only when nothing is required (A15)."""
    assert compile_schema("a", {"type": "object", "required": ["x"]}).required == {"x"}
    assert compile_schema("b", {"type": "object"}).required == frozenset()


def test_a_valid_call_costs_microseconds() -> None:
    """Checking happens at every call, several times; ten microseconds is the most it may cost."""
    check = compile_schema("read", READ).check
    args = {"file_path": "src/a.py", "offset": 10, "limit": 200}
    assert min(timeit.repeat(lambda: check(args), number=1000, repeat=5)) < 0.010
