"""A recorded log as the loop meets it again. In: its lines. Out: ports.FactLog and ports.HostEnv that compare.

Ids and times are those of the fact that is to come next. Each fact that the loop writes is encoded anew and must be
the recorded line; the first that is not ends the replay.

One rule: nothing here decides; it gives what was recorded and compares bytes.
Known weakness: the whole log is held in memory.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence

import msgspec
from msgspec.structs import replace

from a3s_code.core.codec import Header, Line, encode
from a3s_code.core.content import Call, JsonObject
from a3s_code.core.evidence import with_evidence
from a3s_code.core.facts import CallJudged, Fact, FactData, ModelTurn, RunOpened, ToolResulted, ToolStarted
from a3s_code.errors import StoreError
from a3s_code.ports.log import Position


class Difference(msgspec.Struct, frozen=True):
    """Where a replay left the record: fact ``seq``. ``made`` is the line that came out, empty when there is none;
    ``recorded`` the line of the log, empty behind its end. ``why`` says it in words."""

    seq: int
    why: str
    recorded: bytes = b""
    made: bytes = b""


class Left(StoreError):
    """The loop has left the record; ends the run, since nothing more can be written."""


class Tape:
    """``at`` counts the facts that were written or taken; ``end`` is where the present stretch ends."""

    path = "the recorded log"
    fixed = False

    def __init__(self, header: Header, lines: Sequence[Line]) -> None:
        self.lines = lines
        self.logic = header.logic
        self.at = 0
        self.end = 0
        self.difference: Difference | None = None
        self.turn: ModelTurn | None = None
        self.on_move: Callable[[], None] = _nobody
        self.results = {f.data.call: f.data for f in self._facts() if isinstance(f.data, ToolResulted)}
        self.starts = {f.data.call: f.data for f in self._facts() if isinstance(f.data, ToolStarted)}
        self._begun: set[str] = set()
        self._judged: dict[str, JsonObject] = {}
        self._taken: list[Fact] = []
        self._asked = 0
        self._run_ids: list[str] = []
        self._seconds = 0.0
        self._moved = asyncio.Event()

    def _facts(self) -> Iterator[Fact]:
        return (line.fact for line in self.lines)

    @property
    def next(self) -> FactData | None:
        """What the stretch holds next."""
        return self.lines[self.at].fact.data if self.at < self.end else None

    def take(self, end: int) -> None:
        """Moves on to ``end`` as if another writer had added the facts up to there."""
        for line in self.lines[self.at : end]:
            self._taken.append(line.fact)
            self._note(line.fact.data)  # a run that goes on with what was taken looks for its calls
        self.at = self.end = self._asked = end

    def left(self, why: str, made: bytes = b"") -> Left:
        """Notes where the replay left the record, unless it had before; gives the error that ends the run."""
        if self.difference is None:
            recorded = self.lines[self.at].raw if self.at < len(self.lines) else b""
            self.difference = Difference(self.at + 1, why, recorded, made)
        return Left(f"fact {self.difference.seq}: {self.difference.why}")

    # -- ports.HostEnv ------------------------------------------------------------------------------------------

    def seen(self, name: str) -> None:
        """Recorded ids are given in their order, whatever was seen."""

    def now_ms(self) -> int:
        return self.lines[min(self.at, len(self.lines) - 1)].fact.ts

    def new_id(self) -> str:
        if self._run_ids:
            return self._run_ids.pop()
        self._asked += 1
        return self.lines[self._asked - 1].fact.id if self._asked <= len(self.lines) else f"new-{self._asked}"

    def give_run_id(self, run_id: str) -> None:
        """The id that is asked for next is a run's."""
        self._run_ids.append(run_id)

    # -- ports.FactLog ------------------------------------------------------------------------------------------

    @property
    def position(self) -> Position:
        return Position(self.at, self.lines[self.at - 1].sum if self.at else "")

    def exists(self) -> bool:
        return False

    def read(self, after: Position | None = None) -> Iterator[Fact]:
        return iter(())

    def holds(self, position: Position) -> bool:
        return True

    def acquire(self) -> list[Fact]:
        taken, self._taken = self._taken, []
        return taken

    def append(self, facts: Sequence[Fact]) -> list[Fact]:
        for fact in facts:
            raw, _ = encode(fact, self.position.sum)
            made = raw.removesuffix(b"\n")
            if self.at >= self.end:
                raise self.left(f"the loop goes on with a {fact.kind} where the recorded run ends", made)
            if made != self.lines[self.at].raw and not self._older(fact):
                raise self.left("the loop wrote another fact than the recorded one", made)
            self._note(fact.data)
            self.at += 1
        self._asked = self.at
        moved, self._moved = self._moved, asyncio.Event()
        moved.set()
        self.on_move()
        return [line.fact for line in self.lines[self.at - len(facts) : self.at]]

    def _older(self, fact: Fact) -> bool:
        """Whether the record is the same fact from when whole outputs had their evidence beside them."""
        data, recorded = fact.data, self.lines[self.at].fact.data
        if not isinstance(data, ToolResulted) or not isinstance(recorded, ToolResulted):
            return False
        older = replace(fact, data=replace(data, metadata=with_evidence(data.name, data.output, data.metadata)))
        return encode(older, self.position.sum)[0].removesuffix(b"\n") == self.lines[self.at].raw

    async def sync(self) -> None:
        """Nothing is on a disk."""

    def read_shortcut(self) -> bytes | None:
        return None

    def write_shortcut(self, data: bytes) -> None:
        """A replay leaves nothing behind."""

    def release(self) -> None:
        """Nothing is held."""

    # -- what the players ask -----------------------------------------------------------------------------------

    def _note(self, data: FactData) -> None:
        match data:
            case ModelTurn():
                self.turn = data
            case CallJudged(call=call, args=args):
                self._judged[call] = args
            case ToolStarted(call=call):
                self._begun.add(call)
            case ToolResulted(call=call):
                self._begun.discard(call)
                self._seconds = 0.0

    def context(self) -> dict[str, str]:
        """What stood behind the run that is opened next."""
        return self.next.context if isinstance(self.next, RunOpened) else {}

    def call(self, name: str, args: JsonObject) -> Call:
        """The call of the turn at hand with this name and these arguments; ``Left`` when there is none."""
        turn = self.next if isinstance(self.next, ModelTurn) else self.turn
        for call in turn.calls if turn else ():
            if call.name == name and args in (call.args, self._rewritten(call.id)):
                return replace(call, args=args)
        raise self.left(f"the loop judges a call of '{name}' that the recorded turn doesn't have")

    def _rewritten(self, call_id: str) -> JsonObject | None:
        """What a hook made of the arguments, or is about to."""
        judged = self.next
        if isinstance(judged, CallJudged) and judged.call == call_id:
            return judged.args
        return self._judged.get(call_id)

    def refusal(self, call: Call) -> ToolResulted | None:
        """The recorded result of an allowed call that was refused before it began."""
        result = self.results.get(call.id)
        refused = result is not None and call.id not in self.starts and call.verdict.decision != "deny"
        return result if refused and result is not None and result.outcome in ("error", "denied") else None

    async def result(self, call_id: str) -> ToolResulted:
        """The recorded result of a call at work, once all that came before it are written."""
        result = self.results.get(call_id)
        if result is None:
            raise self.left(f"the loop runs the call {call_id}, which has no recorded result")
        while isinstance(self.next, ToolResulted) and self.next.call != call_id and self.next.call in self._begun:
            await self._moved.wait()
        self._seconds = result.took_ms / 1000
        return result

    def seconds(self) -> float:
        """What the kernel's stopwatch shows: calls begin at 0, and end when their result says."""
        return self._seconds


def _nobody() -> None:
    """Nobody waits for facts yet."""
