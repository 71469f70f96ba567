"""The contract that every session store keeps (durability.md, *SessionStore*), as checks for anybody's store.

``make_store`` gives a new handle on the same storage each time it is called (a store that lives in one object gives
that object). Needs no test runner: ``await check_store(make_store)``; or one test a check, in pytest's way::

    @pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
    async def test_contract(check):
        await run_check(check, make_store)
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

from a3s_code.testing.store_contract import checkpoints, documents, holding
from a3s_code.testing.store_contract.helping import Handles, MakeStore

Check: TypeAlias = Callable[[Handles], Awaitable[None]]
CHECKS: Final[tuple[Check, ...]] = (*documents.CHECKS, *checkpoints.CHECKS, *holding.CHECKS)

__all__ = ["CHECKS", "Check", "MakeStore", "check_store", "run_check"]


async def run_check(check: Check, make_store: MakeStore) -> None:
    """Raises ``AssertionError`` saying what the store got wrong, ``TimeoutError`` after a minute."""
    handles = Handles(make_store)
    try:
        async with asyncio.timeout(60):
            await check(handles)
    finally:
        await handles.close()


async def check_store(make_store: MakeStore) -> None:
    """Runs every check, and raises one ``ExceptionGroup`` with what failed, each naming its check."""
    failed: list[Exception] = []
    for check in CHECKS:
        try:
            await run_check(check, make_store)
        except Exception as error:  # noqa: BLE001  a store may fail in any way, and the other checks go on
            error.add_note(f"the check {check.__name__}: {check.__doc__}")
            failed.append(error)
    if failed:
        raise ExceptionGroup("the store breaks its contract", failed)
