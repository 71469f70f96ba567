"""What a command runs in (tools.md §3.7, *Sandbox*). In: a command line and a policy. Out: the command line inside.

One rule: a policy only says what a command may touch; how that is enforced is the sandbox's business.
Known weakness: a host's own ``Sandbox`` is believed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Literal, Protocol

import msgspec

SandboxKind = Literal["native", "custom", "process_host", "none"]


class SandboxPolicy(msgspec.Struct, frozen=True):
    """Absolute real paths. Everything else on the machine may be read and not written.

    ``writable`` holds the workspace, the scratch directories and what the host lifted; ``read_only`` the protected
    names, those that don't exist too; ``masked`` files and directories whose content must not be seen. Where paths
    contain each other the longer one counts. ``scratch`` holds ``tmp`` and ``home``.
    """

    workspace: str
    writable: tuple[str, ...]
    read_only: tuple[str, ...]
    masked: tuple[str, ...]
    network: bool
    scratch: str


class Sandbox(Protocol):
    """Native, or a host's ``sandbox_handle``."""

    name: str

    async def probe(self) -> str | None:
        """``None`` when it works here, else why it doesn't."""

    def command(self, argv: Sequence[str], policy: SandboxPolicy) -> Sequence[str]:
        """The command line that runs ``argv`` under ``policy``."""


class SandboxState(msgspec.Struct, frozen=True):
    """Which one is active, and why. ``none``: the one that was asked for doesn't work here."""

    kind: SandboxKind
    reason: str


class NetworkGrant(msgspec.Struct, frozen=True):
    """The one origin that a command may reach: an exact host, as ``core.netpolicy`` writes it, and a port."""

    host: str
    port: int


class Confined(msgspec.Struct, frozen=True):
    """A command line that runs inside, and the environment to start it in.

    ``ending`` says, once it has ended, how: ``never`` (the sandbox did not come up), ``left`` (something was still
    running, and was ended) or ``done``. ``supervised`` says that the first process stands outside, and ends with what
    it started. ``passed`` are descriptors that it has to inherit.
    """

    argv: Sequence[str]
    env: Mapping[str, str]
    ending: Callable[[], Literal["never", "left", "done"]]
    supervised: bool
    passed: tuple[int, ...] = ()


class Confinement(Protocol):
    """A session's sandbox, bound before its tools exist and shared by all its calls.

    ``can_ask`` says that somebody answers for commands outside a sandbox.
    """

    @property
    def can_ask(self) -> bool: ...

    @property
    def known(self) -> SandboxState | None:
        """The state, when it has been looked for."""

    @property
    def policy_digest(self) -> str:
        """Of what the host chose for the sandbox; the same in another process with the same choice."""

    def no_grants(self) -> str | None:
        """Why commands can't be granted access to one origin here; ``None`` when they can. After ``state()``."""

    async def state(self) -> SandboxState:
        """Looks for it first if need be."""

    def look(self) -> SandboxState:
        """The same for a caller that can't await; blocks for the time of a probe."""

    def inside(
        self, argv: Sequence[str], env: Mapping[str, str], extra: Mapping[str, str], grant: NetworkGrant | None = None
    ) -> AbstractAsyncContextManager[Confined]:
        """Prepares one command; only for the kinds ``native`` and ``custom``. ``env`` is the host's, ``extra`` comes
        from whoever wrote the command; only where ``no_grants()`` is ``None`` it may have a ``grant``. Raises
        ``ToolFailure`` when it can't be prepared."""

    async def aclose(self) -> None:
        """Removes what commands left in the session's scratch directory."""
