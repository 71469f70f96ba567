"""Asking something of a session that somebody else holds (durability.md). In: a request. Out: what became of it.

One rule: a request is checked before it is posted, and what was posted is there until its holder has answered it.
Known weakness: who waits for an answer looks again and again, at most twice a second.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from a3s_code.core.content import JsonObject
from a3s_code.core.documents import ControlReceipt, ControlRequest
from a3s_code.engine.control import options_of
from a3s_code.engine.inbox import PAYLOADS, Direct
from a3s_code.errors import CodeError
from a3s_code.ports.clock import Clock
from a3s_code.ports.store import SessionStore

_FIRST_LOOK_S: Final = 0.01
_SLOWEST_S: Final = 0.5


def request_of(given: Mapping[str, Any], new_id: str, now_ms: int) -> ControlRequest:
    """``INVALID_REQUEST`` says what is wrong with it."""
    if not isinstance(given, Mapping):
        raise CodeError(f"a control request is a mapping, got {type(given).__name__}", "INVALID_REQUEST")
    members = dict(given)
    kind, request_id = members.pop("kind", None), members.pop("request_id", None)
    if kind not in PAYLOADS:
        raise CodeError(
            f"a control request's kind is one of {', '.join(PAYLOADS)}, got {kind!r:.60}", "INVALID_REQUEST"
        )
    if request_id is not None and (not isinstance(request_id, str) or not request_id):
        raise CodeError(f"request_id: expected text that is not empty, got {request_id!r:.60}", "INVALID_REQUEST")
    try:
        payload = msgspec.convert(members, PAYLOADS[kind])
        plain: JsonObject = {name: value for name, value in msgspec.to_builtins(payload).items() if name in members}
    except (msgspec.ValidationError, TypeError) as error:
        raise CodeError(f"control request {kind}: {error}", "INVALID_REQUEST") from None
    if isinstance(payload, Direct):
        options_of(payload.options)
        if (kind == "steer") != bool(payload.text.strip()):
            wanted = "needs text that is not blank" if kind == "steer" else "takes no text"
            raise CodeError(f"control request {kind}: {wanted}", "INVALID_REQUEST")
    return ControlRequest(request_id or new_id, kind, plain, now_ms)


async def post(store: SessionStore, session_id: str, request: ControlRequest, wait_ms: int, clock: Clock) -> JsonObject:
    """The receipt; one of state ``posted`` while nobody has answered."""
    if not store.capabilities().control_inbox:
        raise CodeError(f"{store!r} has no control inbox", "INVALID_REQUEST")
    until = clock.monotonic() + wait_ms / 1000
    receipt = await store.post_control(session_id, request)
    pause = _FIRST_LOOK_S
    while receipt is None or receipt.state == "accepted":
        left = until - clock.monotonic()
        if left <= 0:
            break
        await clock.sleep(min(pause, left))
        pause = min(pause * 2, _SLOWEST_S)
        receipt = await store.load_receipt(session_id, request.request_id)
    return _shown(receipt or ControlReceipt(request.request_id, request.kind, "posted"))


def _shown(receipt: ControlReceipt) -> JsonObject:
    shown: JsonObject = msgspec.structs.asdict(receipt)
    return shown
