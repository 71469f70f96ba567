"""What mediates a network grant, outside the sandbox (tools.md §3.7). In: a listener in the sandbox's network, the
granted origin, its checked addresses. Out: connections to that origin and nothing else.

One rule: where a connection goes was decided before the command began; what the command asks for can only be refused.
Known weakness: in a tunnel it sees no content: on an address that serves many hosts a command can name another of them.

It speaks the two forms of an HTTP proxy: ``CONNECT host:port``, and requests for ``http://host:port/…``, of which it
forwards one a connection.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from a3s_code.core.netpolicy import exact_host
from a3s_code.ports.sandbox import NetworkGrant

_MAX_HEAD: Final = 64 * 1024
_MAX_CONNECTIONS: Final = 64
_HEAD_S: Final = 30.0
_CONNECT_S: Final = 10.0
_READ: Final = 64 * 1024
_CONTROL: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
# Of one connection, or of the proxy; and ``Host``, which is written anew.
_DROPPED: Final = frozenset("host connection keep-alive proxy-connection proxy-authorization".split())


class Refused(Exception):
    """A request that isn't one for the granted origin."""

    def __init__(self, status: str, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class Request(msgspec.Struct, frozen=True):
    """``head`` is what the origin gets first; nothing for a tunnel."""

    tunnel: bool
    head: bytes = b""


def judged(head: bytes, grant: NetworkGrant) -> Request:
    """What a request's head asks for. Raises ``Refused``."""
    first, *lines = head.decode("latin-1").removesuffix("\r\n\r\n").split("\r\n")
    if any(_CONTROL.search(line) for line in (first, *lines)):
        raise Refused("400 Bad Request", "there is a control character in the head")
    method, _, rest = first.partition(" ")
    target, _, version = rest.partition(" ")
    if version not in ("HTTP/1.1", "HTTP/1.0"):
        raise Refused("400 Bad Request", "this is no HTTP/1.1 request")
    if method == "CONNECT":
        _check(target, None, grant)
        return Request(tunnel=True)
    if not target.lower().startswith("http://"):
        raise Refused("400 Bad Request", "this is a proxy: it takes CONNECT, and requests for http:// addresses")
    rest = target[len("http://") :]
    end = min((at for sign in "/?#" if (at := rest.find(sign)) >= 0), default=len(rest))
    _check(rest[:end], 80, grant)
    path = rest[end:] if rest[end:].startswith("/") else f"/{rest[end:]}"
    host = grant.host if grant.port == 80 else f"{grant.host}:{grant.port}"
    kept = [f"{method} {path} HTTP/1.1", f"Host: {host}", *_kept(lines), "Connection: close"]
    return Request(tunnel=False, head=("\r\n".join(kept) + "\r\n\r\n").encode("latin-1"))


def _check(authority: str, default_port: int | None, grant: NetworkGrant) -> None:
    host, _, port = authority.rpartition(":") if ":" in authority else (authority, "", str(default_port))
    try:
        same = exact_host(host) == grant.host
    except ValueError:
        same = False
    if not same or not (port.isascii() and port.isdigit() and len(port) <= 5) or int(port) != grant.port:
        raise Refused("403 Forbidden", f"this command may reach {grant.host}:{grant.port} and nothing else")


def _kept(lines: Sequence[str]) -> list[str]:
    kept = []
    for line in lines:
        name, sign, _ = line.partition(":")
        if not sign or not name or name != name.strip():
            raise Refused("400 Bad Request", "a header is malformed")
        if name.lower() not in _DROPPED:
            kept.append(line)
    return kept


class Proxy:
    """``addresses`` of the granted host were checked; the first that answers is taken."""

    def __init__(self, grant: NetworkGrant, addresses: Sequence[str]) -> None:
        self._grant = grant
        self._addresses = addresses
        self._open: set[asyncio.Task[Any]] = set()

    async def serve(self, listener: socket.socket) -> None:
        """Until it is cancelled; then no connection is left."""
        server = await asyncio.start_server(self._client, sock=listener, limit=_MAX_HEAD)
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            server.close()
            left = set(self._open)
            for task in left:
                task.cancel()
            if left:
                await asyncio.wait(left)

    async def _client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        try:
            if len(self._open) > _MAX_CONNECTIONS:
                raise Refused("503 Service Unavailable", "there are too many connections")
            async with asyncio.timeout(_HEAD_S):
                head = await reader.readuntil(b"\r\n\r\n")
            await self._forward(judged(head, self._grant), reader, writer)
        except Refused as refused:
            await _answer(writer, refused)
        except asyncio.LimitOverrunError:
            await _answer(writer, Refused("431 Request Header Fields Too Large", "the request's head is too large"))
        except (OSError, EOFError, TimeoutError):
            pass  # one of both ends is gone: so is the connection, and nobody is left to be told
        finally:
            self._open.discard(task)
            writer.transport.abort()

    async def _forward(self, request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        origin_reader, origin = await self._connected()
        try:
            if request.tunnel:
                writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            else:
                origin.write(request.head)
            async with asyncio.TaskGroup() as both:
                both.create_task(_pipe(reader, origin))
                both.create_task(_pipe(origin_reader, writer))
            for end in (writer, origin):
                end.close()
                await end.wait_closed()
        except* (OSError, EOFError):
            pass  # as above
        finally:
            origin.transport.abort()

    async def _connected(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        for address in self._addresses:
            with contextlib.suppress(OSError, TimeoutError):
                async with asyncio.timeout(_CONNECT_S):
                    return await asyncio.open_connection(address, self._grant.port)
        raise Refused("502 Bad Gateway", f"{self._grant.host}:{self._grant.port} can't be reached")


async def _pipe(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    """All of ``source``, and its end."""
    while data := await source.read(_READ):
        target.write(data)
        await target.drain()
    if target.can_write_eof():
        target.write_eof()


async def _answer(writer: asyncio.StreamWriter, refused: Refused) -> None:
    text = f"{refused}\n"
    head = f"HTTP/1.1 {refused.status}\r\nContent-Type: text/plain\r\nContent-Length: {len(text)}\r\n"
    with contextlib.suppress(OSError):
        writer.write(f"{head}Connection: close\r\n\r\n{text}".encode())
        await writer.drain()
        writer.close()
        await writer.wait_closed()
