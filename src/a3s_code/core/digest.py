"""Digests of JSON values. In: arguments or text. Out: short hex strings that are equal for equal values.

One rule: the digest depends on the value only, never on the order of members or the process.
Known weakness: none known.
"""

from __future__ import annotations

import hashlib

import msgspec

from a3s_code.core.content import Json, JsonObject

_sorted = msgspec.json.Encoder(order="sorted")


def canonical(value: Json) -> str:
    """Compact JSON with sorted members."""
    return _sorted.encode(value).decode()


def args_digest(args: JsonObject) -> str:
    """What an approval is bound to, beside the call's id: 32 hex digits."""
    return hashlib.blake2b(_sorted.encode(args), digest_size=16).hexdigest()


def call_identity(name: str, args: JsonObject) -> str:
    """What makes two calls the same call to the duplicate guard (tools.md §2.3)."""
    return f"{name} {args_digest(args)}"


def text_digest(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
