"""A process that writes generations of 50 MB. In: a store of a kind. Out: the number of each one that was acknowledged.

One rule: a generation tells its number in every part of it, so that a mixed one shows.
Known weakness: none known.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "stores"))

from storehelp import maker

from a3s_code.core.content import JsonObject
from a3s_code.core.documents import SessionSnapshot

PART = 1_000_000
PARTS = 50


def generation(number: int) -> SessionSnapshot:
    messages: list[JsonObject] = [
        {"text": chr(97 + number % 26) * PART, "part": part, "of": number} for part in range(PARTS)
    ]
    return SessionSnapshot(session_id="s", saved_ms=number, messages=messages)


async def main() -> None:
    kind, directory, dsn, schema = sys.argv[1:]
    store = maker(kind, Path(directory), lambda: dsn, schema)()
    number = 0
    while True:
        number += 1
        await store.save_snapshot(generation(number))
        print(number, flush=True)


if __name__ == "__main__":
    asyncio.run(main())
