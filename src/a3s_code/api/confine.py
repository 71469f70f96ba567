"""The sandbox options (api.md, *Governance*). In: what a host chose, a workspace. Out: the session's sandbox.

One rule: only the host can choose to run without one: by an option, or by a variable of its environment.
Known weakness: none known.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Final, cast

from a3s_code.api.blocking import Home
from a3s_code.api.options import SessionOptions
from a3s_code.ports.clock import Clock
from a3s_code.ports.process import Processes
from a3s_code.ports.sandbox import Confined, Confinement, NetworkGrant, Sandbox, SandboxState

VARIABLE: Final = "A3S_CODE_ALLOW_PROCESS_HOST_SANDBOX"
_YES: Final = frozenset({"1", "true", "yes", "on"})


def command_sandbox(
    options: SessionOptions,
    root: str,
    processes: Processes,
    environ: Mapping[str, str],
    home: Home,
    clock: Clock,
) -> Confinement:
    """Of checked options; nothing is looked for yet. A ``sandbox_handle`` wins over running on the host."""
    if options.sandbox_handle is not None:
        home.adopt(options.sandbox_handle)
    host = None if options.sandbox_handle is not None else _host(options, environ)
    can_ask = options.confirmations() is not None

    def make() -> Confinement:
        from a3s_code.workspace.sandbox.session import Choice, CommandSandbox, native  # 10 ms, for the first command

        choice = Choice(
            native=native(processes, environ),
            host=host,
            handle=cast("Sandbox | None", options.sandbox_handle),
            writable=tuple(options.sandbox_writable or ()),
            mask_workspace=options.credential_policy != "off",
            can_ask=can_ask,
        )
        return CommandSandbox(
            root,
            choice,
            environ,
            now_ns=lambda: clock.now_ms() * 1_000_000,
            call_host=home.call_host,
            in_thread=home.in_thread,
        )

    return _WhenNeeded(make, can_ask=can_ask)


class _WhenNeeded:
    """A ``Confinement`` that is made when somebody first asks about it: a session that runs no command needs none."""

    __slots__ = ("_made", "_make", "can_ask")
    _making = threading.Lock()

    def __init__(self, make: Callable[[], Confinement], *, can_ask: bool) -> None:
        self._make = make
        self._made: Confinement | None = None
        self.can_ask = can_ask

    @property
    def _sandbox(self) -> Confinement:
        with self._making:
            if self._made is None:
                self._made = self._make()
            return self._made

    @property
    def known(self) -> SandboxState | None:
        return self._sandbox.known

    @property
    def policy_digest(self) -> str:
        return self._sandbox.policy_digest

    def no_grants(self) -> str | None:
        return self._sandbox.no_grants()

    async def state(self) -> SandboxState:
        return await self._sandbox.state()

    def look(self) -> SandboxState:
        return self._sandbox.look()

    def inside(
        self, argv: Sequence[str], env: Mapping[str, str], extra: Mapping[str, str], grant: NetworkGrant | None = None
    ) -> AbstractAsyncContextManager[Confined]:
        return self._sandbox.inside(argv, env, extra, grant)

    async def aclose(self) -> None:
        if self._made is not None:
            await self._made.aclose()


def _host(options: SessionOptions, environ: Mapping[str, str]) -> str | None:
    """Why commands run as the host's own; ``None`` when they don't."""
    if options.sandbox == "host":
        return 'sandbox="host" was chosen: commands run as the host\'s own'
    if options.allow_process_host_sandbox:
        return "allow_process_host_sandbox was chosen: commands run as the host's own"
    return host_by_variable(environ)


def host_by_variable(environ: Mapping[str, str]) -> str | None:
    """Why commands run as the host's own whatever a session's options say; ``None`` when they don't."""
    if environ.get(VARIABLE, "").strip().lower() in _YES:
        return f"{VARIABLE} is set: commands run as the host's own"
    return None
