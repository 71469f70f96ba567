"""Steering a run at work (facts.md, *Steer and interrupt*). In: requests of a host. Out: receipts.

One rule: an accepted request is remembered under its id: the same request again gives the recorded receipt, another
one under that id is refused; a request that is not accepted raises and leaves nothing behind.
Known weakness: receipts live in memory; after a restart an id that was used before counts as new.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, TypeAlias

import msgspec

from a3s_code.core.content import JsonObject
from a3s_code.core.decide import next_step
from a3s_code.core.facts import UserSaid
from a3s_code.core.steps import Infer, Settle, Step
from a3s_code.engine.active import ActiveRun
from a3s_code.engine.perform import result_of
from a3s_code.errors import CodeError

INBOX: Final = 64
REMEMBERED: Final = 1024
Kind: TypeAlias = Literal["steer", "interrupt"]
State: TypeAlias = Literal["accepted", "applied", "settled", "rejected"]


class Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a request may say; times are Unix milliseconds."""

    request_id: str | None = None
    run_id: str | None = None
    expected_turn_id: str | None = None
    expected_turn_revision: int | None = None
    deadline_ms: int | None = None
    reason: str | None = None


class Receipt(msgspec.Struct):
    request_id: str
    run_id: str
    kind: Kind
    state: State
    accepted_ms: int
    code: str | None = None

    def public(self) -> JsonObject:
        return msgspec.structs.asdict(self)


class _Waiting(msgspec.Struct, frozen=True):
    receipt: Receipt
    text: str
    deadline_ms: int | None


class Control:
    """The control inbox of one session."""

    def __init__(self, now_ms: Callable[[], int], new_id: Callable[[], str]) -> None:
        self._now_ms = now_ms
        self._new_id = new_id
        self._waiting: list[_Waiting] = []
        self._known: OrderedDict[str, tuple[tuple[Any, ...], Receipt]] = OrderedDict()

    def steer(self, run: ActiveRun | None, text: str, options: Options) -> Receipt:
        """Queues a direction for the next provider call."""
        receipt, known = self._accept(run, "steer", text, options)
        if not known:
            self._waiting.append(_Waiting(receipt, text, options.deadline_ms))
        return receipt

    def interrupt(self, run: ActiveRun | None, options: Options) -> Receipt:
        """Cancels the run's work cooperatively."""
        receipt, known = self._accept(run, "interrupt", options.reason or "", options)
        if not known and run is not None:
            receipt.state = "applied"
            run.token.cancel(options.reason or "the run was interrupted")
        return receipt

    def _accept(self, run: ActiveRun | None, kind: Kind, text: str, options: Options) -> tuple[Receipt, bool]:
        payload = (kind, text, options.run_id, options.expected_turn_id, options.expected_turn_revision)
        if options.request_id is not None and options.request_id in self._known:
            recorded, receipt = self._known[options.request_id]
            if recorded != payload:
                raise _refused("DUPLICATE_REQUEST", f"request '{options.request_id}' was made with another payload")
            return receipt, True
        if run is None or run.token.is_cancelled():
            raise _refused("NO_ACTIVE_RUN", "no run is at work")
        self._check(run, kind, options)
        receipt = Receipt(options.request_id or self._new_id(), run.id, kind, "accepted", self._now_ms())
        self._known[receipt.request_id] = (payload, receipt)
        while len(self._known) > REMEMBERED:
            self._known.popitem(last=False)
        return receipt, False

    def _check(self, run: ActiveRun, kind: Kind, options: Options) -> None:
        if options.run_id is not None and options.run_id != run.id:
            raise _refused("RUN_MISMATCH", f"the run at work is '{run.id}', not '{options.run_id}'")
        turn_id, revision = turn_of(run)
        if options.expected_turn_id not in (None, turn_id) or options.expected_turn_revision not in (None, revision):
            raise _refused("STALE_TURN", f"the run is at {turn_id or 'no turn yet'}, revision {revision}")
        if options.deadline_ms is not None and options.deadline_ms <= self._now_ms():
            raise _refused("DEADLINE_EXCEEDED", "the request's deadline has passed")
        if kind == "steer" and len(self._waiting) >= INBOX:
            raise _refused("QUEUE_FULL", f"{INBOX} steers are waiting already")

    def apply(self, run: ActiveRun, step: Step) -> bool:
        """Takes in what waits, if ``step`` is a point for it: right before a provider call, or where the run would
        settle. True when the log changed, so that the next step has to be chosen anew."""
        settles = isinstance(step, Settle) and step.status == "completed"
        if not self._waiting or not (settles or isinstance(step, Infer)):
            return False
        ready = [item for item in self._taken() if self._in_time(item)]
        if not ready:
            return False
        closing = [result_of(item) for item in step.results] if isinstance(step, Settle) else []
        said = [UserSaid(item.text, "steer", request_id=item.receipt.request_id) for item in ready]
        run.append(*closing, *said)
        for item in ready:
            item.receipt.state = "applied"
        return True

    def end(self, run_id: str) -> None:
        """The run has settled: what waited can't be applied any more."""
        for item in self._taken():
            item.receipt.state, item.receipt.code = "rejected", "NO_ACTIVE_RUN"
        for _, receipt in self._known.values():
            if receipt.run_id == run_id and receipt.state == "applied":
                receipt.state = "settled"

    def pending(self) -> int:
        return len(self._waiting)

    def _taken(self) -> list[_Waiting]:
        taken, self._waiting = self._waiting, []
        return taken

    def _in_time(self, item: _Waiting) -> bool:
        if item.deadline_ms is None or item.deadline_ms > self._now_ms():
            return True
        item.receipt.state, item.receipt.code = "rejected", "DEADLINE_EXCEEDED"
        return False


def turn_of(run: ActiveRun) -> tuple[str | None, int]:
    """The model turn at work and its revision; none before the first."""
    return (f"turn-{run.turn}", run.turn) if run.turn else (None, 0)


def snapshot(run: ActiveRun, pending: int) -> JsonObject:
    """api.md, *Run control*."""
    turn_id, revision = turn_of(run)
    phase = next_step(run.view, run.rules).phase
    return {"run_id": run.id, "turn_id": turn_id, "turn_revision": revision, "phase": phase, "pending": pending}


def options_of(given: Mapping[str, Any] | Options | None) -> Options:
    """``INVALID_REQUEST`` for an unknown key or a wrong type."""
    if isinstance(given, Options):
        return given
    try:
        return msgspec.convert(dict(given or {}), Options)
    except (msgspec.ValidationError, TypeError, ValueError) as error:
        raise CodeError(f"run control options: {error}", "INVALID_REQUEST") from None


def _refused(code: str, why: str) -> CodeError:
    return CodeError(f"run control: {why}", code)
