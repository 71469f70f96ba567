"""The rules of leases and control inboxes. In: what is stored, a request and the time. Out: what to store instead.

One rule: an epoch only grows, and only the one given last may write.
Known weakness: of the requests that were answered only the newest 256 are remembered.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from a3s_code.core.content import JsonObject
from a3s_code.core.documents import ControlReceipt, ControlRequest, Inbox, Lease
from a3s_code.errors import CodeError, LeaseLost, SessionBusy

INBOX: Final = 64
"""Requests that may wait."""

REMEMBERED: Final = 256
"""Receipts that are kept, so that a request that comes again is known."""


def workflow_lease(workflow_id: str) -> str:
    """The session id under which a workflow's lease is kept; it fences ``save_workflow`` and ``delete_workflow``."""
    return f"workflow:{workflow_id}"


def acquired(
    stored: Lease | None, session_id: str, holder: str, ttl_ms: int, now_ms: int, *, void: bool = False
) -> Lease:
    """The lease of ``holder``, which may have it already. ``void`` says that the present holder is known to be dead.
    ``SessionBusy`` names another holder."""
    more = stored.more if stored else {}
    until = now_ms + ttl_ms
    if stored is not None and stored.expires_ms > now_ms and not void:
        if stored.holder != holder:
            message = f"session {session_id!r} is held by {stored.holder}"
            raise SessionBusy(message, holder=stored.holder, until_ms=stored.expires_ms)
        return Lease(session_id=session_id, epoch=stored.epoch, holder=holder, expires_ms=until, more=more)
    epoch = stored.epoch + 1 if stored else 1
    return Lease(session_id=session_id, epoch=epoch, holder=holder, expires_ms=until, more=more)


def extended(stored: Lease | None, lease: Lease, expires_ms: int) -> Lease | None:
    """``lease`` until ``expires_ms`` (0 gives it up); ``None`` when it was passed on or released."""
    if stored is None or (stored.epoch, stored.holder) != (lease.epoch, lease.holder) or stored.expires_ms == 0:
        return None
    return msgspec.structs.replace(stored, expires_ms=expires_ms)


def fence(stored: Lease | None, session_id: str, epoch: int) -> None:
    """``LeaseLost`` unless ``epoch`` is the one given last."""
    current = stored.epoch if stored else 0
    if epoch != current:
        holder = f"{stored.holder} has it" if stored else "nobody has it"
        raise LeaseLost(f"the lease of session {session_id!r} with epoch {epoch} is lost: {holder}, epoch {current}")


def posted(inbox: Inbox, request: ControlRequest) -> tuple[Inbox, ControlReceipt | None]:
    """The inbox with ``request``, and its receipt when it came before and was answered. ``DUPLICATE_REQUEST`` for other
    content under its id, ``QUEUE_FULL`` when 64 wait."""
    for entry in inbox.entries:
        known = msgspec.convert(entry["request"], ControlRequest)
        if known.request_id == request.request_id:
            if (known.kind, known.payload) != (request.kind, request.payload):
                raise CodeError(f"request {request.request_id!r} was posted with other content", "DUPLICATE_REQUEST")
            return inbox, _receipt(entry)
    if sum(1 for entry in inbox.entries if entry["receipt"] is None) >= INBOX:
        raise CodeError(f"{INBOX} requests wait for session {inbox.session_id!r} already", "QUEUE_FULL")
    added: JsonObject = {"request": msgspec.to_builtins(request), "taken": 0, "receipt": None}
    return msgspec.structs.replace(inbox, entries=[*inbox.entries, added]), None


def taken(inbox: Inbox, epoch: int) -> tuple[Inbox, list[ControlRequest]]:
    """What this holder didn't take yet and nobody answered, in order: a holder's successor gets what that one took and
    left open."""
    fresh = [each for each in inbox.entries if each["receipt"] is None and each["taken"] != epoch]
    if not fresh:
        return inbox, []
    entries = [each | {"taken": epoch} if each["receipt"] is None else each for each in inbox.entries]
    requests = [msgspec.convert(each["request"], ControlRequest) for each in fresh]
    return msgspec.structs.replace(inbox, entries=entries), requests


def answered(inbox: Inbox, receipt: ControlReceipt) -> Inbox | None:
    """The inbox with ``receipt``, which replaces an earlier one; ``None`` when it knows no such request."""
    if find(inbox, receipt.request_id) is None:
        return None
    entries = [
        each | {"receipt": msgspec.to_builtins(receipt)} if _id(each) == receipt.request_id else each
        for each in inbox.entries
    ]
    surplus = sum(1 for each in entries if each["receipt"] is not None) - REMEMBERED
    if surplus > 0:
        old = {_id(each) for each in [each for each in entries if each["receipt"] is not None][:surplus]}
        entries = [each for each in entries if _id(each) not in old]
    return msgspec.structs.replace(inbox, entries=entries)


def find(inbox: Inbox, request_id: str) -> ControlReceipt | Literal["waiting"] | None:
    """The receipt of a request, or that it waits; ``None`` when there is no such request."""
    for entry in inbox.entries:
        if _id(entry) == request_id:
            return _receipt(entry) or "waiting"
    return None


def _id(entry: JsonObject) -> str:
    return msgspec.convert(entry["request"], ControlRequest).request_id


def _receipt(entry: JsonObject) -> ControlReceipt | None:
    return None if entry["receipt"] is None else msgspec.convert(entry["receipt"], ControlReceipt)
