"""The power is cut while nodes race in a file store: torn, lost and reordered writes (quality.md, *Proofs*).

``A3S_PROOF_SEED=17 pytest tests/prove/test_power_cut_proof.py`` tries seed 17 only.
"""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from gatedstores import GatedDisk, gate_stores
from powercut import PowerDisk
from storehelp import maker
from storerace import Race

import a3s_code.stores.holding as holding_module
from a3s_code.stores.disk import use_disk
from a3s_code.stores.transaction import run_through

pytest_plugins = ["storefixtures"]

CUTS = {"file": 1000, "encrypted": 200}
IMAGES = 4
"""So many of the directories that a cut may leave are looked at."""


class Cuts:
    def __init__(self, kind: str, directory: Path, patch: pytest.MonkeyPatch) -> None:
        self.cuts = 0
        self._kind = kind
        self._directory = directory
        self._race: Race | None = None
        patch.setattr(holding_module, "is_dead", lambda holder: self._now().is_dead(holder))
        self.close = gate_stores(patch, lambda: self._now().turns)

    def run(self, seed: str) -> None:
        chance = random.Random(f"cut {seed}")
        where = self._directory / seed
        race = self._race = Race(
            seed, maker(self._kind, where, str, ""), lambda _, work: run_through(work), kills=True, threads=2
        )
        race.turns.cut_at, write = chance.choice(((chance.randint(1, 400), 0), (0, chance.randint(1, 50))))
        disk = PowerDisk(lambda: self._now().turns, where, write)
        where.mkdir()
        try:
            use_disk(disk)
            race.run()
            use_disk(GatedDisk(lambda: self._now().turns))
            for number in range(IMAGES):
                image = self._directory / f"{seed}-{number}"
                disk.cut(chance, image)
                race.left(maker(self._kind, image, str, ""))
                self.cuts += 1
            race.go_on()
        except BaseException as error:
            last = "\n  ".join(race.told[-12:])
            again = f"A3S_PROOF_SEED={seed} pytest {__file__} -k {self._kind}"
            raise AssertionError(f"{self._kind}, seed {seed}: {error!r}\n  {last}\nagain: {again}") from error
        finally:
            for each in self._directory.iterdir():
                shutil.rmtree(each)

    def _now(self) -> Race:
        assert self._race is not None
        return self._race


@pytest.fixture
def cuts(request: pytest.FixtureRequest, quick: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cuts]:
    made = Cuts(request.param, quick, monkeypatch)
    yield made
    made.close()


@pytest.mark.parametrize("cuts", CUTS, indirect=True)
def test_a_power_cut_takes_nothing_that_was_acknowledged(cuts: Cuts, tell: Callable[[str], None]) -> None:
    """Whatever of what was not synced a cut loses, tears or reorders, what was acknowledged is there, nothing is
    damaged, and a new node goes on."""
    given = os.environ.get("A3S_PROOF_SEED")
    for seed in [given] if given else [str(number) for number in range(1, CUTS[cuts._kind] + 1)]:
        cuts.run(seed)
    tell(f"power cut proof, {cuts._kind}: {cuts.cuts} states after a cut, seeds 1 to {CUTS[cuts._kind]}")
