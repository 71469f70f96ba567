"""Watching a PostgreSQL store. In: a connection of its own. Out: commit events, in order.

One rule: an event is given once no transaction that is older than its own can still commit, so that a cursor never
passes one by; ``NOTIFY`` only says when to look.
Known weakness: a long transaction anywhere in the database holds up events, for as long as it runs.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, Final

from a3s_code.errors import CodeError
from a3s_code.ports.store import StoreEvent
from a3s_code.stores.pgtables import Connection, Tables

_PAGE: Final = 500
_LOOK_AGAIN: Final = 1.0
"""Seconds until an event is looked for that waited for an older transaction which told nobody."""


async def watch(
    connection: Callable[[], AbstractAsyncContextManager[Connection]], tables: Tables, after: str | None
) -> AsyncIterator[StoreEvent]:
    xid, number = ("", 0) if after is None else _parts(after)
    rung = asyncio.Event()

    def ring(*_: Any) -> None:
        rung.set()

    async with connection() as at:
        await at.add_listener(tables.channel, ring)
        if after is None:
            xid = await at.fetchval("SELECT pg_snapshot_xmin(pg_current_snapshot())::text")
        told_of = 0
        while True:
            rung.clear()
            rows = await at.fetch(tables.events, xid, number, _PAGE)
            if rows and number > told_of and not await at.fetchval(tables.known_event, number):
                told_of = number
                yield StoreEvent(f"{xid}.{number}", "gap")
            for row in rows:
                xid, number = row["xid"], row["id"]
                yield StoreEvent(f"{xid}.{number}", row["kind"], row["session_id"], row["ref"])
            if not rows:
                await _either(rung)


async def _either(rung: asyncio.Event) -> None:
    try:
        await asyncio.wait_for(rung.wait(), _LOOK_AGAIN)
    except TimeoutError:
        return


def _parts(cursor: str) -> tuple[str, int]:
    found = re.fullmatch(r"([0-9]{1,19})\.([0-9]{1,18})", cursor)
    if found is None:
        raise CodeError(f"{cursor!r} is no cursor of this store", "INVALID_REQUEST")
    return found[1], int(found[2])
