"""A session: one workspace, one conversation. In: prompts and calls of a host. Out: results, streams, records.

One rule: one file a group of methods, each building on the one before it; this file only ends the chain.
Known weakness: none known.
"""

from __future__ import annotations

from types import TracebackType

from a3s_code.api.blocking import Home, blocking, bridged
from a3s_code.api.session.state import State
from a3s_code.core.documents import CheckpointHeader, SessionSnapshot
from a3s_code.engine.token import CancelToken
from a3s_code.errors import CodeError, SessionConfigurationError


class SessionCancelToken:
    """A session's token for any thread and any loop."""

    def __init__(self, home: Home, token: CancelToken) -> None:
        self._home = home
        self._token = token

    def cancel(self) -> None:
        self._home.later(lambda: self._token.cancel("the session's token was cancelled"))

    def is_cancelled(self) -> bool:
        return self._token.is_cancelled()

    async def wait_async(self) -> None:
        """Returns once the token is cancelled."""
        await self._home.bridge(self._token.wait_async, name="wait_async")


class Session(State):
    """Made by ``agent.session(...)``. A context manager in both faces. See api.md, *Session*."""

    @bridged
    async def close_async(self) -> None:
        """Ends all work; later calls do nothing. A parked run stays parked in the log; ``cancel()`` ends one."""
        await self._end("closed")

    close = blocking(close_async)

    @bridged
    async def passivate_async(self, deadline_ms: int | None = None) -> str | None:
        """Leaves the session so that any node can go on with it: admits nothing more, lets the step at work settle (or
        interrupts it at ``deadline_ms``, Unix time), keeps checkpoint and snapshot, gives the lease back and closes.

        Gives the id of the run that stays open, for ``resume_run`` elsewhere, or ``None``; whoever waits for that run
        here gets ``SessionClosed``. ``SessionConfigurationError`` without a ``session_store``; when the store fails its
        error is raised once the session is closed, and the log in the workspace still has everything."""
        if deadline_ms is not None and (isinstance(deadline_ms, bool) or not isinstance(deadline_ms, int)):
            raise CodeError(f"deadline_ms: expected Unix milliseconds, got {deadline_ms!r:.60}", "INVALID_REQUEST")
        if self._engine.keeper is None:
            raise SessionConfigurationError("passivate requires a session_store on this session")
        try:
            return await self._engine.passivate(deadline_ms)
        finally:
            self._agent._forget(self)

    passivate = blocking(passivate_async)

    async def _end(self, reason: str) -> None:
        try:
            await self._engine.close(reason)
        finally:
            self._agent._forget(self)

    async def _restore(self, snapshot: SessionSnapshot | None, last: CheckpointHeader | None = None) -> None:
        """Takes in what the store has before anything is read; a session that can't is given up."""
        try:
            assert self._engine.keeper is not None
            await self._engine.keeper.restore(snapshot, last)
        except BaseException:
            await self._end("not_restored")
            raise

    def session_cancel_token(self) -> SessionCancelToken:
        """The parent of every run's token: cancelling it stops all work, without the records and hooks of
        ``close()``. It never unfires: later runs of the session end as cancelled at once."""
        return SessionCancelToken(self._home, self._engine.token)

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Session:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close_async()
