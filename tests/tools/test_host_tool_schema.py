"""A host's function becomes a tool: its schema from the signature, its values converted, its result as text."""

from __future__ import annotations

import asyncio
import enum
import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date
from typing import Annotated, Any, Literal, TypedDict

import msgspec
import pytest

from a3s_code.errors import CodeError
from a3s_code.ports.tool import ToolCapabilities, ToolContext, ToolFailure, ToolOutput
from a3s_code.tools.docstring import parse
from a3s_code.tools.schema import FunctionTool, as_tool, tool
from a3s_code.tools.validate import compile_schema

CTX: Any = object()


class Colour(enum.Enum):
    RED = "red"


@dataclass
class Point:
    x: int
    y: int = 0
    tags: list[str] = field(default_factory=list)


class Box(msgspec.Struct):
    at: Point
    label: str | None = None


class Options(TypedDict, total=False):
    deep: bool


def schema_of(fn: Callable[..., Any]) -> dict[str, Any]:
    return dict(as_tool(fn).parameters)


def run(fn: Any, **args: Any) -> Any:
    """Checks the arguments as the runtime does, then executes."""
    made = as_tool(fn)
    good, text = compile_schema(made.name, made.parameters).check(args)
    assert text is None
    assert good is not None
    result = made.execute(good, CTX)
    return asyncio.run(_awaited(result)) if inspect.isawaitable(result) else result


async def _awaited(result: Any) -> Any:
    return await result


def test_simple_annotations_become_the_schema() -> None:
    """Scalars, unions, literals, lists and defaults are said in the schema; what has no default is required."""

    def fetch(
        url: str,
        tries: int = 3,
        mode: Literal["a", "b"] = "a",
        tags: list[str] | None = None,
        w: float = 1.0,
        b: bool = True,
    ) -> str:
        return url

    assert schema_of(fetch) == {
        "type": "object",
        "additionalProperties": False,
        "required": ["url"],
        "properties": {
            "url": {"type": "string"},
            "tries": {"type": "integer", "default": 3},
            "mode": {"enum": ["a", "b"], "default": "a"},
            "tags": {"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}], "default": None},
            "w": {"type": "number", "default": 1.0},
            "b": {"type": "boolean", "default": True},
        },
    }


def test_descriptions_come_from_annotated_first_and_then_from_the_docstring() -> None:
    """The model reads what the author wrote, wherever it stands."""

    @tool
    def look(path: Annotated[str, "where"], depth: int = 1) -> str:
        """Looks somewhere.

        Args:
            path: overridden
            depth: how deep,
                at most nine
        """
        return path

    assert look.name == "look"
    assert look.description == "Looks somewhere."
    assert look.parameters["properties"] == {
        "path": {"type": "string", "description": "where"},
        "depth": {"type": "integer", "description": "how deep, at most nine", "default": 1},
    }


GOOGLE = """Does it.

    Args:
        a (int): first
        b: second

    Returns:
        c: no parameter
    """
NUMPY = """Does it.

    Parameters
    ----------
    a : int
        first
    b
        second

    Returns
    -------
    str
        text
    """
SPHINX = """Does it.

    :param int a: first
    :param b: second
    :returns: text
    """


@pytest.mark.parametrize("doc", [GOOGLE, NUMPY, SPHINX])
def test_three_docstring_styles_are_read(doc: str) -> None:
    """Google, NumPy and Sphinx sections give the same parameters and leave the same description."""
    assert parse(doc) == ("Does it.", {"a": "first", "b": "second"})


def test_a_docstring_without_sections_stays_whole() -> None:
    """Prose with colons is prose."""
    assert parse("Reads.\n\nNote the case: it counts.") == ("Reads.\n\nNote the case: it counts.", {})
    assert parse(None) == ("", {})


def test_structured_parameters_arrive_as_their_types() -> None:
    """A dataclass, a Struct, an Enum, a TypedDict and a tuple are built from the JSON before the call."""
    seen: list[Any] = []

    def draw(box: Box, colour: Colour, size: tuple[int, int], options: Options, at: Point | None = None) -> None:
        seen.extend([box, colour, size, options, at])

    assert run(draw, box={"at": {"x": 1.0}}, colour="red", size=[1, 2], options={"deep": True}, at={"x": 3}) == ""
    assert seen == [Box(Point(1)), Colour.RED, (1, 2), {"deep": True}, Point(3)]


def test_the_class_of_a_parameter_is_checked_like_everything_else() -> None:
    """A wrong member inside a dataclass is an invalid argument before the function is called."""

    def draw(at: Point) -> None: ...

    made = as_tool(draw)
    _, text = compile_schema("draw", made.parameters).check({"at": {"y": "1"}})
    assert text is not None
    assert "at.x: required argument is missing" in text
    assert 'at.y: "1" is not of type integer' in text


def test_a_value_only_the_type_can_judge_is_an_invalid_argument() -> None:
    """A malformed date passes the schema and must still be reported as the model's fault, not as ours."""

    def on(day: date) -> str:
        return day.isoformat()

    assert run(on, day="2024-02-29") == "2024-02-29"
    with pytest.raises(ToolFailure) as caught:
        as_tool(on).execute({"day": "yesterday"}, CTX)
    assert caught.value.kind == "invalid_argument"
    assert "day" in caught.value.message


def test_the_context_is_passed_and_not_shown() -> None:
    """A parameter called ctx, or annotated so, receives the context and is no argument."""

    def named(ctx: Any, a: int) -> bool:
        return ctx is CTX and a == 1

    def annotated(a: int, tc: ToolContext) -> bool:
        return tc is CTX

    for fn in (named, annotated):
        assert list(schema_of(fn)["properties"]) == ["a"]
        assert run(fn, a=1) == "true"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("x", "x"),
        (None, ""),
        ({"a": [1]}, '{"a":[1]}'),
        (Point(1), '{"x":1,"y":0,"tags":[]}'),
        (3, "3"),
        (True, "true"),
    ],
)
def test_results_become_text(value: Any, text: str) -> None:
    """Text stays, nothing is empty, any JSON value is encoded; async functions alike."""

    def plain() -> Any:
        return value

    async def later() -> Any:
        return value

    assert run(plain) == text
    assert run(later) == text


def test_a_tool_output_passes_untouched_and_a_foreign_value_is_named() -> None:
    """A function may say exit code and metadata itself; what is no JSON is an error naming the tool."""
    output = ToolOutput("no", exit_code=2)
    assert run(lambda_tool(output)) is output
    with pytest.raises(TypeError, match="give"):
        run(lambda_tool(object()))


def lambda_tool(value: Any) -> FunctionTool[[], Any]:
    @tool(name="give")
    def give() -> Any:
        return value

    return give


def test_plain_functions_stay_plain_so_that_they_run_in_a_thread() -> None:
    """A blocking function must not look like a coroutine function (H13), and an async one must."""

    def plain() -> None: ...

    async def later() -> None: ...

    assert not inspect.iscoroutinefunction(as_tool(plain).execute)
    assert inspect.iscoroutinefunction(as_tool(later).execute)


def test_a_plain_function_that_gives_an_awaitable_is_awaited() -> None:
    """A wrapper around a coroutine function works too."""

    async def later(a: int) -> int:
        return a + 1

    def wrapper(a: int) -> Any:
        return later(a)

    assert run(wrapper, a=1) == "2"


def test_keywords_of_the_decorator_are_kept() -> None:
    """What the author promises is what the runtime sees; without promises the worst is assumed."""

    @tool(name="n-1", description="D", read_only=True, idempotent=True, max_parallelism=4, timeout_ms=50)
    def fn(a: int) -> int:
        """Not this."""
        return a

    assert (fn.name, fn.description, fn.timeout_ms) == ("n-1", "D", 50)
    assert fn.capabilities({}) == ToolCapabilities(read_only=True, idempotent=True, max_parallelism=4)
    assert fn(3) == 3
    assert as_tool(fn) is fn
    assert tool(lambda_tool).capabilities({}) == ToolCapabilities()


def test_bound_methods_and_ready_tools_are_accepted() -> None:
    """A method's self is not an argument; an object that is a tool stays itself."""

    class Store:
        def get(self, key: str) -> str:
            return key.upper()

    class Ready:
        name = "ready"
        description = "R"
        parameters: dict[str, Any] = {"type": "object"}  # noqa: RUF012  as hosts write it

        def execute(self, args: Any, ctx: Any) -> str:
            return "r"

    assert run(Store().get, key="a") == "A"
    ready = Ready()
    assert as_tool(ready) is ready


def test_parameters_that_no_model_can_give_are_refused_by_name() -> None:
    """The error comes when the tool is made, and names the tool and the parameter."""

    def callback(then: Callable[[], None]) -> None: ...

    def star(*rest: int) -> None: ...

    def stars(**rest: int) -> None: ...

    def slash(a: int, /) -> None: ...

    def unknown(a: Nowhere) -> None: ...  # type: ignore[name-defined]  # noqa: F821  the fault under test

    def default(a: Any = CTX) -> None: ...

    def two(a: ToolContext, ctx: ToolContext) -> None: ...

    class Thing:
        def method(self, a: int) -> None: ...

    cases: list[tuple[Any, str]] = [(callback, "then"), (star, "rest"), (stars, "rest"), (slash, "a")]
    for fn, parameter in [*cases, (unknown, "a"), (default, "a"), (two, "ctx"), (Thing.method, "self")]:
        with pytest.raises(CodeError, match=f"'{fn.__name__}', parameter '{parameter}'") as caught:
            as_tool(fn)
        assert caught.value.code == "INVALID_REQUEST"


@pytest.mark.parametrize("name", ["", "a b", "x" * 65, "é", "a\n"])
def test_a_bad_name_is_refused(name: str) -> None:
    """Names are what every provider takes: 1 to 64 of letters, digits, underscore and dash."""
    with pytest.raises(CodeError, match="Tool name"):
        tool(name=name)(lambda_tool)


@pytest.mark.parametrize("thing", [3, "x", object(), dict, None])
def test_what_is_no_tool_is_refused(thing: object) -> None:
    """A wrong member of ``opts.tools`` must not surface in the middle of a run."""
    with pytest.raises(CodeError, match="is no tool"):
        as_tool(thing)


def test_an_object_with_execute_but_no_schema_is_refused() -> None:
    """What is missing is said."""

    class Half:
        name = "half"
        description = "H"

        def execute(self, args: Any, ctx: Any) -> str:
            return ""

    with pytest.raises(CodeError, match="parameters"):
        as_tool(Half())
