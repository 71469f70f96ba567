"""Nodes that race for sessions in one store. In: a seed and a store. Out: nothing, or what the store got wrong.

Each node takes, keeps, loses and steals leases and writes with the epoch it has or once had; it is paused and killed,
and the clock goes on, all as the seed says. Every answer is compared with the model's, which is asked while the
transaction's locks are held; what a reader without locks sees must have been there while it looked.

One rule: a schedule depends on its seed alone.
Known weakness: none known.
"""

from __future__ import annotations

import contextlib
import random
from collections import defaultdict
from collections.abc import Callable, Collection, Coroutine, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, TypeAlias

from gatedstores import gated, ungated
from storehelp import AnyStore
from storemodel import READS, Call, Model, Name, perform, plain, read
from turns import Actor, Died, Turns, current

from a3s_code.core.documents import CheckpointHeader, Inbox, Lease, RunAdmission, SessionSnapshot, WorkflowCheckpoint
from a3s_code.errors import CodeError
from a3s_code.ports.store import workflow_lease
from a3s_code.stores.transaction import Transaction

Drive: TypeAlias = Callable[[int, Coroutine[Any, Any, Any]], Any]
CALLS: Final = 9
DOCUMENTS: Final = {
    "lease": Lease,
    "session": SessionSnapshot,
    "checkpoint": CheckpointHeader,
    "run": RunAdmission,
    "workflow": WorkflowCheckpoint,
    "inbox": Inbox,
}


@dataclass
class Node:
    """A process: its threads share a store and the leases it took. A new one takes the place of one that was killed."""

    holder: str
    store: AnyStore
    leases: dict[str, Lease] = field(default_factory=dict)
    seen: dict[str, int | None] = field(default_factory=dict)
    actors: list[Actor] = field(default_factory=list)


class Race:
    """One schedule. ``make`` opens a handle on the storage, ``drive`` runs a coroutine in a thread."""

    def __init__(self, seed: str, make: Callable[[], AnyStore], drive: Drive, *, kills: bool, threads: int) -> None:
        self.turns = Turns(seed)
        self.steps = 0
        self.told: list[str] = []
        self._random = random.Random(f"race {seed}")
        self._seed = seed
        self._make = make
        self._drive = drive
        self._kills = kills
        self._threads = threads
        self._clock = 1_000_000
        self._value = 0
        self._dead: set[str] = set()
        self._model = Model()
        self._calls: dict[Actor, Call] = {}
        self._under_way: dict[Actor, tuple[Call, Collection[str]]] = {}
        self._shaky: dict[Name, list[Any]] = defaultdict(list)
        self._history: dict[Name, list[Any]] = defaultdict(lambda: [None])
        self._floor: dict[Name, int] = defaultdict(int)
        self._sessions = [f"s-{seed}", f"t-{seed}"]
        self._flow = f"w-{seed}"
        self._runs = [f"{name}-{seed}" for name in ("r", "d")]

    def run(self) -> None:
        programs = []
        for number in range(self._random.choice((2, 2, 3))):
            shared = self._node(f"n{number}")
            programs += [
                partial(self._live, f"n{number}", number * self._threads + thread, shared)
                for thread in range(self._random.randint(1, self._threads))
            ]
        self.turns.run(programs)
        if not self.turns.cut:
            found = self._stored()
            wanted = {name: self._model.stored[name] for name in self._names() if name in self._model.stored}
            assert found == wanted, f"stored is {found}, not {wanted}"

    def left(self, make: Callable[[], AnyStore]) -> None:
        """After a power cut: what was acknowledged is there, and what was not is as before or whole."""
        self._make = make
        found = self._stored()
        changes = [self._model.changes(*each) for each in self._under_way.values()]
        for name in self._names():
            either = [
                self._model.stored.get(name),
                *self._shaky[name],
                *(each[name] for each in changes if name in each),
            ]
            assert found.get(name) in either, f"the power cut left {name} as {found.get(name)}, none of {either}"

    def go_on(self) -> None:
        """With what ``left`` saw last a new node works as ever."""
        found = self._stored()
        self._kills = False
        self._dead |= {value[1] for (kind, _), value in found.items() if kind == "lease"}
        self._model.stored = found
        self._history.clear()
        self._history.update({name: [value] for name, value in found.items()})
        for each in (self._floor, self._calls, self._under_way, self._shaky):
            each.clear()
        points = self.turns.points
        self.turns = Turns(f"{self._seed} after")
        self.turns.run([partial(self._live, "after", 100, self._node("after"))])
        self.turns.points += points
        store = self._make()
        for session in self._sessions:
            self._drive(0, store.delete_session(session))
        left = {name for name in self._stored() if name[0] not in ("lease", "workflow")}
        assert not left, f"deleting the sessions left {left}"

    def _stored(self) -> dict[Name, Any]:
        found: dict[Name, Any] = self._drive(0, look(self._make(), self._names()))
        return found

    def _names(self) -> list[Name]:
        names = [(kind, key) for kind in DOCUMENTS for key in (*self._sessions, *self._runs, self._flow)]
        names += [("lease", workflow_lease(self._flow)), *(("facts", session) for session in self._sessions)]
        return names

    def now_ms(self) -> int:
        call = self._calls[_me()]
        call.now_ms = self._clock
        return call.now_ms

    def is_dead(self, holder: str) -> bool:
        call = self._calls[_me()]
        call.void = holder in self._dead
        return call.void

    def begins(self, locked: Collection[str]) -> None:
        call = self._calls[_me()]
        call.void = False
        self._under_way[_me()] = (call, locked)

    def ends(self, locked: Collection[str]) -> None:
        call, _ = self._under_way.pop(_me())
        before = dict(self._model.stored)
        self._model.apply(call, locked)
        for name in self._note(before):
            if call.kind != "renew":
                self._shaky[name].clear()
            else:  # a power cut may undo it
                self._shaky[name].append(before.get(name))
        if call.kind == "append" and call.answer == call.upto:
            self._shaky["facts", call.session].clear()

    def _note(self, before: dict[Name, Any]) -> list[Name]:
        after = self._model.stored
        changed = [name for name in before.keys() | after.keys() if before.get(name) != after.get(name)]
        for name in changed:
            self._history[name].append(after.get(name))
        return changed

    def _node(self, holder: str) -> Node:
        return Node(holder, gated(self._make(), self))

    def _live(self, name: str, number: int, node: Node, actor: Actor) -> None:
        chance = random.Random(f"{self._seed} {number}")
        node.actors.append(actor)
        if self._kills and chance.random() < 0.5:
            actor.doom = chance.randint(1, 80)
        try:
            self._work(chance, node, actor, number)
        except Died:
            if self.turns.cut:
                self._dead.add(node.holder)
                return
            self._bury(node, actor, number)
            self._drive(number, node.store.close())
            actor.doom, actor.dead = -1, False
            node = self._node(f"{name}.{number} again")
            with contextlib.suppress(Died):  # by a power cut
                self._work(chance, node, actor, number)
        self._drive(number, node.store.close())

    def _bury(self, node: Node, actor: Actor, number: int) -> None:
        """What the killed thread left must be what was there before its call, or after it."""
        if actor in self._under_way:
            call, locked = self._under_way.pop(actor)
            changes, before = self._model.changes(call, locked), dict(self._model.stored)
            found = self._drive(number, look(self._make(), list(changes)))
            for name, changed in changes.items():
                either = [before.get(name), changed, *(self._shaky[name] if name[0] == "lease" else ())]
                assert found.get(name) in either, f"killed in {call}, {name} is {found.get(name)}, none of {either}"
                self._model.stored.pop(name, None)
                if name in found:
                    self._model.stored[name] = found[name]
                self._shaky[name].append(before.get(name))  # nobody synced it yet
            self._note(before)
        self._calls.pop(actor, None)
        self._dead.add(node.holder)
        node.actors.remove(actor)
        for other in node.actors:
            other.doom = 1
        self.told.append(f"{node.holder} was killed")

    def _work(self, chance: random.Random, node: Node, actor: Actor, number: int) -> None:
        for _ in range(CALLS):
            what = chance.random()
            if what < 0.12:
                self._clock += chance.choice((1, 60, 3_000))
            elif what < 0.2:
                self.turns.pause(chance.choice((20, 100, 400)))
            elif what < 0.4:
                self._look(chance, node, number)
            else:
                self._call(self._chosen(chance, node), node, actor, number)

    def _look(self, chance: random.Random, node: Node, number: int) -> None:
        kind = chance.choice(READS)
        key = chance.choice({"session": self._sessions, "workflow": [self._flow]}.get(kind, self._runs))
        name = (kind, key)
        first = max(len(self._history[name]) - 1, self._floor[name])
        found = self._drive(number, read(node.store, name))
        self.steps += 1
        changes = [self._model.changes(*each) for each in self._under_way.values()]
        seen = [*self._history[name], *(each[name] for each in changes if name in each)]
        at = next((at for at, value in enumerate(seen) if at >= first and value == found), None)
        assert at is not None, f"{node.holder} read {name} as {found!r}, and there was only {seen[first:]}"
        self._floor[name] = min(at, len(self._history[name]))
        self.told.append(f"{node.holder} read {name}: {found}")
        if kind == "session":
            node.seen[key] = found

    def _call(self, call: Call, node: Node, actor: Actor, number: int) -> None:
        self._calls[actor] = call
        call.answer = False  # of a run that isn't there: its transaction is never begun
        try:
            found = self._drive(number, perform(node.store, call))
        except CodeError as error:
            found = error.code
        del self._calls[actor]
        self.steps += 1
        self.told.append(f"{node.holder} {call}: {plain(found)}")
        assert plain(found) == call.answer, f"{node.holder} did {call} and was told {plain(found)!r}"
        if isinstance(found, Lease):
            node.leases[found.session_id] = found
        elif call.kind in ("save", "cas") and found == call.answer is not None:
            node.seen[call.session] = call.value

    def _chosen(self, chance: random.Random, node: Node) -> Call:
        self._value += 1
        session = chance.choices((*self._sessions, workflow_lease(self._flow)), (5, 1, 2))[0]
        lease = node.leases.get(session)
        ttl = chance.choice((1, 50, 5_000))
        if lease is None or chance.random() < 0.1:
            return Call("acquire", session, holder=node.holder, ttl=ttl)
        epoch = lease.epoch if chance.random() < 0.9 else max(1, lease.epoch - 1)
        held = tuple(node.leases.values())
        if chance.random() < 0.2:
            return chance.choice((Call("renew", ttl=ttl, leases=held), Call("release", leases=(lease,))))
        if session.startswith("workflow:"):
            return Call("flow", run=self._flow, epoch=epoch, value=self._value)
        run, upto = chance.choice(self._runs), chance.randint(1, 12)
        kinds = ("save", "cas", "append", "admit", "settle", "drop", "post", "take", "answer", "delete")
        kind = chance.choices(kinds, (3, 4, 4, 3, 2, 1, 2, 2, 2, 0.5))[0]
        return Call(
            kind,
            session,
            run,
            epoch=epoch,
            value=chance.randint(1, 6) if kind in ("post", "answer") else self._value,
            seen=node.seen.get(session),
            at=chance.randint(0, upto) if chance.random() < 0.5 else 0,
            upto=upto,
        )


def _me() -> Actor:
    actor = current()
    assert actor is not None, "the stores of a race are used by its threads"
    return actor


async def look(store: AnyStore, names: Sequence[Name]) -> dict[Name, Any]:
    """What is stored under these names, past the gates."""

    async def rule(tx: Transaction) -> dict[Name, Any]:
        found: dict[Name, Any] = {}
        for kind, key in names:
            value: Any = None
            if kind == "facts":
                value = await tx.last_below(key, 1 << 40) or None
            else:
                value = plain(await store._load(tx, DOCUMENTS[kind], key))
            if value is not None:
                found[kind, key] = value
        return found

    read_at_once = await ungated(store).transact((), rule)
    await store.close()
    return read_at_once
