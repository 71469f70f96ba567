"""Every store keeps the public contract, and the contract finds a store that doesn't."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from storehelp import AnyStore

from a3s_code.stores.memory import MemorySessionStore
from a3s_code.testing.store_contract import CHECKS, Check, check_store, run_check

pytest_plugins = ["storefixtures"]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: str(check.__name__))
async def test_a_store_keeps_the_contract(check: Check, make_store: Callable[[], AnyStore]) -> None:
    """Each kind of store passes each check of the public suite."""
    await run_check(check, make_store)


async def test_the_suite_names_what_a_store_breaks() -> None:
    """A store that forgets to check the epoch is found out, by the checks that are about it."""

    class Careless(MemorySessionStore):
        async def _fence(self, *_: object) -> None:
            return

    store = Careless()
    with pytest.raises(ExceptionGroup, match="breaks its contract") as caught:
        await check_store(lambda: store)
    names = {error.__notes__[0].split(":")[0] for error in caught.value.exceptions}
    assert "the check a_holder_that_wakes_up_writes_nothing" in names
    assert "the check snapshot_comes_back_whole" not in names


async def test_the_suite_needs_no_test_runner() -> None:
    """check_store passes for a store that keeps the contract, called from plain code."""
    store = MemorySessionStore()
    await check_store(lambda: store)
