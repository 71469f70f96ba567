"""Threads that take turns as a seed says. In: programs, and gates in what they call. Out: one schedule, the same again.

Only the thread whose turn it is runs; at each gate the seed decides whether it goes on, pauses, or dies.

One rule: nothing but the seed decides who runs next.
Known weakness: what happens between two gates is never interleaved.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Sequence
from typing import Final

_STUCK: Final = 200_000
"""Gates of one schedule, after which it is taken for one that doesn't end."""

_PATIENCE: Final = 60.0
"""Seconds that a thread may run between two gates."""


class Died(BaseException):
    """Met by a thread at the gate where its process is killed."""


class Given(BaseException):
    """Met by the other threads once one has failed."""


class Actor:
    """One thread. ``doom`` is the number of gates after which it is killed (-1: never); ``dead`` once it was: it then
    passes gates freely, so that it can give up what the operating system would take from it."""

    def __init__(self, turns: Turns, program: Callable[[Actor], None]) -> None:
        self.doom = -1
        self.dead = False
        self.trying = False
        self.asleep_until = 0
        self.finished = False
        self._turns = turns
        self._program = program
        self._turn = threading.Lock()
        self._turn.acquire()
        self.thread = threading.Thread(target=self._run, daemon=True)

    def wake(self) -> None:
        self._turn.release()

    def wait(self) -> None:
        if not self._turn.acquire(timeout=_PATIENCE):
            raise AssertionError("the thread whose turn it is waits for something that no gate shows")

    def _run(self) -> None:
        _local.actor = self
        try:
            self.wait()
            self._program(self)
        except Given:
            self.finished = True
        except BaseException as error:  # noqa: BLE001  whatever it is, the proof has failed and must say so
            self._turns.fail(error)
        self.finished = True
        self._turns.leave()


class Turns:
    """``points`` counts the gates that were passed. At ``cut_at`` (0: never) the power is ``cut``: all die."""

    def __init__(self, seed: str) -> None:
        self.points = 0
        self.trace = 0
        self.cut_at = 0
        self.cut = False
        self._random = random.Random(seed)
        self._switch = self._random.choice((0.02, 0.1, 0.3, 0.7))
        self._actors: list[Actor] = []
        self._failure: BaseException | None = None
        self._done = threading.Event()

    def run(self, programs: Sequence[Callable[[Actor], None]]) -> None:
        """Until all programs have ended; raises what the first of them to fail raised."""
        self._actors = [Actor(self, program) for program in programs]
        for actor in self._actors:
            actor.thread.start()
        self._random.choice(self._actors).wake()
        self._done.wait()
        for actor in self._actors:
            actor.thread.join()
        if self._failure is not None:
            raise self._failure

    def gate(self) -> None:
        """A place where another thread may go on instead, or this one dies."""
        actor = current()
        if actor is None or actor.dead:
            return
        self._count()
        self.cut = self.cut or self.points == self.cut_at
        actor.doom -= actor.doom > 0
        if self.cut or actor.doom == 0:
            self._die(actor)
        if self._random.random() < self._switch:
            self._hand_over(actor, self._ready())

    def blocked(self) -> None:
        """The caller waits for what another thread has: somebody else goes on."""
        actor = current()
        assert actor is not None, "only threads of a schedule wait"
        self._count()
        others = [each for each in self._ready() if each is not actor] or [
            min((each for each in self._living() if each is not actor), key=lambda each: each.asleep_until)
        ]
        self._hand_over(actor, others)
        if self.cut:
            self._die(actor)

    def pause(self, points: int) -> None:
        """As a process that was stopped: the others pass so many gates first, if they are able to."""
        actor = current()
        assert actor is not None, "only threads of a schedule pause"
        actor.asleep_until = self.points + points
        self.gate()

    def _die(self, actor: Actor) -> None:
        actor.dead = True
        raise Died

    def fail(self, error: BaseException) -> None:
        self._failure = self._failure or error

    def leave(self) -> None:
        living = self._living()
        if living:
            self._random.choice(self._ready() or living).wake()
        else:
            self._done.set()

    def _count(self) -> None:
        if self._failure is not None:
            raise Given
        self.points += 1
        if self.points > _STUCK:
            raise AssertionError("the schedule doesn't end")

    def _hand_over(self, actor: Actor, candidates: list[Actor]) -> None:
        chosen = self._random.choice(candidates) if candidates else actor
        self.trace = hash((self.trace, self._actors.index(chosen), self.points))
        if chosen is not actor:
            chosen.wake()
            actor.wait()
            if self._failure is not None:
                raise Given

    def _living(self) -> list[Actor]:
        return [actor for actor in self._actors if not actor.finished]

    def _ready(self) -> list[Actor]:
        return [actor for actor in self._living() if actor.asleep_until <= self.points]


_local = threading.local()


def current() -> Actor | None:
    """The actor of this thread."""
    found: Actor | None = getattr(_local, "actor", None)
    return found
