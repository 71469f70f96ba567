"""Digests of JSON values. In: arguments or text. Out: short hex strings that are equal for equal values.

One rule: the digest depends on the value only, never on the order of members or the process.
Known weakness: none known.
"""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec

from a3s_code.core.content import Json, JsonObject

_sorted = msgspec.json.Encoder(order="sorted")
_plain = msgspec.json.Encoder()


def canonical(value: Json) -> str:
    """Compact JSON with sorted members."""
    return _encoded(value).decode()


def args_digest(args: JsonObject) -> str:
    """What an approval is bound to, beside the call's id: 32 hex digits."""
    return hashlib.blake2b(_encoded(args), digest_size=16).hexdigest()


def encoded_size(value: Json) -> int:
    """Bytes of the compact form, in whatever order."""
    try:
        return len(_plain.encode(value))
    except UnicodeEncodeError:
        return len(_encoded(value))


def _encoded(value: Json) -> bytes:
    try:
        return _sorted.encode(value)
    except UnicodeEncodeError:
        return _sorted.encode(valid_text(value))


def json_copy(value: Any) -> Any:
    """A copy that shares nothing with ``value``. ``TypeError`` or ``ValueError`` for what is no JSON."""
    return msgspec.json.decode(_encoded(value))


def valid_text(value: Any) -> Any:
    """The same JSON value with valid text only: halves of a character are joined, lone ones become U+FFFD."""
    match value:
        case str():
            return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        case dict():
            return {valid_text(key): valid_text(member) for key, member in value.items()}
        case list() | tuple():
            return [valid_text(member) for member in value]
        case _:
            return value


def text_digest(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
