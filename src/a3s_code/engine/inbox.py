"""What others post for a session that is held here (durability.md, ``post_control``). In: requests. Out: receipts.

One rule: a request is answered when what it asks for can't be lost any more: until then whoever holds the session next
gets it again, and finds out from the log whether it was done.
Known weakness: the log is read whole for that, once for a holder that takes over.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from a3s_code.core.content import JsonObject
from a3s_code.core.facts import ConfirmationAnswered, Fact, QuestionAnswered, UserSaid
from a3s_code.engine.control import Options, Receipt, options_of
from a3s_code.engine.persistence import Persistence
from a3s_code.errors import CodeError, LeaseLost, SessionClosed
from a3s_code.ports.store import ControlReceipt, ControlRequest
from a3s_code.ports.tasks import spawn

if TYPE_CHECKING:
    from a3s_code.engine.session import EngineSession

NEEDS_A_RUN: Final = ("steer", "interrupt")
_log = logging.getLogger("a3s_code")


class Inbox:
    """One a session with a store, on its home loop. Requests are handled one after the other."""

    def __init__(self, session: EngineSession, keeper: Persistence) -> None:
        self._session = session
        self._keeper = keeper
        self._waiting: deque[ControlRequest] = deque()
        self._work: asyncio.Task[None] | None = None
        self._ready = False
        self._posted: dict[str, ControlRequest] = {}
        self._late: list[ControlRequest] = []
        self._leaving: ControlRequest | None = None
        self._receipts: set[asyncio.Task[None]] = set()
        session.control.changed = self._changed

    async def taken_over(self, *, resuming: bool) -> None:
        """Takes in what waits for a session that this process holds from now on. What is told of meanwhile comes
        after it."""
        requests = await self._taken()
        done = await self._session.parts.callbacks.in_thread(self._done, requests) if requests else ()
        for request in requests:
            if request.request_id in done:
                await self._answer(request, "applied")
            elif request.kind == "passivate":
                await self._answer(request, "settled")  # whoever was asked is gone
            elif resuming and request.kind in NEEDS_A_RUN:
                self._late.append(request)
            else:
                await self._handled(request)
        self._ready = True
        self.add(())

    async def _taken(self) -> Sequence[ControlRequest]:
        """Nothing when the store fails: it is asked again while the lease is renewed."""
        try:
            epoch = self._keeper.holding.epoch
            if epoch is not None:
                return await self._keeper.store.take_control(self._session.parts.session_id, epoch)
        except LeaseLost:
            raise
        except Exception as error:  # noqa: BLE001  the store may be a host's own, and no failure of it ends a run
            _log.warning("a control inbox can't be read: %s: %s", type(error).__name__, error)
        return ()

    async def deliver(self) -> None:
        """What waited for the run that is resumed, before its first step."""
        late, self._late = self._late, []
        for request in late:
            await self._handled(request)

    def add(self, requests: Sequence[ControlRequest]) -> None:
        self._waiting.extend(requests)
        if self._waiting and self._ready and self._work is None:
            self._work = spawn(self._all(), "control requests")

    async def closed(self) -> None:
        """Returns once nothing is being answered. What wasn't taken up is left for the next holder."""
        self._waiting.clear()
        if self._work is not None:
            await self._work
        if self._receipts:
            await asyncio.wait(self._receipts)
        if self._leaving is not None:
            await self._answer(self._leaving, "settled")

    async def _all(self) -> None:
        try:
            while self._waiting:
                await self._handled(self._waiting.popleft())
        finally:
            self._work = None

    def _done(self, requests: Sequence[ControlRequest]) -> set[str]:
        """Those that an earlier holder carried out without answering them. Blocks."""
        log = self._session.parts.log
        facts = log.read() if log.exists() else ()
        keys = {_key_of(fact) for fact in facts}
        return {request.request_id for request in requests if _key(request) in keys}

    async def _handled(self, request: ControlRequest) -> None:
        try:
            match request.kind:
                case "confirm" | "answer":
                    await self._answer_call(request)
                case "steer" | "interrupt":
                    await self._direct(request)
                case "passivate":
                    await self._passivate(request)
                case _:
                    await self._refuse(request, f"this version knows no request of kind {request.kind!r}")
        except SessionClosed:
            return  # it waits for the next holder
        except (CodeError, msgspec.ValidationError, TypeError) as error:
            code = error.code if isinstance(error, CodeError) else "INVALID_REQUEST"
            await self._refuse(request, str(error), code)

    async def _answer_call(self, request: ControlRequest) -> None:
        if request.kind == "confirm":
            given = msgspec.convert(request.payload, Confirm)
            done = await self._session.confirm(given.tool_id, given.approved, given.reason)
        else:
            said = msgspec.convert(request.payload, Answer)
            done = await self._session.answer(said.tool_id, said.answer)
        if done:
            await self._answer(request, "applied")
        else:
            await self._refuse(request, f"no such call waits: {request.payload.get('tool_id')!r}")

    async def _direct(self, request: ControlRequest) -> None:
        """A steer is answered when it is in the conversation, an interrupt when the run has ended."""
        given = msgspec.convert(request.payload, Direct)
        options: Options = msgspec.structs.replace(options_of(given.options), request_id=request.request_id)
        self._posted[request.request_id] = request
        try:
            if request.kind == "steer":
                receipt = await self._session.control_run("steer", given.text, options)
            else:
                receipt = await self._session.control_run("interrupt", "", options)
        except BaseException:
            del self._posted[request.request_id]
            raise
        self._changed(receipt)  # one that this session knew already may change no more

    def _changed(self, receipt: Receipt) -> None:
        request = self._posted.get(receipt.request_id)
        if request is None or (request.kind, receipt.state) == ("interrupt", "applied"):
            return
        if receipt.state != "accepted":
            del self._posted[receipt.request_id]
            now = msgspec.structs.replace(receipt)  # it goes on changing
            task = spawn(self._kept(request, now), "the receipt of a control request")
            self._receipts.add(task)
            task.add_done_callback(self._receipts.discard)

    async def _kept(self, request: ControlRequest, receipt: Receipt) -> None:
        if receipt.state == "applied":
            await self._session.writer.durable()
            await self._keeper.answered(receipt.run_id, self._session.active)
        await self._answer(request, receipt.state, receipt.run_id, receipt.code)

    async def _passivate(self, request: ControlRequest) -> None:
        given = msgspec.convert(request.payload, Passivate)
        self._session.check_open()
        await self._answer(request, "accepted")
        self._leaving = request
        spawn(self._session.passivate(given.deadline_ms), "passivating as asked")

    async def _refuse(self, request: ControlRequest, why: str, code: str = "INVALID_REQUEST") -> None:
        await self._answer(request, "rejected", None, code, {"message": why})

    async def _answer(
        self,
        request: ControlRequest,
        state: str,
        run_id: str | None = None,
        code: str | None = None,
        detail: JsonObject | None = None,
    ) -> None:
        now = self._session.parts.env.now_ms()
        receipt = ControlReceipt(request.request_id, request.kind, state, now, run_id, code, detail or {})
        try:
            epoch = self._keeper.holding.epoch
            await self._keeper.store.answer_control(self._session.parts.session_id, receipt, epoch)
        except LeaseLost as error:
            self._keeper.lost(error)
        except Exception as error:  # noqa: BLE001  the store may be a host's own; the next holder gets the request again
            _log.warning("request %s was not answered: %s", request.request_id, error)


class Confirm(msgspec.Struct, forbid_unknown_fields=True):
    """``confirm_tool_use``."""

    tool_id: str
    approved: bool
    reason: str | None = None


class Answer(msgspec.Struct, forbid_unknown_fields=True):
    """``answer_question``."""

    tool_id: str
    answer: str


class Direct(msgspec.Struct, forbid_unknown_fields=True):
    """``steer`` and ``interrupt``; ``options`` as there, but for ``request_id``."""

    text: str = ""
    options: JsonObject = {}


class Passivate(msgspec.Struct, forbid_unknown_fields=True):
    """``passivate``."""

    deadline_ms: int | None = None


PAYLOADS: Final = {"confirm": Confirm, "answer": Answer, "steer": Direct, "interrupt": Direct, "passivate": Passivate}
"""What each kind of request takes."""


def _key(request: ControlRequest) -> str:
    """What a fact that came of the request says of it. Whoever reaches the store may have written the payload."""
    payload = request.payload
    match request.kind:
        case "steer":
            return repr(("steer", request.request_id))
        case "confirm":
            return repr(("confirm", payload.get("tool_id"), payload.get("approved")))
        case _:
            return repr((request.kind, payload.get("tool_id"), payload.get("answer")))


def _key_of(fact: Fact) -> str:
    match fact.data:
        case UserSaid(source="steer", request_id=request_id):
            return repr(("steer", request_id))
        case ConfirmationAnswered(call=call, approved=approved):
            return repr(("confirm", call, approved))
        case QuestionAnswered(call=call, answer=answer):
            return repr(("answer", call, answer))
        case _:
            return ""
