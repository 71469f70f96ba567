"""One command reaches one origin, and nothing else (tools.md §3.7, ``request_network_grant``).

A server on loopback stands in for the granted host: a resolver of the tests names it, and the private address is
allowed for that one origin.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import platform
import shutil
import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from sandboxhelp import CALLS, Shell, broken_native, missing

from a3s_code.ports.sandbox import NetworkGrant
from a3s_code.ports.tool import ToolFailure, ToolOutput
from a3s_code.workspace.sandbox.bubblewrap import Bubblewrap, Variant
from a3s_code.workspace.sandbox.grants import Grants

pytest_plugins = ["sandboxfixtures"]
pytestmark = pytest.mark.skipif(missing("curl"), reason="needs curl")

HOST = "api.granted.example"
PYTHON = "/usr/bin/python3"
needs_python = pytest.mark.skipif(not os.path.exists(PYTHON), reason="needs the system's Python")


class Origin(ThreadingHTTPServer):
    """Remembers the requests it got. ``/away`` redirects to ``elsewhere``."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answers)
        self.seen: list[tuple[str, str, str]] = []
        self.elsewhere = ""

    @property
    def port(self) -> int:
        return int(self.server_address[1])


class _Answers(BaseHTTPRequestHandler):
    server: Origin

    def do_GET(self) -> None:
        self.server.seen.append((self.command, self.path, str(self.headers["Host"])))
        away = self.path == "/away"
        self.send_response(302 if away else 200)
        if away:
            self.send_header("Location", self.server.elsewhere)
        body = b"x" * 3_000_000 if self.path == "/large" else b"reached"
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.seen.append((self.command, self.path, str(self.headers["Host"])))
        self.send_response(200)
        self.end_headers()
        self.wfile.write(str(len(body)).encode())

    def log_message(self, *args: Any) -> None:
        """Says nothing."""


@contextlib.contextmanager
def serving() -> Iterator[Origin]:
    server = Origin()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture
def origin() -> Iterator[Origin]:
    with serving() as server:
        yield server


@pytest.fixture
def other() -> Iterator[Origin]:
    with serving() as server:
        yield server


class Names:
    """A resolver that remembers what it was asked for."""

    def __init__(self, **addresses: list[str]) -> None:
        self.addresses = addresses
        self.asked: list[str] = []

    def __call__(self, host: str, port: int) -> list[str]:
        self.asked.append(host)
        return self.addresses.get(host.replace(".", "_"), ["127.0.0.1"])


@pytest.fixture
def names() -> Names:
    return Names()


@pytest_asyncio.fixture
async def granting(shell: Shell, origin: Origin, names: Names) -> AsyncIterator[Shell]:
    """A shell that may be granted ``HOST`` at the port of ``origin``."""
    shell.sandbox._grants = Grants(asyncio.to_thread, names, frozenset({NetworkGrant(HOST, origin.port)}))
    yield shell


def asking(port: int | None, host: str = HOST) -> dict[str, Any]:
    grant = {"host": host} if port is None else {"host": host, "port": port}
    return {"sandbox_permissions": "request_network_grant", "network_grant": grant}


async def reach(shell: Shell, command: str, port: int, **more: Any) -> ToolOutput:
    return await shell(command, approved=True, **asking(port), **more)


async def test_the_granted_origin_is_reached(granting: Shell, origin: Origin, names: Names) -> None:
    """By plain requests and through a tunnel, with bodies both ways; the name was resolved once."""
    at = f"http://{HOST}:{origin.port}"
    command = f"curl -sS {at}/plain?q=1 && curl -sSp {at}/tunnel && curl -sS {at}/large | wc -c"
    result = await reach(granting, command, origin.port)
    assert result.output.split() == ["reachedreached3000000"], result.output
    assert origin.seen == [("GET", path, f"{HOST}:{origin.port}") for path in ("/plain?q=1", "/tunnel", "/large")]
    (granting.root / "body").write_bytes(b"y" * 2_000_000)
    for proxied in ("", "-p"):
        result = await reach(granting, f"curl -sS {proxied} --data-binary @body {at}/in", origin.port)
        assert result.output == "2000000"
    assert names.asked == [HOST] * 3


async def test_the_result_says_what_was_granted(granting: Shell, origin: Origin) -> None:
    """Host, port and the digest of the policy, of a failed command too; a result without a grant has none."""
    digest = granting.sandbox.policy_digest
    expected = {"host": HOST, "port": origin.port, "policy_digest": digest}
    for command in ("true", "false"):
        result = await reach(granting, command, origin.port)
        assert (result.metadata["network_grant"], result.metadata["sandbox"]) == (expected, "native")
    assert len(digest) == 32
    assert "network_grant" not in (await granting("true")).metadata


async def test_a_host_is_the_same_however_it_is_written(granting: Shell, origin: Origin) -> None:
    """The grant and the request may differ in case and in a last dot."""
    args = asking(origin.port, "API.Granted.Example.")
    result = await granting(f"curl -sS http://api.GRANTED.example.:{origin.port}/", approved=True, **args)
    assert result.output == "reached"
    assert result.metadata["network_grant"]["host"] == HOST  # type: ignore[index,call-overload]  # a JSON object


ELSEWHERE = [
    "curl -sSf http://other.example:{port}/",
    "curl -sSf http://sub.{host}:{port}/",
    "curl -sSf http://{host}.other.example:{port}/",
    "curl -sSf http://127.0.0.1:{port}/",
    "curl -sSf http://localhost:{port}/",
    "curl -sSf http://{host}:{other}/",
    "curl -sSf http://{host}/",
    "curl -sSf https://{host}/",
    "curl -sSfp http://other.example:{port}/",
    "curl -sSfp http://{host}:{other}/",
    "curl -sSfp http://127.0.0.1:{other}/",
    "curl -sSf -H 'Host: {host}:{port}' http://127.0.0.1:{other}/",
    "curl -sSf http://{host}:{port}@127.0.0.1:{other}/",
    "curl -sSfL http://{host}:{port}/away",
    "curl -sSfLp http://{host}:{port}/away",
    "curl -sSf --noproxy '*' http://127.0.0.1:{port}/",
    "curl -sSf --noproxy '*' http://127.0.0.1:{other}/",
    "curl -sSf --noproxy '*' http://{host}:{port}/",
    "curl -sSf --noproxy '*' --resolve {host}:{port}:127.0.0.1 http://{host}:{port}/",
    "curl -sSf --noproxy '*' -g 'http://[::1]:{other}/'",
    "NO_PROXY='*' curl -sSf http://127.0.0.1:{other}/",
    "curl -sSf --unix-socket {socket} http://{host}/",
    "curl -sSf --abstract-unix-socket {abstract} http://{host}/",
    "getent hosts example.com",
    "exec 3<>/dev/tcp/127.0.0.1/{other}",
    "exec 3<>/dev/udp/127.0.0.1/53",
]


@pytest.mark.parametrize("command", ELSEWHERE)
async def test_nothing_else_is_reached(
    granting: Shell, origin: Origin, other: Origin, names: Names, outside: Path, command: str
) -> None:
    """Other hosts, other ports, a redirect away, direct connections, names, Unix sockets: all fail, and nobody else
    hears anything; nothing but the granted name was ever resolved."""
    origin.elsewhere = f"http://127.0.0.1:{other.port}/secret"
    abstract = f"a3s-grant-{os.getpid()}"
    with contextlib.ExitStack() as stack:
        for place in (str(outside / "listening"), f"\0{abstract}"):
            listening = stack.enter_context(socket.socket(socket.AF_UNIX))
            listening.bind(place)
            listening.listen()
            listening.setblocking(False)
            stack.callback(_nobody_came, listening)
        filled = command.format(
            host=HOST, port=origin.port, other=other.port, socket=outside / "listening", abstract=abstract
        )
        result = await reach(granting, filled, origin.port)
    assert result.exit_code != 0, result.output
    assert "reached" not in result.output
    assert other.seen == []
    assert [path for _, path, _ in origin.seen] == (["/away"] if "away" in command else [])
    assert names.asked == [HOST]


def _nobody_came(listening: socket.socket) -> None:
    with pytest.raises(BlockingIOError):
        listening.accept()


STILL_STOPPED = """
import contextlib, socket, sys, threading
def stopped(name, attempt):
    try:
        attempt()
    except OSError as error:
        print("stopped", name)
    else:
        print("THROUGH", name)
abstract, path = sys.argv[1:]
def pair(kind=socket.SOCK_STREAM):
    return socket.socketpair(socket.AF_UNIX, kind)
def widowed(kind=socket.SOCK_STREAM):
    one, two = pair(kind)
    two.close()
    return one
for kind in (socket.SOCK_STREAM, socket.SOCK_SEQPACKET):
    for make in (lambda: pair(kind)[0], lambda: widowed(kind)):
        for place in (chr(0) + abstract, path):
            stopped("connect", lambda: make().connect(place))
            if kind == socket.SOCK_STREAM:  # the other kind ignores the place
                stopped("sendto", lambda: make().sendto(b"x", place))
        stopped("bind", lambda: make().bind("./made"))
        stopped("listen", lambda: make().listen())
def again():
    one = widowed()
    one.shutdown(socket.SHUT_RDWR)
    one.connect(path)
stopped("shut", again)
def unspecified():
    import ctypes
    one = pair()[0]
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.connect(one.fileno(), bytes(16), 16) != 0:
        raise OSError(ctypes.get_errno(), "connect")
    one.connect(path)
stopped("unspecified", unspecified)
def listener():
    server = socket.socket()
    server.bind(("127.0.0.1", 0))
    server.listen()
stopped("bind tcp", listener)
stopped("listen tcp", lambda: socket.socket().listen())
stopped("pair of datagrams", lambda: pair(socket.SOCK_DGRAM))
"""


@needs_python
@pytest.mark.parametrize("kind", [socket.SOCK_STREAM, socket.SOCK_SEQPACKET])
@pytest.mark.parametrize("first", [False, True])
async def test_no_pair_of_sockets_leads_to_the_host(
    granting: Shell, origin: Origin, outside: Path, monkeypatch: pytest.MonkeyPatch, kind: int, first: bool
) -> None:
    """``connect`` is open, and pairs of Unix sockets are: neither a pair's end nor one whose other end is gone can be
    turned towards a socket of the host, also by what is in the place of the first process. A command can't listen."""
    if first:
        monkeypatch.setattr("a3s_code.workspace.sandbox.session.listening", lambda descriptor, policy: [])
    abstract, path = f"a3s-pairs-{os.getpid()}", str(outside / "pairs")
    (granting.root / "pairs.py").write_text(STILL_STOPPED)
    with contextlib.ExitStack() as stack:
        for place in (path, f"\0{abstract}"):
            listening = stack.enter_context(socket.socket(socket.AF_UNIX, kind))
            listening.bind(place)
            listening.listen()
            listening.setblocking(False)
            stack.callback(_nobody_came, listening)
        result = await reach(granting, f"{PYTHON} pairs.py {abstract} {path}", origin.port)
    lines = result.output.splitlines()
    assert len(lines) == 25, result.output
    through = {line for line in lines if not line.startswith("stopped")}
    assert through == ({"THROUGH bind", "THROUGH bind tcp", "THROUGH listen tcp"} if first else set())


# What an attack without a grant is stopped from, and a granted command may do in its own empty network.
OPENED = {"socket_AF_INET_SOCK_STREAM", "socket_AF_INET6_SOCK_STREAM"}


@needs_python
async def test_a_grant_opens_nothing_else(granting: Shell, origin: Origin, outside: Path) -> None:
    """Every attack on the sandbox is stopped with a grant as well, but for making a socket of TCP."""
    shutil.copy(Path(__file__).with_name("attacks.py"), granting.root / "attacks.py")
    with socket.socket(socket.AF_UNIX) as listening, socket.socket(socket.AF_UNIX) as hidden:
        listening.bind(str(outside / "socket"))
        listening.listen()
        hidden.bind(f"\0a3s-test-{os.getpid()}")
        hidden.listen()
        aim = {
            "outside": str(outside),
            "home": str(outside / "home"),
            "port": origin.port,
            "abstract": f"a3s-test-{os.getpid()}",
            "unix": str(outside / "socket"),
            "host_pid": os.getpid(),
            "calls": CALLS.get(platform.machine(), {}),
        }
        (granting.root / "aim.json").write_text(json.dumps(aim))
        result = await reach(granting, f'{PYTHON} attacks.py "$(cat aim.json)"', origin.port)
    results: dict[str, str] = json.loads(result.output.strip().splitlines()[-1])
    assert len(results) > 80
    assert {name for name, came in results.items() if not came.startswith("stopped")} == OPENED


async def test_another_commands_proxy_is_not_reached(granting: Shell, origin: Origin, other: Origin) -> None:
    """Two granted commands at a time, and one without a grant: each has its own proxy or none."""
    second = NetworkGrant("second.example", other.port)
    granting.sandbox._grants = Grants(asyncio.to_thread, Names(), frozenset({NetworkGrant(HOST, origin.port), second}))
    both = f"curl -sS http://{HOST}:{origin.port}/ http://second.example:{other.port}/ | sed 's/reached/reached /'"
    meet = f"touch $ME; until [ -e one ] && [ -e two ] && [ -e three ]; do sleep 0.01; done; {both}"
    direct = f"curl -sS -x http://127.0.0.1:3128 http://{HOST}:{origin.port}/"
    one, two, three = await asyncio.gather(
        granting(meet, approved=True, **asking(origin.port), env={"ME": "one"}),
        granting(meet, approved=True, **asking(other.port, "second.example"), env={"ME": "two"}),
        granting(f"touch three; until [ -e one ] && [ -e two ]; do sleep 0.01; done; {direct}"),
    )
    refusal = "this command may reach {}:{} and nothing else"
    assert one.output.strip() == "reached " + refusal.format(HOST, origin.port)
    assert two.output.split("\n") == [refusal.format("second.example", other.port), "reached "]
    assert three.exit_code != 0
    assert "reached" not in three.output
    assert (len(origin.seen), len(other.seen)) == (1, 1)


async def test_connections_end_with_the_command(granting: Shell) -> None:
    """A tunnel that the command left open is closed to the origin, and no proxy is left listening."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        granting.sandbox._grants = Grants(asyncio.to_thread, Names(), frozenset({NetworkGrant(HOST, port)}))
        script = (
            "exec 3<>/dev/tcp/127.0.0.1/3128; "
            f"printf 'CONNECT {HOST}:{port} HTTP/1.1\\r\\n\\r\\nhello' >&3; read -r line <&3; echo $line; "
            "setsid sleep 60 &"
        )
        result = await reach(granting, script, port)
        assert result.output.startswith("HTTP/1.1 200")
        connection, _ = server.accept()
        with connection:
            connection.settimeout(10)
            got = b""
            with contextlib.suppress(ConnectionResetError):
                while data := connection.recv(100):
                    got += data
            assert got == b"hello"
    assert [task.get_name() for task in asyncio.all_tasks() if "proxy" in task.get_name()] == []


@needs_python
async def test_in_a_user_namespace(granting: Shell, origin: Origin) -> None:
    """The same where the sandbox is made without privileges."""
    native = granting.sandbox._choice.native.sandbox
    assert isinstance(native, Bubblewrap)
    await granting.sandbox.state()
    found = native._variant
    assert found is not None
    native._variant = Variant(found.binary, own_users=True)
    try:
        result = await reach(granting, f"curl -sS http://{HOST}:{origin.port}/", origin.port)
    except ToolFailure as failure:
        pytest.skip(f"there are no user namespaces here: {failure.message}")
    finally:
        native._variant = found
    assert result.output == "reached"


async def test_a_command_that_is_cut_off_leaves_no_proxy(granting: Shell, origin: Origin) -> None:
    """A deadline, and a cancelled call, close the proxy too."""
    result = await reach(granting, "sleep 60", origin.port, timeout_ms=300)
    assert result.error_kind == "timeout"
    assert result.metadata["network_grant"] is not None
    call = asyncio.ensure_future(reach(granting, "touch began; sleep 60", origin.port))
    while not (granting.root / "began").exists():
        await asyncio.sleep(0.01)
    call.cancel()
    await asyncio.wait({call})
    assert [task.get_name() for task in asyncio.all_tasks() if "proxy" in task.get_name()] == []


async def test_nobody_approved_it(granting: Shell, origin: Origin) -> None:
    """Without an approval a model's grant is refused; the host's own call is its own approval."""
    with pytest.raises(ToolFailure) as caught:
        await granting("touch ran", **asking(origin.port))
    assert caught.value.kind == "confirmation_unavailable"
    assert not (granting.root / "ran").exists()
    result = await granting(f"curl -sS http://{HOST}:{origin.port}/", origin="host", **asking(origin.port))
    assert result.output == "reached"


async def test_what_is_asked(granting: Shell) -> None:
    """The question names the origin, the reason and the policy's digest; the port is 443 unless said."""
    args = {"command": "true", "justification": "to publish", **asking(None, "API.example.")}
    asked = await granting.tool.escalation(args, granting.context())
    assert asked is not None
    assert "api.example:443" in asked.reason
    assert "to publish" in asked.reason
    assert asked.scope == f"api.example:443 from inside the sandbox; policy {granting.sandbox.policy_digest}"
    assert asked.risk


async def test_an_approval_under_another_policy_is_stale(granting: Shell, origin: Origin) -> None:
    """What was approved is compared with the origin and the policy of now."""
    args = {"command": "true", **asking(origin.port)}
    asked = await granting.tool.escalation(args, granting.context())
    assert asked is not None
    shell_context = granting.context(approved=True)
    shell_context.approved_scope = asked.scope
    checked = {"timeout_ms": 10_000, **args}
    assert (await granting.tool.execute(checked, shell_context)).exit_code == 0
    for scope in (asked.scope.replace(granting.sandbox.policy_digest, "0" * 32), f"x{asked.scope}", ""):
        shell_context.approved_scope = scope
        with pytest.raises(ToolFailure, match="another sandbox policy") as caught:
            await granting.tool.execute(checked, shell_context)
        assert caught.value.kind == "conflict"


async def test_the_digest_is_of_what_the_host_chose(shells: Callable[..., Shell]) -> None:
    """The same in another session with the same choice, another with other choices, whatever the workspace holds."""
    first, same = shells(), shells()
    before = first.sandbox.policy_digest
    (first.root / ".env").write_text("SECRET")
    await first("true")
    assert first.sandbox.policy_digest == before == same.sandbox.policy_digest
    others = {shells(writable=(".git",)).sandbox.policy_digest, shells(mask_workspace=False).sandbox.policy_digest}
    assert len(others | {before}) == 3


BLOCKED = [
    ("127.0.0.1", "loopback"),
    ("2130706433", "loopback"),
    ("0x7f.1", "loopback"),
    ("localhost", "local name"),
    ("db.internal", "local name"),
    ("intranet", "single-label name"),
    ("169.254.169.254", "link-local"),
]


@pytest.mark.parametrize(("host", "why"), BLOCKED)
async def test_refused_hosts_are_not_asked_about(granting: Shell, host: str, why: str) -> None:
    """A host that may not be reached is refused even when approved, and nobody is asked."""
    args = asking(8443, host)
    assert await granting.tool.escalation({"command": "true", **args}, granting.context()) is None
    with pytest.raises(ToolFailure, match=f": {why}$") as caught:
        await granting("true", approved=True, **args)
    assert caught.value.kind == "ssrf_blocked"


@pytest.mark.parametrize("addresses", [["10.0.0.7"], ["93.184.215.14", "10.0.0.7"], ["::1"], ["::ffff:10.0.0.7"]])
async def test_one_refused_address_refuses_the_name(granting: Shell, names: Names, addresses: list[str]) -> None:
    """A name with any private address runs nothing, and the address is not told."""
    names.addresses["inner_example"] = addresses
    with pytest.raises(ToolFailure) as caught:
        await granting("touch ran", approved=True, **asking(443, "inner.example"))
    assert caught.value.kind == "ssrf_blocked"
    assert "10.0.0.7" not in caught.value.message
    assert not (granting.root / "ran").exists()


async def test_a_private_address_is_allowed_for_its_one_port(granting: Shell, other: Origin) -> None:
    """The exception of these tests is no exception for the same host at another port."""
    with pytest.raises(ToolFailure, match="loopback"):
        await granting("true", approved=True, **asking(other.port))


async def test_mail_and_shells_are_no_origins(granting: Shell) -> None:
    """The browsers' blocked ports are refused."""
    with pytest.raises(ToolFailure, match="blocked port") as caught:
        await granting("true", approved=True, **asking(25, "mail.example"))
    assert caught.value.kind == "ssrf_blocked"


async def test_a_name_that_is_not_known(granting: Shell) -> None:
    """What can't be resolved is a transport failure before the command begins."""

    def nobody(host: str, port: int) -> list[str]:
        raise socket.gaierror(-2, "Name or service not known")

    granting.sandbox._grants = Grants(asyncio.to_thread, nobody)
    with pytest.raises(ToolFailure, match=r"gone\.example can't be resolved") as caught:
        await granting("true", approved=True, **asking(443, "gone.example"))
    assert caught.value.kind == "transport"


async def test_an_origin_that_does_not_answer(granting: Shell, origin: Origin) -> None:
    """The command gets an answer of the proxy, without the address."""
    origin.server_close()
    result = await reach(granting, f"curl -sS http://{HOST}:{origin.port}/", origin.port)
    assert result.output == f"{HOST}:{origin.port} can't be reached\n"


async def test_without_the_native_sandbox_there_is_no_grant(workspace: Path, outside: Path) -> None:
    """On the host, in a host's own sandbox and without any, nothing mediates: refused also when approved, and nobody is
    asked."""

    class Own:
        name = "own"

        async def probe(self) -> str | None:
            return None

        def command(self, argv: Any, policy: Any) -> Any:
            raise AssertionError("a command was prepared")

    choices: list[dict[str, Any]] = [
        {"host": "chosen"},
        {"handle": Own()},
        {"native": broken_native(), "can_ask": True},
    ]
    for choice in choices:
        shell = Shell(workspace, {"HOME": str(outside / "home")}, **choice)
        args = asking(443, "api.example")
        assert await shell.tool.escalation({"command": "true", **args}, shell.context()) is None
        for more in ({}, {"approved": True}, {"origin": "host"}):
            with pytest.raises(ToolFailure, match="Network grants are not available here") as caught:
                await shell("true", **args, **more)
            assert (caught.value.kind, caught.value.exit_code) == ("unavailable", 126)
        await shell.sandbox.aclose()


async def test_without_an_interpreter_there_is_no_grant(
    granting: Shell, origin: Origin, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A Python that commands could have changed starts nothing; where there is no other one, nothing runs."""
    planted = granting.root / "python3"
    planted.write_text("#!/bin/sh\ntouch planted-ran\n")
    planted.chmod(0o755)
    monkeypatch.setattr("a3s_code.workspace.sandbox.grants.sys.executable", str(planted))
    monkeypatch.setattr("a3s_code.workspace.sandbox.grants.ELSEWHERE", ())
    with pytest.raises(ToolFailure, match="needs a Python") as caught:
        await reach(granting, "touch ran", origin.port)
    assert caught.value.kind == "unavailable"
    assert not (granting.root / "ran").exists()
    assert not (granting.root / "planted-ran").exists()
