"""Steering a run at work (facts.md, *Steer and interrupt*). In: requests of a host. Out: receipts.

One rule: an accepted request is remembered under its id: the same request again gives the recorded receipt, another
one under that id is refused; a request that is not accepted raises and leaves nothing behind.
Known weakness: receipts live in memory; after a restart an id that was used before counts as new.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final, Literal, TypeAlias

import msgspec
from msgspec.structs import replace

from a3s_code.core.content import JsonObject
from a3s_code.core.decide import next_step
from a3s_code.core.facts import UserSaid
from a3s_code.core.steps import Infer, Settle, Step
from a3s_code.engine import points
from a3s_code.engine.active import ActiveRun
from a3s_code.engine.firing import Firing
from a3s_code.engine.token import Interrupted
from a3s_code.engine.tool_calls import result_of
from a3s_code.errors import CodeError
from a3s_code.ports.hooks import Denied

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

    def __init__(self, now_ms: Callable[[], int], new_id: Callable[[], str], firing: Firing) -> None:
        self._firing = firing
        self._denied: OrderedDict[str, tuple[tuple[Any, ...], Denied]] = OrderedDict()
        self._now_ms = now_ms
        self._new_id = new_id
        self.changed: Callable[[Receipt], None] | None = None
        self._waiting: list[_Waiting] = []
        self._known: OrderedDict[str, tuple[tuple[Any, ...], Receipt]] = OrderedDict()

    async def ask(self, run: ActiveRun | None, kind: Kind, text: str, given: Options) -> Options:
        """``pre_run_control``, for a request that would be accepted now and isn't known yet; ``HookDenied`` when a hook
        refuses it. Gives the options with the id that the hooks were told."""
        if not self._firing.wants("pre_run_control"):
            return given
        options = given if given.request_id else replace(given, request_id=self._new_id())
        payload = _payload(kind, text, options)
        if self._recorded(payload, options) is not None or run is None or run.token.is_cancelled():
            return options
        self._check(run, kind, options)
        said = text if kind == "steer" else None
        asked: JsonObject = {"kind": kind, "request_id": options.request_id, "text": said, "reason": options.reason}
        with suppress(Interrupted):
            gated = await self._firing.gate("pre_run_control", asked, run.token, run.id)
            if gated.denied is not None:
                self._denied[str(options.request_id)] = (payload, gated.denied)
                while len(self._denied) > REMEMBERED:
                    self._denied.popitem(last=False)
                raise points.denial(gated.denied)
        return options

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
            self._become(receipt, "applied")
            run.token.cancel(options.reason or "the run was interrupted")
        return receipt

    def _accept(self, run: ActiveRun | None, kind: Kind, text: str, options: Options) -> tuple[Receipt, bool]:
        payload = _payload(kind, text, options)
        if (known := self._recorded(payload, options)) is not None:
            return known, True
        if run is None or run.token.is_cancelled():
            raise _refused("NO_ACTIVE_RUN", "no run is at work")
        self._check(run, kind, options)
        receipt = Receipt(options.request_id or self._new_id(), run.id, kind, "accepted", self._now_ms())
        self._known[receipt.request_id] = (payload, receipt)
        while len(self._known) > REMEMBERED:
            self._known.popitem(last=False)
        self._tell(receipt)
        return receipt, False

    def _recorded(self, payload: tuple[Any, ...], options: Options) -> Receipt | None:
        """What an earlier request of this id came to; raises what it raised."""
        name = options.request_id or ""
        found, denied = self._known.get(name), self._denied.get(name)
        recorded = found or denied
        if recorded is not None and recorded[0] != payload:
            raise _refused("DUPLICATE_REQUEST", f"request '{name}' was made with another payload")
        if denied is not None:
            raise points.denial(denied[1])
        return found[1] if found is not None else None

    def _tell(self, receipt: Receipt) -> None:
        if self.changed is not None:
            self.changed(receipt)
        payload: JsonObject = {"kind": receipt.kind, "request_id": receipt.request_id, "state": receipt.state}
        self._firing.note("post_run_control", payload, receipt.run_id)

    def _become(self, receipt: Receipt, state: State, code: str | None = None) -> None:
        receipt.state, receipt.code = state, code
        self._tell(receipt)

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
            self._become(item.receipt, "applied")
        return True

    def end(self, run_id: str) -> None:
        """The run has settled: what waited can't be applied any more."""
        for item in self._taken():
            self._become(item.receipt, "rejected", "NO_ACTIVE_RUN")
        for _, receipt in self._known.values():
            if receipt.run_id == run_id and receipt.state == "applied":
                self._become(receipt, "settled")

    def pending(self) -> int:
        return len(self._waiting)

    def _taken(self) -> list[_Waiting]:
        taken, self._waiting = self._waiting, []
        return taken

    def _in_time(self, item: _Waiting) -> bool:
        if item.deadline_ms is None or item.deadline_ms > self._now_ms():
            return True
        self._become(item.receipt, "rejected", "DEADLINE_EXCEEDED")
        return False


def _payload(kind: Kind, text: str, options: Options) -> tuple[Any, ...]:
    """What makes two requests of one id the same."""
    said = text if kind == "steer" else options.reason or ""
    return (kind, said, options.run_id, options.expected_turn_id, options.expected_turn_revision)


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
