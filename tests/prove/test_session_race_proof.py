"""Two nodes race for a session whose node died or was stopped in the middle of a call (durability.md, *Resuming*; cases
C05, C06).

``A3S_PROOF_SEED=17 pytest tests/prove/test_session_race_proof.py`` has the race of seed 17.
"""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any, Final

import pytest
import pytest_asyncio

sys.path.append(str(Path(__file__).parents[1] / "stores"))

from storehelp import AnyStore, maker

import a3s_code.engine.holding as holding_module
from a3s_code import Agent, Session, tool
from a3s_code.api.wiring import LEASES
from a3s_code.core import leasing
from a3s_code.core.content import AssistantMessage
from a3s_code.core.documents import Lease
from a3s_code.errors import CodeError, LeaseLost
from a3s_code.ports.model import ModelRequest
from a3s_code.stores.transaction import Backend, Kind, Rule
from a3s_code.testing import ScriptedModel, Turn, call

pytest_plugins = ["storefixtures"]

RACES: Final = {"memory": 600, "file": 200, "sqlite": 200, "postgres": 50}
SCRIPT: Final[list[Turn]] = [call("pay", {"whom": "ann"}), call("pay", {"whom": "bob"}), "all is paid"]
FINAL: Final = "all is paid"
WAYS: Final = ("resume", "recover", "send")
"""``send`` gives the open run up and asks for something else: the model, which goes by what was said, pays on."""


class Straying:
    """A backend that lets others go first, before and after its transactions, as the seed says."""

    def __init__(self, backend: Backend, chance: random.Random) -> None:
        self._backend = backend
        self._chance = chance

    async def transact(self, locks: Sequence[str], rule: Rule[Any], *, if_free: bool = False) -> Any:
        await stray(self._chance)
        found = await self._backend.transact(locks, rule, if_free=if_free)
        await stray(self._chance)
        return found

    def place(self, kind: Kind, key: str) -> str:
        return self._backend.place(kind, key)

    async def off_loop(self, work: Callable[..., Any], *args: Any) -> Any:
        return await self._backend.off_loop(work, *args)


async def stray(chance: random.Random) -> None:
    for _ in range(chance.choice((0, 0, 1, 4, 20))):
        await asyncio.sleep(0)


def answer(request: ModelRequest) -> Turn:
    return SCRIPT[sum(isinstance(message, AssistantMessage) for message in request.messages)]


class Race:
    """One race: node ``a`` hangs in its second payment and is given up, ``b`` and ``c`` both want to go on."""

    def __init__(self, seed: str, directory: Path, stores: Sequence[AnyStore], agents: Sequence[Agent]) -> None:
        self.chance = random.Random(f"sessions {seed}")
        self.id = f"s{seed}"
        self.job = f"job-{seed}"
        self.ways = [self.chance.choice(WAYS), self.chance.choice(WAYS)]
        self.paid: list[tuple[str, str]] = []
        self._directory = directory
        self._stores = dict(zip("abc", stores, strict=True))
        self._agents = dict(zip("abc", agents, strict=True))
        self._hanging, self._awake = asyncio.Event(), asyncio.Event()

    async def run(self) -> None:
        a, b, c = [await self._open(node) for node in "abc"]
        await a.spawn_run_with_id_async(self.job, "pay what is owed")
        await self._hanging.wait()
        await self._given_up(a)
        waking = asyncio.ensure_future(self._wake(b, c))
        came = await asyncio.gather(self._go_on(b, self.ways[0]), self._go_on(c, self.ways[1]))
        await waking
        self._check(came)
        winner = came.index(FINAL)
        kept = await self._stores["b"].load_snapshot(self.id)
        while a._engine.active is not None:
            await asyncio.sleep(0.001)
        with pytest.raises(LeaseLost):
            await a.send_async("are you there?")
        assert await self._stores["c"].load_snapshot(self.id) == kept, "who lost the session wrote a snapshot"
        assert kept is not None
        assert kept.messages[-1]["content"] == FINAL
        assert (b, c)[winner].history()[-1]["content"] == FINAL
        for session in (a, b, c):
            await session.close_async()

    def _check(self, came: Sequence[str]) -> None:
        what = f"{self.ways} came to {list(came)}, paid {self.paid}"
        assert sum(each == FINAL for each in came) == 1, what
        winner = came.index(FINAL)
        assert came[1 - winner] in ("SESSION_BUSY", "LEASE_LOST", "replayed"), what
        later = [each for each in self.paid if each[0] != "a"]
        assert later == [("bc"[winner], "bob")], what
        loser = self._directory / "bc"[1 - winner]
        assert not [each for each in loser.rglob("*.jsonl") if each.stat().st_size], f"{what}: the loser has a log"

    async def _open(self, node: str) -> Session:
        workspace = self._directory / node
        workspace.mkdir(parents=True)

        @tool
        async def pay(whom: str) -> str:
            """Pays."""
            if (node, whom) != ("a", "bob"):
                self.paid.append((node, whom))
                return "paid"
            if self.chance.random() < 0.5:
                self.paid.append((node, whom))
            self._hanging.set()
            await self._awake.wait()
            return "paid at last"

        return await self._agents[node].session_async(
            workspace,
            session_id=self.id,
            session_store=self._stores[node],
            llm_client=ScriptedModel([answer], repeat_last=True),
            tools=[pay],
            auto_save=True,
            log_durability="os",
        )

    async def _given_up(self, session: Session) -> None:
        """Its process has died, which is known at once, or was stopped, and its lease runs out."""
        keeper = session._engine.keeper
        assert keeper is not None
        kept = keeper.holding._kept
        assert kept is not None
        LEASES.let_go(kept)
        if self.chance.random() < 0.5:
            await keeper.store.release(kept.lease)
        else:
            await keeper.store.renew([kept.lease], 1)

    async def _wake(self, *others: Session) -> None:
        """Once another node has the session: until then what ``a`` writes is good."""
        while not any(each._engine.keeper is not None and each._engine.keeper.holding._kept for each in others):
            await asyncio.sleep(0)
        for _ in range(self.chance.choice((0, 3, 30, 300))):
            await asyncio.sleep(0)
        self._awake.set()

    async def _go_on(self, session: Session, way: str) -> str:
        await stray(self.chance)
        try:
            if way == "resume":
                return (await session.resume_run_async(self.job)).text
            if way == "send":
                return (await session.send_async("is it paid?")).text
            begun: Any = await session.spawn_recovery_with_run_id_async(self.job, f"{self.job}-again")
            if begun["replayed"]:
                return "replayed"
            while session._engine.active is not None:
                await asyncio.sleep(0)
            record: Any = session.run_snapshot(f"{self.job}-again")
            return str(record["text"])
        except CodeError as error:
            return error.code


@pytest_asyncio.fixture
async def agents() -> AsyncIterator[list[Agent]]:
    made = [await Agent.create_from_config_async({}) for _ in range(3)]
    yield made
    for each in made:
        await each.close_async()


class Races:
    """One race a seed, on one storage."""

    def __init__(self, kind: str, make: Callable[[], AnyStore], agents: Sequence[Agent], directory: Path) -> None:
        self._kind = kind
        self._stores = [make() for _ in range(3)]
        self._backends = [store._backend for store in self._stores]
        self._agents = agents
        self._directory = directory

    async def run(self, seed: str) -> None:
        """A failure says how to have it again."""
        race = Race(seed, self._directory / seed, self._stores, self._agents)
        for store, backend in zip(self._stores, self._backends, strict=True):
            store._backend = Straying(backend, race.chance)
        try:
            await race.run()
        except Exception as error:
            again = f"A3S_PROOF_SEED={seed} pytest {__file__} -k {self._kind}"
            raise AssertionError(f"{self._kind}, seed {seed}: {error!r}\nagain: {again}") from error
        shutil.rmtree(self._directory / seed)

    async def close(self) -> None:
        for store in self._stores:
            await store.close()


@pytest_asyncio.fixture
async def races(
    kind: str, quick: Path, agents: list[Agent], request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Races]:
    monkeypatch.setattr(holding_module, "_LOOK_AGAIN_S", 0.001)
    dsn = str(request.getfixturevalue("postgres_dsn")) if kind == "postgres" else ""
    made = Races(kind, maker(kind, quick, lambda: dsn, "race_sessions"), agents, quick)
    yield made
    await made.close()


@pytest.mark.parametrize("kind", RACES)
async def test_one_of_two_nodes_goes_on(kind: str, races: Races, tell: Callable[[str], None]) -> None:
    """Whoever comes first runs the open call, once; the other node is told so and writes nothing, and neither does the
    first holder when it wakes up."""
    given = os.environ.get("A3S_PROOF_SEED")
    seeds = [given] if given else [str(number) for number in range(1, RACES[kind] + 1)]
    for seed in seeds:
        await races.run(seed)
    tell(f"session race proof, {kind}: {len(seeds)} races, seeds {seeds[0]} to {seeds[-1]}")


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
@pytest.mark.parametrize("broken", ["acquired", "fence"])
async def test_a_store_that_gives_everybody_the_lease_would_be_found(
    broken: str, races: Races, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When a lease keeps nobody out, or none is asked for by a write, a race fails and says its seed."""
    acquired = leasing.acquired

    def careless(stored: Lease | None, *of: Any, void: bool) -> Lease:
        return acquired(stored, *of, void=True)

    monkeypatch.setattr(leasing, broken, careless if broken == "acquired" else lambda *_: None)

    async def some() -> None:
        for number in range(1, 60):
            await races.run(str(number))

    with pytest.raises(AssertionError, match="again: A3S_PROOF_SEED="):
        await some()
