"""A whole store, looked through (``a3s-code store``). In: a store. Out: each document of it, and what is wrong with it.

One rule: each document is read alone, so one that is damaged hides no other; only ``make_ready`` makes anything.
Known weakness: a document that others write or delete meanwhile is seen as it was, or left out.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Final

import msgspec

from a3s_code.core.branches import read_lines
from a3s_code.core.codec import verify
from a3s_code.core.documents import VERSION, Lease, checked_id, decode
from a3s_code.errors import StoreError
from a3s_code.stores.rulebase import KINDS, key_of, session_lock
from a3s_code.stores.rules import RuledStore
from a3s_code.stores.transaction import Kind, Name, Transaction

_TYPES: Final = {kind: what for what, kind in KINDS.items()}


class Seen(msgspec.Struct, frozen=True):
    """One document. ``where`` is its file or row; ``fault`` says what is wrong with it, or with a checkpoint's facts;
    ``newer`` that only a newer version can read it."""

    kind: Kind
    where: str
    fault: str | None = None
    newer: bool = False


class _Version(msgspec.Struct):
    schema_version: int = 0


async def survey(store: RuledStore, *, facts: bool = True) -> AsyncIterator[Seen]:
    """Every document of ``store``, kind by kind; with ``facts`` those of each checkpoint are read as well."""
    for kind in _TYPES:
        for name in await _names(store, kind):
            seen = await _look(store, kind, name, facts=facts)
            if seen is not None:
                yield seen


async def leases_of(store: RuledStore, session_ids: Sequence[str]) -> dict[str, Lease]:
    """The leases that these sessions have or had last; one that can't be read is left out."""
    wanted: list[tuple[Kind, str]] = [("lease", checked_id(each, "session")) for each in session_ids]
    found = await store._backend.transact((), lambda tx: tx.get_all(wanted))
    leases = {}
    for (_, key), data in found.items():
        try:
            leases[key] = decode(Lease, data, key)
        except StoreError:
            continue
    return leases


async def make_ready(store: RuledStore) -> None:
    """Makes the tables or directories where they are missing, as any first write does."""

    async def nothing(tx: Transaction) -> None:
        """The lock is enough."""

    await store._backend.transact((session_lock(""),), nothing)


async def _names(store: RuledStore, kind: Kind) -> list[Name]:
    return await store._backend.transact((), lambda tx: tx.names(kind))


async def _look(store: RuledStore, kind: Kind, name: Name, *, facts: bool) -> Seen | None:
    data = b""
    try:
        read = await store._backend.transact((), lambda tx: tx.named(kind, name.text))
        if read is None:
            return None
        data = read
        document = await store._backend.off_loop(decode, _TYPES[kind], data, name.where)
        key = checked_id(key_of(document), "document")
        if key != name.key and (name.key is not None or store._backend.place(kind, key) != name.where):
            return Seen(kind, name.where, f"{name.where} is damaged: it is that of {key!r}")
        if kind == "checkpoint" and facts:
            await _read_facts(store, key)
    except StoreError as error:
        return Seen(kind, name.where, str(error), newer=_is_newer(data))
    return Seen(kind, name.where)


async def _read_facts(store: RuledStore, run_id: str) -> None:
    checkpoint = await store.load_checkpoint(run_id)
    if checkpoint is None:
        return
    lines = await store._backend.off_loop(read_lines, checkpoint.facts)
    if not lines or not verify(lines[0], ""):
        raise StoreError(f"the checkpoint of run {run_id!r} is damaged: its facts don't begin with fact 1")


def _is_newer(data: bytes) -> bool:
    try:
        return msgspec.json.decode(data, type=_Version).schema_version > VERSION
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
