"""Runs that nobody waits for (api.md, *Detached runs*). In: an id of the host's. Out: the run's record, at once.

One rule: an id starts one run, whoever asks and how often; the same id with other input is a conflict.
Known weakness: without a session store only this log knows the id.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from a3s_code.api.blocking import blocking, bridged
from a3s_code.api.session.conversation import unpack
from a3s_code.api.session.hooks import Hooking
from a3s_code.core.content import JsonObject
from a3s_code.core.digest import text_digest
from a3s_code.core.state import ClosedRun
from a3s_code.engine.active import ActiveRun
from a3s_code.engine.detached import Known
from a3s_code.engine.resuming import Wanted
from a3s_code.engine.runs import RunRecord
from a3s_code.errors import CodeError, RunIdentityConflict, SessionBusy


class Detached(Hooking):
    @bridged
    async def spawn_run_with_id_async(self, run_id: str, prompt: str) -> JsonObject:
        """Starts a run under this id without waiting for its end: ``{"snapshot", "replayed"}``.

        The same id with the same prompt starts nothing (``replayed``), also after a restart, as log and store know it;
        another prompt under that id is ``RunIdentityConflict``. Closing the session cancels the run.
        """
        _check_id("run_id", run_id)
        text, _, _ = unpack(prompt, None, None)
        digest = text_digest(text)
        known = await self._known(run_id, digest)
        if known is not None:
            return _replayed(known)
        engine = self._engine
        return await self._started(
            run_id, digest, lambda: engine.begin(text, cause="spawned", run_id=run_id, input_digest=digest)
        )

    spawn_run_with_id = blocking(spawn_run_with_id_async)

    @bridged
    async def spawn_recovery_with_run_id_async(self, checkpoint_run_id: str, run_id: str) -> JsonObject:
        """``resume_run(checkpoint_run_id)`` for a host that must be able to repeat itself: the work goes on as run
        ``run_id``, in the background. ``{"snapshot", "replayed"}`` and errors as ``spawn_run_with_id`` and
        ``resume_run``.

        The same call again gives the running or finished record (``replayed``); a recovery that its process left
        behind goes on from its own checkpoint. The run ``checkpoint_run_id`` never changes.
        """
        _check_id("checkpoint_run_id", checkpoint_run_id)
        _check_id("run_id", run_id)
        digest = text_digest(f"recovery of {checkpoint_run_id}")
        known = await self._known(run_id, digest)
        active = self._engine.active
        if known is not None and (known.ended_ms is not None or (active is not None and active.id == run_id)):
            return _replayed(known)
        wanted = Wanted(checkpoint_run_id, recovery=run_id, input_digest=digest)
        return await self._started(run_id, digest, lambda: self._engine.resume(wanted))

    spawn_recovery_with_run_id = blocking(spawn_recovery_with_run_id_async)

    async def _started(
        self, run_id: str, digest: str, start: Callable[[], Awaitable[ActiveRun | ClosedRun]]
    ) -> JsonObject:
        try:
            run = await start()
        except Known:
            known = await self._known(run_id, digest)
            if known is None:
                raise SessionBusy(f"run '{run_id}' is being started elsewhere; ask again") from None
            return _replayed(known)
        if isinstance(run, ActiveRun):
            return {"snapshot": run.record.snapshot(), "replayed": False}
        last = self._engine.record(run.run.id)
        return {"snapshot": last.snapshot() if last is not None else None, "replayed": True}

    async def _known(self, run_id: str, digest: str) -> RunRecord | None:
        self._engine.check_open()
        known = await self._engine.known(run_id)
        if known is not None and known.input_digest != digest:
            raise RunIdentityConflict(f"run '{run_id}' exists with another input")
        return known


def _replayed(known: RunRecord) -> JsonObject:
    return {"snapshot": known.snapshot(), "replayed": True}


def _check_id(name: str, value: object) -> None:
    if not isinstance(value, str) or not value.strip():
        raise CodeError(f"{name}: expected text that is not blank", "INVALID_REQUEST")
