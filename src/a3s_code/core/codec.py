"""Facts as lines (facts.md, *File*). In: a fact and the sum before it. Out: one line of bytes, and back.

One rule: a line is never rewritten: whoever copies a log copies ``Line.raw``, so unknown members and kinds survive.
Text that is no Unicode (lone surrogates) is stored with U+FFFD, as a run must not end over it; what is no JSON at all
is refused before anything is written.
Known weakness: numbers that JSON doesn't have (NaN, infinities) are stored as ``null``.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from functools import cache
from typing import Any, Final

import msgspec

from a3s_code.core.content import Json
from a3s_code.core.digest import valid_text
from a3s_code.core.facts import KINDS, Fact, FactData, UnknownData
from a3s_code.errors import StoreError

VERSION: Final = 1
LOGIC: Final = 1
"""The logic number of logs begun by this version (facts.md, *Standing context*)."""

_SUM_AT: Final = len(',"sum":"') + 32 + len('"}')
_PLAIN_NAME: Final = re.compile(r"[A-Za-z0-9_.:-]{1,128}")
_HEADER_KEYS: Final = ("a3s_fact_log", "thread", "session_id", "created_ms", "logic")


class DamagedLine(Exception):
    """A line can't be used. ``is_json`` tells an edited line from one that was cut while it was written."""

    def __init__(self, what: str, *, is_json: bool = True) -> None:
        super().__init__(what)
        self.is_json = is_json


class Line(msgspec.Struct, frozen=True):
    """One fact as it stands in a file; ``raw`` is without its line end."""

    fact: Fact
    sum: str
    raw: bytes


class Header(msgspec.Struct, frozen=True):
    """Line 1 of a log. ``more`` holds the members that a newer writer added."""

    thread: str
    session_id: str
    created_ms: int
    logic: int = LOGIC
    more: dict[str, Json] = {}


class _Envelope(msgspec.Struct):
    """A line, its data still to be read."""

    seq: int
    id: str
    ts: int
    run: str
    kind: str
    data: msgspec.Raw
    sum: str


class _Unsealed(msgspec.Struct):
    """A fact of an unknown kind, to be written."""

    seq: int
    id: str
    ts: int
    run: str
    kind: str
    data: msgspec.Raw


_write = msgspec.json.Encoder().encode
_read_envelope = msgspec.json.Decoder(_Envelope).decode
_read_object = msgspec.json.Decoder(dict[str, Any]).decode


@cache
def _read_data(kind: str) -> Callable[[msgspec.Raw], FactData]:
    """Of facts of this known kind; made for the first, as a new session reads none."""
    decode: Callable[[msgspec.Raw], FactData] = msgspec.json.Decoder(KINDS[kind]).decode
    return decode


def thread_name(session_id: str) -> str:
    """The file name of a session's log, without its suffix."""
    if _PLAIN_NAME.fullmatch(session_id):
        return session_id
    return "s-" + hashlib.sha256(session_id.encode("utf-8", "surrogatepass")).hexdigest()


def encode(fact: Fact, previous_sum: str) -> tuple[bytes, str]:
    """The line of ``fact``, ended, and its sum. ``StoreError`` (``SERIALIZATION_ERROR``) if it can't be stored."""
    if KINDS.get(fact.kind, UnknownData) is not type(fact.data):
        raise _refused(fact, f"its data is a {type(fact.data).__name__}")
    try:
        body = _body(fact)
    except (TypeError, ValueError, RecursionError, OverflowError) as error:
        raise _refused(fact, str(error)) from error
    digest = _digest(previous_sum, body)
    return b'%b,"sum":"%b"}\n' % (body, digest.encode()), digest


def _body(fact: Fact) -> bytes:
    """The line up to ``,"sum"``."""
    data = fact.data
    if isinstance(data, UnknownData):
        return _write(_Unsealed(fact.seq, fact.id, fact.ts, fact.run, fact.kind, data.raw))[:-1]
    try:
        return _write(fact)[:-1]
    except UnicodeEncodeError:
        return _write(valid_text(msgspec.to_builtins(fact)))[:-1]


def _refused(fact: Fact, why: str) -> StoreError:
    return StoreError(f"fact {fact.seq} ({fact.kind}) can't be stored: {why}", "SERIALIZATION_ERROR")


def _digest(previous_sum: str, body: bytes) -> str:
    return hashlib.blake2b(previous_sum.encode() + body, digest_size=16).hexdigest()


def decode_line(line: bytes) -> Line:
    """The fact on ``line`` (with or without its line end). ``DamagedLine`` says what is wrong; whether it follows
    the line before it is for ``verify``."""
    raw = line[:-1] if line.endswith(b"\n") else line
    try:
        read = _read_envelope(raw)
        known = read.kind in KINDS
        data: FactData = _read_data(read.kind)(read.data) if known else UnknownData(read.data.copy())
    except msgspec.ValidationError as error:
        raise DamagedLine(f"not a fact: {error}") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise DamagedLine(f"not valid JSON: {error}", is_json=False) from error
    except RecursionError as error:
        raise DamagedLine("nested too deeply") from error
    if not raw.endswith(b',"sum":"%b"}' % read.sum.encode()):
        raise DamagedLine("its sum is not the last member")
    return Line(Fact(read.seq, read.id, read.ts, read.run, read.kind, data), read.sum, raw)


def verify(line: Line, previous_sum: str) -> bool:
    """Whether ``line`` is as it was written, after the line with ``previous_sum`` (empty for the first)."""
    return len(line.sum) == 32 and _digest(previous_sum, line.raw[:-_SUM_AT]) == line.sum


def encode_header(header: Header) -> bytes:
    values = (VERSION, header.thread, header.session_id, header.created_ms, header.logic)
    members = dict(zip(_HEADER_KEYS, values, strict=True)) | header.more
    try:
        return _write(members) + b"\n"
    except UnicodeEncodeError:
        return _write(valid_text(members)) + b"\n"


def decode_header(line: bytes) -> Header:
    """``DamagedLine`` when it is no header, ``StoreError`` (``SERIALIZATION_ERROR``) when it is a newer one."""
    try:
        members = _read_object(line)
    except msgspec.ValidationError as error:
        raise DamagedLine(f"not a header: {error}") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise DamagedLine(f"not valid JSON: {error}", is_json=False) from error
    version, thread, session_id, created_ms, logic = (members.pop(key, None) for key in _HEADER_KEYS)
    if type(version) is not int or version < 1:
        raise DamagedLine('not a header: no "a3s_fact_log"')
    logic = LOGIC if logic is None else logic
    for what, found, known in (("version", version, VERSION), ("logic number", logic, LOGIC)):
        if type(found) is int and found > known:
            raise StoreError(
                f"the log's {what} is {found}, and this a3s_code knows {known} at most: use a newer a3s_code",
                "SERIALIZATION_ERROR",
            )
    if not (isinstance(thread, str) and isinstance(session_id, str) and type(created_ms) is int and type(logic) is int):
        raise DamagedLine("not a header: a member is missing or has another type")
    return Header(thread, session_id, created_ms, logic, members)


def same_session(header: Header, session_id: str) -> bool:
    """Whether the log belongs to ``session_id`` (which may hold text that a header can't)."""
    return header.session_id == str(valid_text(session_id))
