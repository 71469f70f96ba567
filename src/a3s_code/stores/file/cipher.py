"""Encryption at rest. In: a key and bytes. Out: AES-256-GCM, bound to the place where it is kept.

One rule: what can't be authenticated is never given back: another key, a changed byte and another file's content are
refused alike.
Known weakness: names, sizes and times of files stay readable, and an older state of a file passes for the present one.
"""

from __future__ import annotations

import os
from typing import Any, Final

from a3s_code.errors import SessionConfigurationError, StoreError

_MAGIC: Final = b"A3SE1\0"
_NONCE: Final = 12


class Plain:
    """No encryption."""

    encrypted = False

    def seal(self, data: bytes, place: str) -> bytes:
        return data

    def open(self, data: bytes, place: str, path: str) -> bytes:
        if data.startswith(_MAGIC):
            raise StoreError(f"{path} is encrypted: give the store its encryption_key", "SERIALIZATION_ERROR")
        return data


class Cipher:
    encrypted = True

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._aead: Any = None

    def seal(self, data: bytes, place: str) -> bytes:
        nonce = os.urandom(_NONCE)  # a nonce must never repeat, also where a session's ids are fixed
        return _MAGIC + nonce + bytes(self._ready().encrypt(nonce, data, place.encode()))

    def open(self, data: bytes, place: str, path: str) -> bytes:
        if not data.startswith(_MAGIC):
            why = "is not encrypted, and this store has an encryption_key"
            raise StoreError(f"{path} {why}: it was written without one, or put there", "SERIALIZATION_ERROR")
        from cryptography.exceptions import InvalidTag  # an extra, imported when used

        at = len(_MAGIC)
        try:
            return bytes(self._ready().decrypt(data[at : at + _NONCE], data[at + _NONCE :], place.encode()))
        except (InvalidTag, ValueError) as error:
            raise StoreError(
                f"{path} can't be decrypted: it was encrypted with another key, or changed since", "SERIALIZATION_ERROR"
            ) from error

    def _ready(self) -> Any:
        if self._aead is None:
            try:
                from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # an extra, imported when used
            except ImportError as error:
                raise SessionConfigurationError(
                    "an encryption_key needs the package cryptography: install a3s-code-py[encryption]"
                ) from error
            self._aead = AESGCM(self._key)
        return self._aead

    def __repr__(self) -> str:
        return "Cipher(…)"


def cipher_for(key: bytes | str | None) -> Plain | Cipher:
    """``SessionConfigurationError`` for what is no 256-bit key: 32 bytes, or 64 hexadecimal digits."""
    if key is None:
        return Plain()
    if isinstance(key, str):
        try:
            key = bytes.fromhex(key)
        except ValueError:
            key = b""
    if not isinstance(key, bytes) or len(key) != 32:
        raise SessionConfigurationError("encryption_key must be 32 random bytes, or a text of 64 hexadecimal digits")
    return Cipher(key)
