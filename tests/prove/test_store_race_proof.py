"""Nodes race for sessions under a seeded scheduler, with the real stores (quality.md, *Proofs*; cases C04, C05, C06).

``A3S_PROOF_SEED=17 pytest tests/prove/test_store_race_proof.py`` tries seed 17 only, and does exactly what it did.
"""

from __future__ import annotations

import asyncio
import importlib
import os
import shutil
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest
from gatedstores import Connection, gate_stores
from storehelp import maker
from storerace import Race

import a3s_code.stores.holding as holding_module
from a3s_code.core import leasing
from a3s_code.stores.disk import Disk
from a3s_code.stores.postgres import PostgresSessionStore
from a3s_code.stores.transaction import run_through

pytest_plugins = ["storefixtures"]

SCHEDULES = {"memory": 2000, "file": 1200, "encrypted": 400, "sqlite": 1000, "postgres": 80}


class Server(PostgresSessionStore):
    """One handle for all schedules, as connections take long to make: each node has a loop, and so connections of its
    own."""

    def __init__(self, dsn: str) -> None:
        super().__init__(dsn, schema="race")

    def handle(self) -> PostgresSessionStore:
        return self

    async def empty(self) -> None:
        await self.load_run("r")
        async with (await self._server._pool()).acquire() as connection:
            await connection.execute("DELETE FROM race.documents; DELETE FROM race.facts")

    async def close(self) -> None:
        """Its connections end with their loop."""


class Races:
    """Tries seeds on one kind of store, each on a storage of its own."""

    def __init__(self, kind: str, directory: Path, dsn: Callable[[], str], patch: pytest.MonkeyPatch) -> None:
        self.schedules = self.steps = self.points = 0
        self._kind = kind
        self._directory = directory
        self._race: Race | None = None
        self._loops: dict[int, asyncio.Runner] = {}
        self._server = Server(dsn()) if kind == "postgres" else None
        patch.setattr(holding_module, "is_dead", lambda holder: self._now().is_dead(holder))
        self._end = gate_stores(patch, lambda: self._now().turns)

    def seeds(self) -> list[str]:
        given = os.environ.get("A3S_PROOF_SEED")
        return [given] if given else [str(number) for number in range(1, SCHEDULES[self._kind] + 1)]

    def run(self, seed: str) -> int:
        """One schedule; gives what tells it from others. A failure says how to have it again."""
        where = self._directory / seed
        where.mkdir()
        if self._server is not None:
            self._drive(0, self._server.empty())
        race = self._race = Race(
            seed,
            self._server.handle if self._server is not None else maker(self._kind, where, str, ""),
            self._drive,
            kills=self._kind != "memory",
            threads=1 if self._kind == "postgres" else 2,
        )
        try:
            race.run()
        except BaseException as error:
            last = "\n  ".join(race.told[-12:])
            again = f"A3S_PROOF_SEED={seed} pytest {__file__} -k {self._kind}"
            raise AssertionError(f"{self._kind}, seed {seed}: {error!r}\n  {last}\nagain: {again}") from error
        finally:
            shutil.rmtree(where)
        self.schedules += 1
        self.steps += race.steps
        self.points += race.turns.points
        return race.turns.trace

    def close(self) -> None:
        self._end()
        for loop in self._loops.values():
            loop.close()

    def _now(self) -> Race:
        assert self._race is not None
        return self._race

    def _drive(self, number: int, work: Coroutine[Any, Any, Any]) -> Any:
        if self._kind != "postgres":
            return run_through(work)
        return self._loops.setdefault(number, asyncio.Runner()).run(work)


@pytest.fixture
def races(request: pytest.FixtureRequest, quick: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Races]:
    made = Races(request.param, quick, lambda: str(request.getfixturevalue("postgres_dsn")), monkeypatch)
    yield made
    made.close()


@pytest.mark.parametrize("races", SCHEDULES, indirect=True)
def test_whoever_wins_a_race_the_store_answers_as_if_alone(races: Races, tell: Callable[[str], None]) -> None:
    """However the steps of two or three nodes interleave, and wherever one is killed, each call is answered as if all
    calls had come one after another: one holder at a time, no write of an earlier one, no half of a write."""
    for seed in races.seeds():
        trace = races.run(seed)
        if races.schedules <= 3:
            assert races.run(seed) == trace, "the same seed gave another schedule"
    tell(
        f"store race proof, {races._kind}: {races.schedules} schedules, {races.steps} calls, {races.points} points "
        f"where another thread may go on, seeds {races.seeds()[0]} to {races.seeds()[-1]}"
    )


@pytest.mark.parametrize("races", SCHEDULES, indirect=True)
def test_a_store_without_a_fence_would_be_found(races: Races, monkeypatch: pytest.MonkeyPatch) -> None:
    """When a store forgets to check the epoch, a schedule fails, says its seed, and fails in the same way again."""
    monkeypatch.setattr(leasing, "fence", lambda *_: None)
    seed, said = found_out(races)
    with pytest.raises(AssertionError) as again:
        races.run(seed)
    assert str(again.value) == said
    assert f"A3S_PROOF_SEED={seed} pytest" in said


@pytest.mark.parametrize("races", ["file"], indirect=True)
def test_files_without_locks_would_be_found(races: Races, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the locks of files keep nobody out, a schedule fails."""
    monkeypatch.setattr(Disk, "lock", lambda *_: True)
    found_out(races)


@pytest.mark.parametrize("races", ["sqlite"], indirect=True)
def test_a_database_without_a_write_lock_would_be_found(races: Races, monkeypatch: pytest.MonkeyPatch) -> None:
    """When a transaction doesn't take the database's lock at its beginning, a schedule fails."""
    execute = Connection.execute
    monkeypatch.setattr(
        Connection, "execute", lambda self, sql, *args: execute(self, sql.removesuffix(" IMMEDIATE"), *args)
    )
    found_out(races)


@pytest.mark.parametrize("races", ["postgres"], indirect=True)
def test_a_server_without_advisory_locks_would_be_found(races: Races, monkeypatch: pytest.MonkeyPatch) -> None:
    """When PostgreSQL's advisory locks keep nobody out, a schedule fails."""

    pooled = importlib.import_module("asyncpg").pool.PoolConnectionProxy
    execute = pooled.execute

    def careless(self: Any, query: str, *args: Any) -> Any:
        return execute(self, query.replace("pg_advisory_xact_lock", "abs"), *args)

    monkeypatch.setattr(pooled, "execute", careless)
    found_out(races)


def found_out(races: Races) -> tuple[str, str]:
    """The first of a few hundred seeds that fails, and what it says."""
    for number in range(1, 300):
        try:
            races.run(f"{number}")
        except AssertionError as error:
            return f"{number}", str(error)
    raise AssertionError("no schedule found the fault")
