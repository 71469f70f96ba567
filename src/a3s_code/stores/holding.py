"""Leases and control inboxes of every session store, over any ``Backend``. In: the calls of ports.store. Out: the same.

One rule: what changes is worked out by core.leasing; here it is only read, locked and written.
Known weakness: an inbox is one document, rewritten for each request and receipt.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from a3s_code.core import leasing
from a3s_code.core.documents import ControlReceipt, ControlRequest, Inbox, Lease, checked_id, encode
from a3s_code.errors import CodeError
from a3s_code.ports.store import Epoch
from a3s_code.stores.lease import is_dead
from a3s_code.stores.rulebase import RuleBase, session_lock
from a3s_code.stores.transaction import About, Transaction

_AT_ONCE: Final = 64
"""So many leases are renewed in one transaction, which keeps others out of their sessions."""


class HoldingRules(RuleBase):
    async def acquire_lease(self, session_id: str, holder: str, ttl_ms: int) -> Lease:
        session_id, holder = checked_id(session_id, "session"), checked_id(holder, "holder")
        _positive(ttl_ms)

        async def rule(tx: Transaction) -> Lease:
            stored = await self._load(tx, Lease, session_id)
            now_ms = await tx.now_ms()
            void = stored is not None and stored.holder != holder and is_dead(stored.holder)
            lease = leasing.acquired(stored, session_id, holder, ttl_ms, now_ms, void=void)
            await tx.put("lease", session_id, encode(lease), About(session_id))
            await tx.emit("lease.acquired", session_id, holder)
            return lease

        return await self._write(rule, session_lock(session_id))

    async def renew(self, leases: Sequence[Lease], ttl_ms: int) -> list[Lease | None]:
        _positive(ttl_ms)
        renewed: list[Lease | None] = []
        for at in range(0, len(leases), _AT_ONCE):
            renewed += await self._renew(leases[at : at + _AT_ONCE], ttl_ms)
        return renewed

    async def _renew(self, leases: Sequence[Lease], ttl_ms: int) -> list[Lease | None]:
        done: dict[int, Lease | None] = {}

        async def rule(tx: Transaction) -> None:
            now = [
                at for at, each in enumerate(leases) if at not in done and session_lock(each.session_id) in tx.locked
            ]
            stored = await self._load_all(tx, Lease, {leases[at].session_id for at in now})
            until = await tx.now_ms() + ttl_ms if now else 0
            found = {at: leasing.extended(stored.get(leases[at].session_id), leases[at], until) for at in now}
            rows = [
                (lease.session_id, encode(lease), About(lease.session_id, renewal=True))
                for lease in found.values()
                if lease is not None
            ]
            await tx.put_all("lease", rows)
            done.update(found)

        await self._backend.transact([session_lock(each.session_id) for each in leases], rule, if_free=True)
        for at, lease in enumerate(leases):
            if at not in done:  # somebody was at work in this session: the others didn't wait for that
                await self._write(rule, session_lock(lease.session_id))
        return [done[at] for at in range(len(leases))]

    async def release(self, lease: Lease) -> bool:
        session_id = checked_id(lease.session_id, "session")

        async def rule(tx: Transaction) -> bool:
            released = leasing.extended(await self._load(tx, Lease, session_id), lease, 0)
            if released is None:
                return False
            await tx.put("lease", session_id, encode(released), About(session_id))
            await tx.emit("lease.released", session_id, lease.holder)
            return True

        return await self._write(rule, session_lock(session_id))

    async def post_control(self, session_id: str, request: ControlRequest) -> ControlReceipt | None:
        session_id = checked_id(session_id, "session")
        checked_id(request.request_id, "request")

        async def rule(tx: Transaction) -> ControlReceipt | None:
            inbox = await self._inbox(tx, session_id)
            after, receipt = leasing.posted(inbox, request)
            if after is not inbox:
                await self._keep(tx, after, "control.posted", request.request_id)
            return receipt

        return await self._write(rule, session_lock(session_id))

    async def take_control(self, session_id: str, epoch: int) -> list[ControlRequest]:
        session_id = checked_id(session_id, "session")

        async def rule(tx: Transaction) -> list[ControlRequest]:
            await self._fence(tx, session_id, epoch)
            inbox = await self._inbox(tx, session_id)
            after, requests = leasing.taken(inbox, epoch)
            if requests:
                await self._keep(tx, after)
            return requests

        return await self._write(rule, session_lock(session_id))

    async def answer_control(self, session_id: str, receipt: ControlReceipt, epoch: Epoch = None) -> bool:
        session_id = checked_id(session_id, "session")

        async def rule(tx: Transaction) -> bool:
            await self._fence(tx, session_id, epoch)
            after = leasing.answered(await self._inbox(tx, session_id), receipt)
            if after is None:
                return False
            await self._keep(tx, after, "control.answered", receipt.request_id)
            return True

        return await self._write(rule, session_lock(session_id))

    async def load_receipt(self, session_id: str, request_id: str) -> ControlReceipt | None:
        session_id = checked_id(session_id, "session")
        inbox = await self._read(lambda tx: self._inbox(tx, session_id))
        found = leasing.find(inbox, request_id)
        return None if found == "waiting" else found

    async def _inbox(self, tx: Transaction, session_id: str) -> Inbox:
        return await self._load(tx, Inbox, session_id) or Inbox(session_id=session_id)

    async def _keep(self, tx: Transaction, inbox: Inbox, event: str = "", request_id: str = "") -> None:
        await tx.put("inbox", inbox.session_id, encode(inbox), About(inbox.session_id))
        if event:
            await tx.emit(event, inbox.session_id, request_id)


def _positive(ttl_ms: int) -> None:
    if ttl_ms < 1:
        raise CodeError("a lease must last 1 ms or more", "INVALID_REQUEST")
