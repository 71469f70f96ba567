"""How pieces of an answer become a turn (cases A01 to A20)."""

from __future__ import annotations

import pytest

from a3s_code.core.assemble import Assembler, CallProgress, parse_arguments
from a3s_code.core.content import Call, Reasoning, Usage
from a3s_code.core.delta import CallDelta, ModelDelta


def assemble(
    *deltas: ModelDelta | CallDelta, used: frozenset[str] = frozenset()
) -> tuple[Assembler, list[CallProgress]]:
    assembler = Assembler(lambda position: f"own-{position}", used)
    progress: list[CallProgress] = []
    for delta in deltas:
        progress += assembler.add(delta if isinstance(delta, ModelDelta) else ModelDelta(call=delta))
    return assembler, progress


def calls_of(*deltas: ModelDelta | CallDelta, used: frozenset[str] = frozenset()) -> tuple[Call, ...]:
    return assemble(*deltas, used=used)[0].turn().calls


def test_progress_tells_a_call_once_and_then_its_pieces() -> None:
    """A call is announced when its name is whole, and every piece of its arguments is passed on in order."""
    _, progress = assemble(
        CallDelta(0, "c1", "re"),
        CallDelta(0, "", "ad", ""),
        CallDelta(0, "", "", '{"a"'),
        CallDelta(0, "c1", "read", ":1}"),
        CallDelta(1, "c2", "ls"),
        ModelDelta(finish="tool_calls"),
    )
    assert progress == [
        CallProgress("c1", "read", begun=True),
        CallProgress("c1", "read", '{"a"'),
        CallProgress("c1", "read", ":1}"),
        CallProgress("c2", "ls", begun=True),
    ]


def test_missing_repeated_and_used_ids_are_replaced() -> None:
    """Every call has an id of its own, given by the caller for its position where the provider's won't do (A03)."""
    calls = calls_of(
        CallDelta(0, "", "a", "{}"),
        CallDelta(1, "x", "b", "{}"),
        CallDelta(2, "x", "c", "{}"),
        CallDelta(3, "old", "d", "{}"),
        used=frozenset({"old"}),
    )
    assert [(call.id, call.name) for call in calls] == [("own-0", "a"), ("x", "b"), ("own-2", "c"), ("own-3", "d")]


def test_an_id_that_comes_later_belongs_to_its_call() -> None:
    """The first id of an index names the call that began without one."""
    assert calls_of(CallDelta(0, "", "a"), CallDelta(0, "c1", "", "{}")) == (Call("c1", "a", {}),)


@pytest.mark.parametrize("index", [0, None])
def test_whole_calls_with_ids_of_their_own_are_so_many_calls(index: int | None) -> None:
    """Three chunks, one complete call each, distinct ids and no distinct index are three calls (A05)."""
    pieces = [CallDelta(index, f"c{i}", "t", f'{{"i":{i}}}') for i in range(3)]
    assert [call.args for call in calls_of(*pieces)] == [{"i": 0}, {"i": 1}, {"i": 2}]


def test_whole_calls_without_any_identity_are_so_many_calls() -> None:
    """Without id and index, a name after a finished object starts the next call, and before it goes on with it."""
    calls = calls_of(CallDelta(None, "", "t", '{"i":1}'), CallDelta(None, "", "t", '{"i":2}'))
    assert [call.args for call in calls] == [{"i": 1}, {"i": 2}]
    calls = calls_of(CallDelta(None, "", "t", '{"i"'), CallDelta(None, "", "t", ":2}"), CallDelta(None, "", "", " "))
    assert [call.args for call in calls] == [{"i": 2}]


def test_gaps_between_indexes_are_closed() -> None:
    """Indexes may start anywhere and leave gaps; an empty placeholder is no call (A07)."""
    calls = calls_of(
        CallDelta(1, "a", "x", "{}"), CallDelta(2), CallDelta(4, "b", "y", "{}"), CallDelta(1, "", "", " ")
    )
    assert [call.id for call in calls] == ["a", "b"]


def test_pieces_without_an_index_go_on_with_the_call_before() -> None:
    """Only the first piece of a call names its index."""
    calls = calls_of(CallDelta(0, "a", "x", '{"p"'), CallDelta(None, "", "", ":1}"), CallDelta(1, "b", "y"))
    assert calls == (Call("a", "x", {"p": 1}), Call("b", "y", {}))


def test_an_object_counts_as_arguments_once() -> None:
    """Arguments sent as an object are taken, also when every chunk repeats them."""
    assert calls_of(CallDelta(0, "a", "x", {"p": 1}), CallDelta(0, "a", "x", {"p": 1})) == (Call("a", "x", {"p": 1}),)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ('{"path": "a', "the arguments are no valid JSON: Unterminated string starting at: line 1 column 10 (char 9)"),
        ('{"a":1}{"a":1}', "the arguments are no valid JSON: Extra data: line 1 column 8 (char 7)"),
        ('{"a":"x\ny"}', "the arguments are no valid JSON: Invalid control character at: line 1 column 8 (char 7)"),
        ('{"a":"\0"}', "the arguments are no valid JSON: Invalid control character at: line 1 column 7 (char 6)"),
        ("[1]", "the arguments are an array, not a JSON object"),
        ("null", "the arguments are null, not a JSON object"),
        ('"{}"', "the arguments are a string, not a JSON object"),
        ("1.5", "the arguments are a number, not a JSON object"),
    ],
)
def test_malformed_arguments_are_kept_with_their_fault(text: str, fault: str) -> None:
    """What is no JSON object stays as it came, with the exact fault, beside whole siblings (A15, A20)."""
    broken, whole = calls_of(CallDelta(0, "a", "x", text), CallDelta(1, "b", "y", '{"p":1}'))
    assert broken == Call("a", "x", {}, raw=text, fault=fault)
    assert whole == Call("b", "y", {"p": 1})


@pytest.mark.parametrize("text", ['{"a":NaN}', '{"a":"\\ud83d"}', "[" * 100_000, '{"a":' * 100_000, '{"a":"\ud83d"}'])
def test_arguments_that_only_some_parsers_take_have_a_fault(text: str) -> None:
    """What can't be stored and sent again is refused with a reason, not raised."""
    args, fault = parse_arguments(text)
    assert args == {}
    assert fault is not None
    assert fault.startswith("the arguments are no valid JSON: ")
    calls = calls_of(CallDelta(0, "a", "x", text))
    assert calls[0].raw is not None
    calls[0].raw.encode()


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("9" * 5000, "the arguments are no valid JSON: a number has too many digits"),
        ('{"a":' + "9" * 5000 + "}", "the arguments are no valid JSON: a number has too many digits"),
        ('{"a":' + "[" * 100 + "]" * 100 + "}", "the arguments are nested more than 100 deep"),
        ('{"a":' + "[" * 99 + "]" * 99 + "}", None),
        ('{"a":"' + "[" * 5000 + '\\""}', None),
    ],
)
def test_arguments_that_are_too_much_have_a_fault(text: str, fault: str | None) -> None:
    """Numbers without end and nesting without end get one error result, like other JSON that can't be used (A15)."""
    args, found = parse_arguments(text)
    assert found == fault
    assert (args == {}) is (fault is not None)


@pytest.mark.parametrize("text", ["", "  \n"])
def test_no_arguments_are_an_empty_object(text: str) -> None:
    """A tool without parameters may be called with nothing at all."""
    assert calls_of(CallDelta(0, "a", "x", text), ModelDelta(finish="tool_calls")) == (Call("a", "x", {}),)


def test_a_call_cut_by_the_output_limit_does_not_run() -> None:
    """A last call whose arguments never began before the limit is not taken for one without parameters."""
    first, last = calls_of(CallDelta(0, "a", "x"), CallDelta(1, "b", "y"), ModelDelta(finish="length"))
    assert first == Call("a", "x", {})
    assert last.fault == "the answer reached its output limit before this call's arguments"


def test_a_call_without_a_name_has_a_fault() -> None:
    """Arguments for no tool are told to the model."""
    (call,) = calls_of(CallDelta(0, "a", "", '{"p":1}'))
    assert (call.name, call.raw, call.fault) == ("", '{"p":1}', "the call names no tool")


def test_reasoning_is_split_into_its_blocks() -> None:
    """Signatures close blocks, sealed blocks stand alone, and a signature without text is kept too."""
    turn = assemble(
        ModelDelta(reasoning="a"),
        ModelDelta(reasoning="b"),
        ModelDelta(signature="s1"),
        ModelDelta(redacted="r"),
        ModelDelta(signature="s2"),
        ModelDelta(reasoning="c", text="t"),
    )[0].turn()
    assert turn.reasoning == (Reasoning("ab", "s1"), Reasoning(redacted="r"), Reasoning(signature="s2"), Reasoning("c"))
    assert turn.text == "t"


def test_usage_is_the_last_one_told_or_marked_as_estimated() -> None:
    """Cumulative usage isn't added up; usage that never came stays zero and is marked as estimated."""
    told = assemble(ModelDelta(usage=Usage(1, 1, 2)), ModelDelta(usage=Usage(1, 5, 6)))[0].turn()
    assert told.usage == Usage(1, 5, 6)
    guessed = assemble(ModelDelta(text="x" * 9, reasoning="y" * 3), CallDelta(0, "a", "name", '{"p":1}'))[0]
    assert guessed.turn().usage == Usage(estimated=True)
