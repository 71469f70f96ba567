"""Facts as lines: what is written is read back, what was changed is found, what is newer is kept or refused."""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from a3s_code.core.codec import (
    DamagedLine,
    Header,
    decode_header,
    decode_line,
    encode,
    encode_header,
    same_session,
    thread_name,
    verify,
)
from a3s_code.core.content import Call, Usage
from a3s_code.core.facts import KINDS, Fact, ModelTurn, ToolResulted, UnknownData, UserSaid
from a3s_code.core.facts.runs import RunClosed
from a3s_code.errors import StoreError

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
json = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**80), 2**80) | st.floats(allow_nan=False, allow_infinity=False) | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=6,
)
objects = st.dictionaries(text, json, max_size=3)


def values(type_: msgspec.inspect.Type) -> st.SearchStrategy[Any]:
    """Everything that a member of this type may hold."""
    match type_:
        case msgspec.inspect.StructType(cls=cls, fields=fields):
            return st.builds(cls, **{field.name: values(field.type) for field in fields})
        case msgspec.inspect.VarTupleType(item_type=item):
            return st.lists(values(item), max_size=2).map(tuple)
        case msgspec.inspect.DictType(value_type=msgspec.inspect.StrType()):
            return st.dictionaries(text, text, max_size=3)
        case msgspec.inspect.DictType():
            return objects
        case msgspec.inspect.UnionType(types=types):
            return st.one_of([values(each) for each in types])
        case msgspec.inspect.LiteralType(values=choices):
            return st.sampled_from(choices)
        case msgspec.inspect.StrType():
            return text
        case msgspec.inspect.BoolType():
            return st.booleans()
        case msgspec.inspect.IntType():
            return st.integers(0, 2**63)
        case msgspec.inspect.NoneType():
            return st.none()
        case _:
            raise AssertionError(f"no strategy for {type_}")


def facts_of(kind: str) -> st.SearchStrategy[Fact]:
    data = values(msgspec.inspect.type_info(KINDS[kind]))
    return st.builds(Fact, st.integers(1, 2**53), text, st.integers(0, 2**53), text, st.just(kind), data)


anything = st.one_of([facts_of(kind) for kind in KINDS])


@pytest.mark.parametrize("kind", KINDS)
def test_a_fact_of_every_kind_is_read_back_as_it_was_written(kind: str) -> None:
    """Whatever a fact of any kind holds, its line gives an equal fact, fits its sum and is one line."""

    @given(facts_of(kind), st.sampled_from(["", "0123456789abcdef" * 2]))
    def holds(fact: Fact, before: str) -> None:
        raw, digest = encode(fact, before)
        line = decode_line(raw)
        assert line.fact == fact
        assert line.sum == digest
        assert verify(line, before)
        assert raw == line.raw + b"\n"
        assert raw.count(b"\n") == 1

    holds()


def chain(facts: list[Fact]) -> list[bytes]:
    lines, digest = [], ""
    for fact in facts:
        raw, digest = encode(fact, digest)
        lines.append(raw)
    return lines


def whole(lines: list[bytes]) -> bool:
    """Whether every line is a fact that follows the one before it."""
    before = ""
    for seq, raw in enumerate(lines, 1):
        try:
            line = decode_line(raw)
        except DamagedLine:
            return False
        if line.fact.seq != seq or not verify(line, before):
            return False
        before = line.sum
    return True


@given(st.lists(anything, min_size=2, max_size=5), st.data())
def test_an_edited_dropped_or_moved_line_is_found(facts: list[Fact], data: st.DataObject) -> None:
    """No change of a byte, no line left out before the end and no two lines swapped goes unnoticed."""
    lines = chain([msgspec.structs.replace(fact, seq=n) for n, fact in enumerate(facts, 1)])
    assert whole(lines)
    at = data.draw(st.integers(0, len(lines) - 2), "line")
    assert not whole(lines[:at] + lines[at + 1 :])
    assert not whole([*lines[:at], lines[at + 1], lines[at], *lines[at + 2 :]])
    spot = data.draw(st.integers(0, len(lines[at]) - 2), "byte")
    other = data.draw(st.integers(0, 255).filter(lambda byte: byte != lines[at][spot]), "value")
    edited = lines[at][:spot] + bytes([other]) + lines[at][spot + 1 :]
    assert not whole([*lines[:at], edited, *lines[at + 1 :]])


def test_the_line_has_the_specified_shape() -> None:
    """The members come in the specified order, the sum last, and the sum is BLAKE2b-128 of what comes before it."""
    raw, digest = encode(Fact(1, "i-1", 5, "r-1", "user.message", UserSaid("hi", "prompt")), "")
    start = b'{"seq":1,"id":"i-1","ts":5,"run":"r-1","kind":"user.message","data":{"text":"hi","source":"prompt"}'
    assert raw == start + b',"sum":"%b"}\n' % digest.encode()
    assert digest == hashlib.blake2b(start, digest_size=16).hexdigest()
    raw, following = encode(Fact(2, "i-2", 5, "r-1", "user.message", UserSaid("ho", "prompt")), digest)
    assert following == hashlib.blake2b(digest.encode() + raw[:-43], digest_size=16).hexdigest()


def test_a_kind_of_a_newer_version_is_kept_as_it_came() -> None:
    """An unknown kind keeps the bytes of its data, and writing it again gives the same line."""
    data = msgspec.Raw(b'{"a" : [1, 2.50] , "b":null}')
    raw, digest = encode(Fact(1, "i", 5, "r", "mood.changed", UnknownData(data)), "")
    fact = decode_line(raw).fact
    assert isinstance(fact.data, UnknownData)
    assert bytes(fact.data.raw) == bytes(data)
    assert encode(fact, "") == (raw, digest)


def test_members_of_a_newer_version_are_ignored_and_sealed() -> None:
    """C20: unknown members, of the line or of its data, don't hinder reading, and are part of the sum."""
    body = (
        b'{"seq":1,"id":"i","ts":5,"run":"r","kind":"user.message","who":"x",'
        b'"data":{"text":"hi","source":"prompt","mood":7}'
    )
    digest = hashlib.blake2b(body, digest_size=16).hexdigest()
    line = decode_line(body + b',"sum":"%b"}' % digest.encode())
    assert line.fact.data == UserSaid("hi", "prompt")
    assert verify(line, "")
    assert not verify(msgspec.structs.replace(line, raw=line.raw.replace(b'"mood":7', b'"mood":8')), "")


@pytest.mark.parametrize(
    ("line", "what", "is_json"),
    [
        (b'{"type":"msg","te', "not valid JSON", False),
        (b"", "not valid JSON", False),
        (b"\0\0\0\0", "not valid JSON", False),
        (b'{"seq":1,"id":"\xff","ts":5,"run":"r","kind":"user.message","data":{},"sum":""}', "not valid JSON", False),
        (b"[]", "not a fact", True),
        (b'{"type":"msg"}', "missing required field `seq`", True),
        (
            b'{"seq":1,"id":"i","ts":5,"run":"r","kind":"user.message","data":{"text":1},"sum":""}',
            "Expected `str`",
            True,
        ),
        (
            b'{"seq":1,"id":"i","ts":5,"run":"r","kind":"run.closed","data":{"status":"odd","steps":1},"sum":""}',
            "Invalid enum value 'odd'",
            True,
        ),
        (b'{"sum":"","seq":1,"id":"i","ts":5,"run":"r","kind":"x","data":{}}', "not the last member", True),
        (b'{"seq":1,"id":"i","ts":5,"run":"r","kind":"x","data":{},"sum":""}\r', "not the last member", True),
        (
            b'{"seq":1,"id":"i","ts":5,"run":"r","kind":"x","data":' + b"[" * 5000 + b"]" * 5000 + b',"sum":""}',
            "nest",
            True,
        ),
    ],
)
def test_a_damaged_line_says_what_is_wrong(line: bytes, what: str, is_json: bool) -> None:
    """C19: only plain data of known types is read; anything else is named, and a cut line told from an edited one."""
    with pytest.raises(DamagedLine, match=what) as caught:
        decode_line(line)
    assert caught.value.is_json is is_json


@given(st.text(max_size=20))
def test_text_that_is_no_unicode_is_stored_as_replacement_characters(said: str) -> None:
    """C19: lone surrogates become U+FFFD wherever they stand: no run ends over them and the line is valid UTF-8."""
    call = Call("c\ud800", "read", {said + "\udfff": [said + "\ud83d"]})
    for data in (UserSaid(said + "\udc80", "prompt"), ModelTurn(said, "model", (call,), usage=Usage(1))):
        kind = "user.message" if isinstance(data, UserSaid) else "model.turn"
        raw, _ = encode(Fact(1, "i", 5, "r\ud800", kind, data), "")
        assert "\ufffd" in raw.decode("utf-8", "strict")
        line = decode_line(raw)
        assert verify(line, "")
        assert line.fact.run == "r\ufffd"


def test_halves_of_a_character_are_joined() -> None:
    """A surrogate pair in Python text is the character it stands for."""
    raw, _ = encode(Fact(1, "i", 5, "r", "user.message", UserSaid("\ud83d\ude00\ud800", "prompt")), "")
    assert decode_line(raw).fact.data == UserSaid("\U0001f600\ufffd", "prompt")


NO_JSON: Any = object()


def deep() -> Any:
    value: Any = 1
    for _ in range(5000):
        value = [value]
    return value


@pytest.mark.parametrize(
    "fact",
    [
        Fact(1, "i", 5, "r", "tool.result", ToolResulted("c", "t", "", 0, "ok", {"at": NO_JSON})),
        Fact(1, "i", 5, "r", "tool.result", ToolResulted("c", "t", "", 0, "ok", {"at": deep()})),
        Fact(1, "i", 5, "r", "user.message", RunClosed("failed", 1)),
        Fact(1, "i", 5, "r", "new.kind", UserSaid("hi", "prompt")),
    ],
    ids=["no JSON", "too deep", "another kind's data", "known data under an unknown kind"],
)
def test_what_can_not_be_read_back_is_refused(fact: Fact) -> None:
    """A fact that no reader could use is an error that names it, before anything is written."""
    with pytest.raises(StoreError, match="fact 1 ") as caught:
        encode(fact, "")
    assert caught.value.code == "SERIALIZATION_ERROR"


def test_a_header_is_read_back_with_what_a_newer_version_added() -> None:
    """C20: unknown members of the header survive being read and written."""
    header = Header("s1", "s1", 5, 1, {"region": "eu", "tags": [1]})
    raw = encode_header(header)
    assert (
        raw == b'{"a3s_fact_log":1,"thread":"s1","session_id":"s1","created_ms":5,"logic":1,"region":"eu","tags":[1]}\n'
    )
    assert decode_header(raw) == header
    assert decode_header(b'{"a3s_fact_log":1,"thread":"s1","session_id":"s1","created_ms":5}').logic == 1


@pytest.mark.parametrize("newer", [b'"a3s_fact_log":2,"logic":1', b'"a3s_fact_log":1,"logic":2', b'"a3s_fact_log":2'])
def test_a_header_of_a_newer_format_is_refused(newer: bytes) -> None:
    """C20: a version or logic above ours is a clear refusal, not a guess."""
    with pytest.raises(StoreError, match="use a newer a3s_code") as caught:
        decode_header(b"{" + newer + b',"anything":"else"}')
    assert caught.value.code == "SERIALIZATION_ERROR"


@pytest.mark.parametrize(
    "line",
    [
        b"{}",
        b"[]",
        b"7",
        b'{"a3s_fact_log":true,"thread":"s","session_id":"s","created_ms":5}',
        b'{"a3s_fact_log":0,"thread":"s","session_id":"s","created_ms":5}',
        b'{"a3s_fact_log":1,"thread":"s","session_id":"s"}',
        b'{"a3s_fact_log":1,"thread":"s","session_id":7,"created_ms":5}',
    ],
)
def test_a_line_that_is_no_header_is_damage(line: bytes) -> None:
    """JSON that is no header is told from a header that was cut."""
    with pytest.raises(DamagedLine, match="not a header") as caught:
        decode_header(line)
    assert caught.value.is_json


def test_plain_ids_name_their_file_and_others_are_hashed() -> None:
    """Ids of 1 to 128 plain characters are file names; every other id becomes a whole digest, so none meet."""
    plain = ["a", "A-z_0.9:x", "..", "x" * 128]
    assert [thread_name(each) for each in plain] == plain
    odd = ["", "x" * 129, "a/b", "../up", "a\n", "ä", "a b", "\ud800", "\udfff", "x" * 200 + "1", "x" * 200 + "2"]
    names = [thread_name(each) for each in odd]
    assert len(set(names)) == len(odd)
    assert all(len(name) == 66 and name.startswith("s-") for name in names)


def test_a_header_knows_its_session_whatever_the_id() -> None:
    """An id that is no Unicode still finds its own log."""
    header = decode_header(encode_header(Header("s-1", "a\ud800", 5)))
    assert same_session(header, "a\ud800")
    assert not same_session(header, "a")
