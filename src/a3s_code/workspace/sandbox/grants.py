"""Access of one command to one origin (tools.md §3.7, ``request_network_grant``). In: the granted host and port. Out: a
descriptor and words for the command line inside, and a proxy that lives as long as the command.

One rule: the name is resolved once, before the command begins; one refused address refuses it (tools.md §7).
Known weakness: the proxy's connections count against the host process's own descriptors.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import fcntl
import os
import pkgutil
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final

from a3s_code.core.netpolicy import refused_address, refused_origin
from a3s_code.ports.sandbox import NetworkGrant, SandboxPolicy
from a3s_code.ports.tasks import spawn
from a3s_code.ports.tool import ToolFailure
from a3s_code.workspace.sandbox.bubblewrap import PRIVATE
from a3s_code.workspace.sandbox.proxy import Proxy
from a3s_code.workspace.sandbox.seccomp import OF_GRANTED, filter_program

Resolve = Callable[[str, int], list[str]]
PROXY_PORT: Final = 3128
_PROXY: Final = f"http://127.0.0.1:{PROXY_PORT}"
ELSEWHERE: Final = ("/usr/bin/python3", "/usr/local/bin/python3")
_RESOLVE_S: Final = 10.0
_ABOVE: Final = 10  # the launcher opens the filter as a lower one
ENVIRONMENT: Final = {
    **dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"), _PROXY),
    "NO_PROXY": "",
    "no_proxy": "",
}


def resolved(host: str, port: int) -> list[str]:
    """All addresses that the machine knows of a host."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(place[0]) for *_, place in found))


class Grants:
    """``private`` are origins that may have any address. Blocking code runs by ``in_thread``."""

    def __init__(
        self,
        in_thread: Callable[..., Awaitable[Any]],
        resolve: Resolve = resolved,
        private: frozenset[NetworkGrant] = frozenset(),
    ) -> None:
        self._in_thread = in_thread
        self._resolve = resolve
        self._private = private

    @contextlib.asynccontextmanager
    async def opened(self, grant: NetworkGrant) -> AsyncIterator[int]:
        """The descriptor over which the command's first process offers its listener. Raises ``ToolFailure`` for what
        may not be reached."""
        proxy = Proxy(grant, await self._addresses(grant))
        ours, made = socket.socketpair()
        with ours, made, socket.socket(fileno=fcntl.fcntl(made, fcntl.F_DUPFD_CLOEXEC, _ABOVE)) as theirs:
            serving = spawn(_serve(ours, proxy), f"proxy for {grant.host}")
            try:
                yield theirs.fileno()
            finally:
                serving.cancel()
                await asyncio.wait({serving})

    async def _addresses(self, grant: NetworkGrant) -> list[str]:
        checked = grant not in self._private
        if checked and (why := refused_origin(grant.host, grant.port)):
            raise _blocked(grant, why)
        try:
            async with asyncio.timeout(_RESOLVE_S):
                found: list[str] = await self._in_thread(self._resolve, grant.host, grant.port)
        except (OSError, UnicodeError) as error:  # a timeout too
            raise ToolFailure("transport", f"{grant.host} can't be resolved") from error
        for address in found if checked else ():
            if why := refused_address(address):
                raise _blocked(grant, why)
        return found


def _blocked(grant: NetworkGrant, why: str) -> ToolFailure:
    return ToolFailure("ssrf_blocked", f"Blocked address for {grant.host}: {why}")


async def _serve(ours: socket.socket, proxy: Proxy) -> None:
    listener = await _offered(ours)
    if listener is not None:
        with listener:
            await proxy.serve(listener)


async def _offered(ours: socket.socket) -> socket.socket | None:
    """The listener from inside; nothing for whatever else came from there."""
    loop = asyncio.get_running_loop()
    came = asyncio.Event()
    loop.add_reader(ours, came.set)
    try:
        await came.wait()
    finally:
        loop.remove_reader(ours)
    _, descriptors, _, _ = socket.recv_fds(ours, 1, 1, socket.MSG_CMSG_CLOEXEC | socket.MSG_DONTWAIT)
    if not descriptors:
        return None
    with contextlib.ExitStack() as stack:
        offered = stack.enter_context(socket.socket(fileno=descriptors[0]))
        kind = (offered.family, offered.type, offered.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))
        if kind != (socket.AF_INET, socket.SOCK_STREAM, 1) or offered.getsockname() != ("127.0.0.1", PROXY_PORT):
            return None
        offered.setblocking(False)
        stack.pop_all()
        return offered


def listening(descriptor: int, policy: SandboxPolicy) -> list[str] | None:
    """The words that go before a command line; ``None`` when there is no interpreter for them inside."""
    python = _interpreter(policy)
    source = pkgutil.get_data(__package__, "listener.py")
    program = filter_program(os.uname().machine, OF_GRANTED)
    if python is None or source is None or program is None:
        return None
    rest = [str(descriptor), str(PROXY_PORT), base64.b64encode(program).decode()]
    return [python, "-I", "-S", "-c", source.decode(), *rest]


def _interpreter(policy: SandboxPolicy) -> str | None:
    """A Python that is seen inside, and that no command can have changed."""
    places = (*PRIVATE, *policy.writable, *policy.masked)
    for found in (sys.executable, *ELSEWHERE):
        python = os.path.realpath(found)
        if os.access(python, os.X_OK) and not any(python.startswith(f"{place}/") for place in places):
            return python
    return None
