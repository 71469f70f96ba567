"""``a3s-code store check`` and ``migrate``. In: a store. Out: what it holds, what is damaged, what was done.

One rule: a damaged or newer document is named and left as it is.
Known weakness: facts that no checkpoint leads to are not looked at.
"""

from __future__ import annotations

import argparse
import asyncio
import os
from collections import Counter

import msgspec

from a3s_code.cli.listing import print_json
from a3s_code.cli.setup import notice, workspace_of
from a3s_code.cli.stores import Chosen, CommandStore, opened, required_store
from a3s_code.cli.words import count, one_line
from a3s_code.core.documents import VERSION
from a3s_code.errors import StoreError
from a3s_code.stores.survey import Seen, make_ready, survey


class Report(msgspec.Struct):
    """``counts`` is by kind of document, damaged ones included."""

    store: str
    counts: dict[str, int]
    damaged: list[Seen]

    @property
    def documents(self) -> int:
        return sum(self.counts.values())


def go(args: argparse.Namespace) -> int:
    chosen = required_store(args, workspace_of(args.workspace), os.environ)
    return asyncio.run(_check(chosen, args.json) if args.action == "check" else _migrate(chosen, args.json))


async def _check(chosen: Chosen, as_json: bool) -> int:
    async with opened(chosen) as store:
        report = Report(str(chosen.store), {}, []) if store is None else await _read(store, facts=True)
    code = 1 if report.damaged else 0
    if as_json:
        print_json({"ok": not code, **msgspec.to_builtins(report)})
        return code
    print(report.store)
    for seen in report.damaged:
        print(f"  {one_line(seen.fault or '', 500)}")
    print(f"{'damaged' if code else 'good'}: {_counted(report)}")
    return code


async def _migrate(chosen: Chosen, as_json: bool) -> int:
    store = chosen.store
    try:
        before = await store.schema_version()
        await make_ready(store)
        report = await _read(store, facts=False)
    finally:
        await store.close()
    newer = [seen for seen in report.damaged if seen.newer]
    if newer:
        more = f" and {count(len(newer) - 1, 'more document')}" if len(newer) > 1 else ""
        raise StoreError(f"{newer[0].fault}{more}; nothing was changed", "SERIALIZATION_ERROR")
    if as_json:
        print_json({"store": report.store, "version": VERSION, "made": before is None, "documents": report.documents})
    elif before is None:
        print(f"{report.store}\nmade: it has schema version {VERSION} now")
    else:
        print(f"{report.store}\nnothing to do: {count(report.documents, 'document')} of schema version {VERSION}")
    if report.damaged:
        notice(
            f"{count(len(report.damaged), 'document')} can't be read and stayed as it was: see `a3s-code store check`"
        )
    return 0


async def _read(store: CommandStore, *, facts: bool) -> Report:
    kinds: Counter[str] = Counter()
    damaged = []
    async for seen in survey(store, facts=facts):
        kinds[seen.kind] += 1
        if seen.fault is not None:
            damaged.append(seen)
    return Report(str(store), dict(kinds), damaged)


def _counted(report: Report) -> str:
    kinds = [f"{kind}: {number:,}" for kind, number in report.counts.items()]
    wrong = f"{count(len(report.damaged), 'damaged document')} of " if report.damaged else ""
    return wrong + (f"{count(report.documents, 'document')} ({', '.join(kinds)})" if kinds else "no documents")
