"""What the proxy of a network grant takes, and from whom (tools.md §3.7)."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from a3s_code.ports.sandbox import NetworkGrant
from a3s_code.ports.tasks import spawn
from a3s_code.workspace.sandbox.grants import PROXY_PORT, _offered
from a3s_code.workspace.sandbox.proxy import Proxy, Refused, Request, judged

GRANT = NetworkGrant("api.example", 8443)
FORBIDDEN, BAD = "403 Forbidden", "400 Bad Request"

TUNNELS = ["api.example:8443", "API.Example.:8443", "api.example:08443"]


@pytest.mark.parametrize("target", TUNNELS)
def test_a_tunnel_to_the_origin(target: str) -> None:
    """``CONNECT`` to the granted host and port, in every way of writing it."""
    assert judged(f"CONNECT {target} HTTP/1.1\r\nHost: x\r\n\r\n".encode(), GRANT) == Request(tunnel=True)


REQUESTS = [
    ("GET http://api.example:8443/a?b HTTP/1.1", "GET /a?b HTTP/1.1"),
    ("GET http://api.example:8443 HTTP/1.0", "GET / HTTP/1.1"),
    ("POST HTTP://API.example:8443?q=http://x/ HTTP/1.1", "POST /?q=http://x/ HTTP/1.1"),
    ("GET http://api.example:8443/@other.example:1/ HTTP/1.1", "GET /@other.example:1/ HTTP/1.1"),
]


@pytest.mark.parametrize(("line", "sent"), REQUESTS)
def test_a_request_to_the_origin(line: str, sent: str) -> None:
    """It is sent on in the origin's form, with the origin's ``Host`` and without what is the proxy's."""
    own = "Host: other.example\r\nProxy-Authorization: Basic x\r\nConnection: keep-alive\r\nhOST: b"
    head = f"{line}\r\n{own}\r\nAccept: */*\r\n\r\n".encode()
    expected = f"{sent}\r\nHost: api.example:8443\r\nAccept: */*\r\nConnection: close\r\n\r\n"
    assert judged(head, GRANT) == Request(tunnel=False, head=expected.encode())


def test_the_default_port_of_http_is_not_written() -> None:
    """A grant for port 80 is for addresses without a port."""
    request = judged(b"GET http://api.example/ HTTP/1.1\r\n\r\n", NetworkGrant("api.example", 80))
    assert request.head == b"GET / HTTP/1.1\r\nHost: api.example\r\nConnection: close\r\n\r\n"


REFUSED = [
    ("CONNECT other.example:8443 HTTP/1.1", FORBIDDEN),
    ("CONNECT api.example:443 HTTP/1.1", FORBIDDEN),
    ("CONNECT api.example HTTP/1.1", FORBIDDEN),
    ("CONNECT api.example: HTTP/1.1", FORBIDDEN),
    ("CONNECT :8443 HTTP/1.1", FORBIDDEN),
    ("CONNECT x@api.example:8443 HTTP/1.1", FORBIDDEN),
    ("CONNECT api.example@other:8443 HTTP/1.1", FORBIDDEN),
    ("CONNECT api.example:+8443 HTTP/1.1", FORBIDDEN),
    ("CONNECT api.example:8443:8443 HTTP/1.1", FORBIDDEN),
    ("CONNECT [::1]:8443 HTTP/1.1", FORBIDDEN),
    ("CONNECT 127.0.0.1:8443 HTTP/1.1", FORBIDDEN),
    ("CONNECT  HTTP/1.1", FORBIDDEN),
    ("GET http://other.example:8443/ HTTP/1.1", FORBIDDEN),
    ("GET http://api.example/ HTTP/1.1", FORBIDDEN),
    ("GET http://api.example:8443@other.example/ HTTP/1.1", FORBIDDEN),
    ("GET http://u:p@api.example:8443/ HTTP/1.1", FORBIDDEN),
    ("GET http://api.example:8443\\@other.example/ HTTP/1.1", FORBIDDEN),
    ("GET http:///path HTTP/1.1", FORBIDDEN),
    ("GET / HTTP/1.1", BAD),
    ("GET https://api.example:8443/ HTTP/1.1", BAD),
    ("GET http://api.example:8443/", BAD),
    ("GET http://api.example:8443/ a HTTP/1.1", BAD),
    ("GET http://api.example:8443/ HTTP/2.0", BAD),
    ("GET http://api.example:8443/ HTTP/1.1\r\n folded: x", BAD),
    ("GET http://api.example:8443/ HTTP/1.1\r\nHost : x", BAD),
    ("GET http://api.example:8443/ HTTP/1.1\r\nA: b\nHost: x", BAD),
    ("GET http://api.example:8443/ HTTP/1.1\r\nno header", BAD),
    ("GET http://api.example:8443/a\nHost:x HTTP/1.1", BAD),
    ("", BAD),
]


@pytest.mark.parametrize(("head", "status"), REFUSED)
def test_everything_else_is_refused(head: str, status: str) -> None:
    """Other origins, other forms, and heads that two readers could read in two ways."""
    with pytest.raises(Refused) as caught:
        judged(f"{head}\r\n\r\n".encode("latin-1"), GRANT)
    assert caught.value.status == status


@pytest_asyncio.fixture
async def port() -> AsyncIterator[int]:
    """Of a proxy whose origin sends back what it gets, once it has all."""

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.read())
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    grant = NetworkGrant("api.example", server.sockets[0].getsockname()[1])
    listener = socket.create_server(("127.0.0.1", 0))
    serving = spawn(Proxy(grant, ["127.0.0.1"]).serve(listener), "proxy")
    _ports[listener.getsockname()[1]] = grant.port
    yield listener.getsockname()[1]
    serving.cancel()
    await asyncio.wait({serving})
    listener.close()
    server.close()


_ports: dict[int, int] = {}


async def test_a_half_closed_tunnel_brings_everything_back(port: int) -> None:
    """Who has sent all still gets all, however slowly it reads."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1024)
    writer.write(f"CONNECT api.example:{_ports[port]} HTTP/1.1\r\n\r\n".encode() + b"x" * 5_000_000)
    writer.write_eof()
    assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 ")
    assert len(await reader.read()) == 5_000_000
    writer.close()


async def test_a_head_without_end_is_cut_off(port: int) -> None:
    """More than 64 KiB of headers are refused."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET http://api.example/ HTTP/1.1\r\nA: " + b"x" * 70_000)
    assert (await reader.readline()).startswith(b"HTTP/1.1 431 ")
    writer.close()


async def test_connections_are_bounded(port: int) -> None:
    """The 65th connection at a time is refused, and the next one after an end is not."""
    opened = []
    for _ in range(64):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(f"CONNECT api.example:{_ports[port]} HTTP/1.1\r\n\r\n".encode())
        assert (await reader.readline()).startswith(b"HTTP/1.1 200 ")
        opened.append((reader, writer))
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    assert (await reader.readline()).startswith(b"HTTP/1.1 503 ")
    writer.close()
    first, last = opened[0]
    last.write_eof()
    assert await first.read() == b"\r\n"
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"\r\n\r\n")
    assert (await reader.readline()).startswith(b"HTTP/1.1 400 ")
    for _, each in [*opened, (reader, writer)]:
        each.close()


def _listeners() -> list[socket.socket]:
    unconnected = socket.socket()
    unconnected.bind(("127.0.0.1", 0))
    unix = socket.socket(socket.AF_UNIX)
    unix.bind("\0a3s-offered")
    unix.listen()
    datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    datagrams.bind(("127.0.0.1", 0))
    return [unconnected, unix, datagrams, socket.create_server(("127.0.0.1", 0)), socket.create_server(("", 0))]


async def test_only_the_one_listener_is_taken() -> None:
    """Whatever else is offered from inside, or nothing, or bytes alone, is not accepted from."""
    for each in _listeners():
        ours, theirs = socket.socketpair()
        with ours, theirs, each:
            socket.send_fds(theirs, [b"x"], [each.fileno()])
            assert await _offered(ours) is None
    for sent in (b"x", b""):
        ours, theirs = socket.socketpair()
        with ours, theirs:
            if sent:
                theirs.send(sent)
            else:
                theirs.shutdown(socket.SHUT_WR)
            assert await _offered(ours) is None


def test_the_descriptor_is_not_the_filters() -> None:
    """In a process with few open files too, the descriptor that is passed is none that the launcher uses."""
    program = """if True:
        import asyncio
        from a3s_code.ports.sandbox import NetworkGrant
        from a3s_code.workspace.sandbox.grants import Grants
        async def main():
            grants = Grants(asyncio.to_thread, lambda host, port: ["8.8.8.8"])
            async with grants.opened(NetworkGrant("api.example", 443)) as descriptor:
                print(descriptor)
        asyncio.run(main())
    """
    assert int(subprocess.check_output([sys.executable, "-c", program])) >= 10


async def test_the_listener_is_taken() -> None:
    """A listener at the proxy's place is what the host accepts from."""
    ours, theirs = socket.socketpair()
    with ours, theirs, socket.create_server(("127.0.0.1", PROXY_PORT)) as made:
        socket.send_fds(theirs, [b"x"], [made.fileno()])
        offered = await _offered(ours)
        assert offered is not None
        assert offered.getsockname() == made.getsockname()
        offered.close()
