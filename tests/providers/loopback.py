"""A provider on loopback that misbehaves byte for byte. In: scripted replies. Out: a base URL and what it was sent.

One rule: a reply is a list of raw pieces; ``Hold`` keeps the connection open and silent until the server is closed.
Known weakness: it reads HTTP/1.1 requests with a Content-Length only.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final, TypeAlias

Hold: Final = None
Reply: TypeAlias = Sequence[bytes | None]


class Loopback:
    def __init__(self, replies: Sequence[Reply]) -> None:
        self.requests: list[tuple[bytes, bytes]] = []
        self.connections = 0
        self._replies = list(replies)
        self._closed = asyncio.Event()
        self._server: asyncio.Server | None = None
        self._writers: list[asyncio.StreamWriter] = []

    @property
    def url(self) -> str:
        assert self._server is not None
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._writers.append(writer)
        try:
            while self._replies:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
                self.requests.append((head, await reader.readexactly(length)))
                for piece in self._replies.pop(0):
                    if piece is Hold:
                        await self._closed.wait()
                        return
                    writer.write(piece)
                    await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        finally:
            writer.close()


@asynccontextmanager
async def loopback(*replies: Reply) -> AsyncIterator[Loopback]:
    server = Loopback(replies)
    server._server = await asyncio.start_server(server._serve, "127.0.0.1", 0)
    try:
        yield server
    finally:
        server._closed.set()
        for writer in server._writers:
            writer.close()
        server._server.close()
        await server._server.wait_closed()


def streamed(*events: bytes, end: bool = True) -> list[bytes | None]:
    """A chunked event stream; without ``end`` the last chunk never says that it is the last."""
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    chunks = [b"%x\r\n%b\r\n" % (len(event), event) for event in events]
    return [head, *chunks, *([b"0\r\n\r\n"] if end else [])]


def answered(status: int, body: bytes, *headers: str) -> list[bytes | None]:
    lines = [f"HTTP/1.1 {status} X", f"Content-Length: {len(body)}", *headers]
    return ["\r\n".join(lines).encode() + b"\r\n\r\n" + body]
