"""Model providers over real HTTP, behaving well and in every bad way (providers.md, *Failure and retry*)."""

from __future__ import annotations

import asyncio
import gc
import socket
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from loopback import Hold, Loopback, Reply, answered, loopback, streamed
from provider_bytes import ANTHROPIC, DONE, OPENAI, STOP, assembled, event, openai_event

from a3s_code.core.assemble import AssembledTurn
from a3s_code.core.content import AttachmentRef, UserMessage
from a3s_code.errors import ConfigError, LlmError
from a3s_code.ports.model import ModelDelta, ModelRequest
from a3s_code.providers import client as client_module
from a3s_code.providers.client import HttpModel, join_url
from a3s_code.providers.factory import Providers, make_client

KEY = "sk-very-secret-key"
DATE = "Date: Wed, 21 Oct 2026 07:27:30 GMT"


def request(timeout_ms: int = 10_000, **options: Any) -> ModelRequest:
    return ModelRequest("m", [UserMessage("q")], timeout_ms=timeout_ms, **options)


def client(url: str, family: str = "openai", key: Callable[[], str | None] = lambda: KEY, **options: Any) -> HttpModel:
    made = make_client(family, base_url=url, api_key=key, headers=options.pop("headers", {}), model="m", **options)
    assert isinstance(made, HttpModel)
    return made


async def answer(model: HttpModel, asked: ModelRequest | None = None) -> AssembledTurn:
    return assembled([delta async for delta in model.stream(asked or request())])


@asynccontextmanager
async def serving(*replies: Reply, family: str = "openai", **options: Any) -> AsyncIterator[tuple[Loopback, HttpModel]]:
    async with loopback(*replies) as server:
        model = client(server.url, family, **options)
        try:
            yield server, model
        finally:
            await model.aclose()


async def failure(*replies: Reply, timeout_ms: int = 10_000, **options: Any) -> LlmError:
    async with serving(*replies, **options) as (_, model):
        with pytest.raises(LlmError) as caught:
            await answer(model, request(timeout_ms))
        return caught.value


async def test_a_streamed_answer_arrives_over_http() -> None:
    """The request has the family's path and headers, and the answer is the decoded stream, in both families."""
    async with serving(streamed(OPENAI[:700], OPENAI[700:]), headers={"X-Team": "core"}) as (server, model):
        turn = await answer(model)
    head, body = server.requests[0]
    assert turn.text == "北京 is a city 🏙."
    assert head.startswith(b"POST /v1/chat/completions HTTP/1.1\r\n")
    for line in (b"authorization: bearer sk-very-secret-key", b"x-team: core", b"accept: text/event-stream"):
        assert b"\r\n" + line + b"\r\n" in head.lower()
    assert b'"stream":true' in body
    async with serving(streamed(ANTHROPIC), family="claude") as (server, model):
        assert (await answer(model)).text == "北京 is a city."
    head = server.requests[0][0].lower()
    assert head.startswith(b"post /v1/messages http/1.1\r\n")
    assert b"\r\nx-api-key: sk-very-secret-key\r\n" in head
    assert b"\r\nanthropic-version: 2023-06-01\r\n" in head


async def test_connections_are_used_again() -> None:
    """Answers and errors that were read to their end leave a connection for the next request."""
    replies = [streamed(STOP, DONE), answered(500, b"{}"), streamed(STOP + DONE), streamed(STOP)]
    async with serving(*replies) as (server, model):
        for reply in replies:
            if reply is replies[1]:
                with pytest.raises(LlmError):
                    await answer(model)
            else:
                await answer(model)
        assert len(server.requests) == 4
        assert server.connections == 1


async def test_clients_of_one_provider_share_connections() -> None:
    """Two models of one provider use one pool, which only the owner of both closes."""
    async with loopback(streamed(STOP, DONE), streamed(STOP, DONE)) as server:
        providers = Providers()
        for model in ("m", "n"):
            made = providers.client("x", base_url=server.url, api_key=lambda: None, headers={}, model=model)
            assert isinstance(made, HttpModel)
            await answer(made)
            await made.aclose()
            transport = made._transport
        assert server.connections == 1
        assert b"authorization" not in server.requests[0][0].lower()
        await providers.aclose()
        with pytest.raises(LlmError, match="closed"):
            await answer(client(server.url, transport=transport))


def test_sessions_with_the_same_settings_share_a_client() -> None:
    """What a client needs is made once; another model, header or address gets one of its own."""
    providers = Providers()

    def made(**changed: Any) -> object:
        settings: dict[str, Any] = {"base_url": "http://h", "api_key": len, "headers": {"a": "b"}, "model": "m"}
        return providers.client("x", **settings | changed)

    first = made()
    assert made() is first
    for other in ({"model": "n"}, {"headers": {"a": "c"}}, {"base_url": "http://i"}, {"api_key": int}):
        assert made(**other) is not first


async def test_deltas_come_before_the_answer_ends() -> None:
    """A consumer sees text while the provider is still speaking, and may leave."""
    async with serving([*streamed(openai_event(delta={"content": "a"}), end=False), Hold]) as (_, model):
        stream = model.stream(request())
        seen: list[ModelDelta] = []
        async for delta in stream:
            seen.append(delta)
            if delta.text:
                break
        await stream.aclose()
    assert seen[-1].text == "a"


@pytest.mark.parametrize(
    ("status", "retryable"),
    [(s, True) for s in (408, 409, 425, 429, 500, 502, 503, 504, 529)]
    + [(s, False) for s in (400, 401, 403, 404, 413, 422, 301, 307)],
)
async def test_each_status_has_its_class(status: int, retryable: bool) -> None:
    """The table of *Failure and retry*, with the provider's own sentence in the message."""
    error = await failure(answered(status, b'{"error":{"message":"what went wrong"}}', "Location: http://other/"))
    assert (error.status, error.retryable, error.code) == (status, retryable, "LLM_ERROR")
    assert f"answered {status}" in error.message
    assert "what went wrong" in error.message


@pytest.mark.parametrize(
    ("headers", "body", "expected"),
    [
        (["Retry-After: 30"], b"{}", 30_000),
        (["Retry-After: 86400"], b"{}", 86_400_000),
        (["Retry-After: Wed, 21 Oct 2026 07:28:00 GMT", DATE], b"{}", 30_000),
        (["Retry-After: Wed, 21 Oct 2026 07:20:00 GMT", DATE], b"{}", 0),
        (["Retry-After: Wed, 21 Oct 2026 07:28:00 GMT"], b"{}", None),
        (["Retry-After: soon"], b"{}", None),
        (["Retry-After-Ms: 250", "Retry-After: 30"], b"{}", 250),
        ([], b'[{"error":{"message":"x","details":[{"@type":"RetryInfo","retryDelay":"17s"}]}}]', 17_000),
        ([], b'{retryDelay:"17s"}', 17_000),
        ([], b'{"error":{"message":"Please try again in 1m2.5s."}}', 62_500),
        ([], b'{"error":{"message":"Please try again in 120ms."}}', 120),
        ([], b'{"message":"Please retry after 9 seconds"}', 9_000),
        ([], b'{"error":{"message":"no hint, 17s ago"}}', None),
    ],
)
async def test_waiting_times_are_read_wherever_they_stand(
    headers: list[str], body: bytes, expected: int | None
) -> None:
    """Retry-After in seconds, as a date and in milliseconds, and hints in the body, with a 429 (A17)."""
    error = await failure(answered(429, body, *headers))
    assert (error.status, error.retryable, error.retry_after_ms) == (429, True, expected)


@pytest.mark.parametrize(
    ("status", "message", "too_long"),
    [
        (400, "This model's maximum context length is 128000 tokens. However, you requested 130000", True),
        (400, "prompt is too long: 205000 tokens > 200000 maximum", True),
        (422, "input length and `max_tokens` exceed context limit: 1 + 2 > 3", True),
        (413, "Request too large", True),
        (400, "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).", True),
        (429, "Rate limit: too many tokens per minute", False),
        (400, "unknown parameter", False),
    ],
)
async def test_a_too_long_context_is_recognised(status: int, message: str, too_long: bool) -> None:
    """What a compaction mends is told apart from other refusals of a request."""
    error = await failure(answered(status, b'{"error":{"message":"%b"}}' % message.encode()))
    assert error.context_too_long is too_long
    assert error.retryable is (status == 429)


async def test_messages_are_bounded_and_hold_no_secret() -> None:
    """The provider's text is cut to 2 KiB, and a key or header value that it repeats is taken out, in errors of the
    connection, the status and the stream alike."""
    header = {"X-Token": "Token abcdef123456"}
    body = b'{"error":{"message":"bad key %b, token abcdef123456 %b"}}' % (KEY.encode(), "ü".encode() * 3000)
    for reply in (answered(401, body), streamed(b"data: " + body + b"\n\n")):
        error = await failure(reply, headers=header)
        assert "bad key [secret]" in error.message
        assert KEY not in repr(error)
        assert "abcdef123456" not in error.message
        assert len(error.message.encode()) <= 2048


async def test_an_html_error_page_is_told_by_its_title() -> None:
    """A gateway's page isn't dumped into the message; its status decides (A18)."""
    error = await failure(answered(502, b"<html><head><title>502 Bad\nGateway</title></head><body>..</body></html>"))
    assert (error.retryable, error.message) == (True, "the provider answered 502: 502 Bad Gateway")


async def test_a_cut_answer_is_an_error_to_be_retried() -> None:
    """A connection that ends early, in the head, a chunk, or between chunks, and a clean end without a finish (A10)."""
    text = openai_event(delta={"content": "a"})
    replies: list[Reply] = [
        [],
        [b"HTTP/1.1 200 OK\r\nContent-"],
        [b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n40\r\ndata: {"],
        streamed(text, end=False),
        streamed(text),
        [b"HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n" + text],
        [b"HTTP/1.1 200 OK\r\n\r\n" + text],
    ]
    for reply in replies:
        error = await failure(reply)
        assert error.retryable
        assert error.status is None


async def test_a_connection_lost_after_the_finish_is_a_whole_answer() -> None:
    """What was finished isn't paid for again because the goodbye got lost."""
    async with serving(streamed(openai_event(delta={"content": "a"}), STOP, end=False)) as (_, model):
        assert (await answer(model)).text == "a"


@pytest.mark.parametrize(
    "reply",
    [
        [Hold],
        [b"HTTP/1.1 200 OK\r\nContent-", Hold],
        [*streamed(end=False), Hold],
        [*streamed(openai_event(delta={"content": "a"}), end=False), Hold],
    ],
    ids=["no answer", "half a head", "no first byte", "silence later"],
)
async def test_silence_ends_an_attempt(reply: Reply) -> None:
    """A wait longer than ``timeout_ms``, for the first byte or later, raises a retryable error (A12)."""
    error = await failure(reply, timeout_ms=80)
    assert error.retryable
    assert "0.08 s" in error.message


async def test_a_slow_consumer_is_not_the_providers_silence() -> None:
    """Time that the consumer takes between two deltas doesn't count against the provider."""
    async with serving([*streamed(openai_event(delta={"content": "a"}), STOP, DONE)]) as (_, model):
        seen = []
        async for delta in model.stream(request(timeout_ms=40)):
            seen.append(delta.text)
            await asyncio.sleep(0.05)
    assert "a" in seen


async def test_waiting_after_the_finish_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A provider that keeps the stream open, or pings for ever, after its finish reason can't hold the answer (A09)."""
    monkeypatch.setattr(client_module, "AFTER_FINISH_S", 0.03)
    monkeypatch.setattr(client_module, "AFTER_DONE_S", 0.03)
    pings = [b"9\r\n: ping\n\n\r\n"] * 2000
    for reply in ([*streamed(STOP, end=False), Hold], [*streamed(STOP, end=False), *pings, Hold]):
        async with serving(reply) as (_, model):
            assert (await answer(model, request(timeout_ms=60_000))).finish == "stop"
    async with serving([*streamed(STOP, DONE, end=False), Hold], streamed(STOP, DONE)) as (server, model):
        await answer(model)
        await answer(model)
        assert server.connections == 2


async def test_usage_after_the_finish_is_awaited() -> None:
    """The reading goes on after a finish reason, in another network chunk, to [DONE]."""
    usage = event({"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 4}})
    async with serving(streamed(STOP, usage, DONE)) as (_, model):
        assert (await answer(model)).usage.total_tokens == 7


async def test_an_endless_body_is_refused() -> None:
    """An answer above 32 MiB fails without being retried (A18)."""
    error = await failure(streamed(*[b": " + b"x" * 4_000_000] * 9, end=False))
    assert "larger than" in error.message
    assert not error.retryable


async def test_nobody_listening_is_not_retried() -> None:
    """A refused connection fails at once (A18)."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    for host in ("127.0.0.1", "localhost"):
        model = client(f"http://{host}:{port}")
        with pytest.raises(LlmError, match="refused") as caught:
            await answer(model)
        assert not caught.value.retryable
        await model.aclose()


async def test_an_unknown_host_is_not_retried() -> None:
    """A name that doesn't resolve fails at once (A18)."""
    model = client("http://nonexistent.invalid")
    with pytest.raises(LlmError, match="unknown host nonexistent") as caught:
        await answer(model)
    assert not caught.value.retryable
    await model.aclose()


async def test_something_that_speaks_no_http_is_an_error() -> None:
    """Garbage instead of a head is a lost connection with a bounded message."""
    error = await failure([b"220 mail ESMTP\r\n" + b"\x00\xff" * 5000 + b"\r\n\r\n"])
    assert len(error.message.encode()) <= 2048


async def test_a_key_that_cannot_be_sent_is_told_without_it() -> None:
    """Blanks around a key are dropped; a character that no header can hold is an error that doesn't show the key."""
    async with serving(streamed(STOP, DONE), key=lambda: f" {KEY}\n") as (server, model):
        await answer(model)
    assert f"Bearer {KEY}\r\n".encode() in server.requests[0][0]
    model = client("http://127.0.0.1:9", key=lambda: "sk-a\nb: c")
    with pytest.raises(LlmError) as caught:
        await answer(model)
    assert "sk-a" not in caught.value.message


async def test_the_key_is_asked_at_the_first_request_only() -> None:
    """Making a client reads no key; it is read once."""
    asked: list[int] = []

    def key() -> str:
        asked.append(1)
        return KEY

    async with serving(streamed(STOP, DONE), streamed(STOP, DONE), key=key) as (_, model):
        assert not asked
        await answer(model)
        await answer(model)
    assert len(asked) == 1


async def test_a_big_request_arrives_whole() -> None:
    """A history of several MiB, pictures included, is sent without a warning and without blocking on files."""
    ref = AttachmentRef("image", "image/png", "ab" * 32, "big.png")
    asked = ModelRequest("m", [UserMessage("q", (ref,))], load=lambda _: b"\x00" * 3_000_000)
    async with serving(streamed(STOP, DONE)) as (server, model):
        await answer(model, asked)
    assert len(server.requests[0][1]) > 4_000_000
    assert server.requests[0][1].endswith(b"]}")


async def test_proxies_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """HTTP_PROXY is used for the request, unless NO_PROXY names the host."""
    async with loopback(streamed(STOP, DONE), streamed(STOP, DONE)) as server:
        monkeypatch.setenv("http_proxy", server.url)
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        for url, line in (
            ("http://model.invalid/x", b"POST http://model.invalid/x/v1/chat"),
            (server.url, b"POST /v1/chat"),
        ):
            model = client(url)
            await answer(model)
            await model.aclose()
            assert server.requests[-1][0].startswith(line)


@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
def test_a_client_serves_one_loop_after_another() -> None:
    """A pool belongs to its loop: the same client works in a second loop after the first was closed."""
    model = client("http://127.0.0.1:9")

    async def once() -> None:
        async with loopback(streamed(STOP, DONE)) as server:
            model.url = join_url(server.url, model.path)
            assert (await answer(model)).finish == "stop"

    async def last() -> None:
        await once()
        await model.aclose()

    asyncio.run(once())
    asyncio.run(last())
    gc.collect()  # the first loop's socket goes here, with its warning


@pytest.mark.parametrize(
    ("base", "url"),
    [
        ("https://h/api/coding/paas/v4", "https://h/api/coding/paas/v4/chat/completions"),
        ("https://h/v1", "https://h/v1/chat/completions"),
        ("https://h/v1/", "https://h/v1/chat/completions"),
        ("https://h", "https://h/v1/chat/completions"),
        ("https://h/", "https://h/v1/chat/completions"),
        ("https://h/proxy/openai/", "https://h/proxy/openai/v1/chat/completions"),
        ("https://h/v1beta/openai", "https://h/v1beta/openai/chat/completions"),
        ("https://h/v1/chat/completions", "https://h/v1/chat/completions"),
        ("https://h:8443/a?api-version=2", "https://h:8443/a/v1/chat/completions?api-version=2"),
        ("https://h?mail=a@b", "https://h/v1/chat/completions?mail=a@b"),
        (" HTTPS://h/v1#part ", "https://h/v1/chat/completions"),
        ("http://[::1]:8080", "http://[::1]:8080/v1/chat/completions"),
    ],
)
def test_a_base_url_gets_exactly_one_version(base: str, url: str) -> None:
    """The version is added when the path has none, and the path is kept (A22)."""
    assert join_url(base, "chat/completions") == url


def test_a_base_url_that_cannot_work_is_a_configuration_error() -> None:
    """No scheme, no host, credentials in the URL, or an unknown provider without one is refused when it is made."""
    for url in (
        "h/v1",
        "ftp://h",
        "https://",
        "https://:80/v1",
        "https://h\n/v1",
        "https://user:secret@h",
        "https://user@h",
    ):
        with pytest.raises(ConfigError) as caught:
            client(url)
        assert "secret" not in caught.value.message
    with pytest.raises(ConfigError, match='"acme" needs a baseUrl'):
        make_client("acme", base_url=None, api_key=lambda: None, headers={}, model="m")


async def test_making_a_client_imports_no_http_library(tmp_path: Path) -> None:
    """aiohttp is imported by the first request, not by making a client."""
    code = (
        "import sys; from a3s_code.providers.factory import Providers\n"
        "Providers().client('glm', base_url=None, api_key=lambda: None, headers={}, model='m')\n"
        "sys.exit(any(name in sys.modules for name in ('aiohttp', 'yarl', 'urllib.request')))"
    )
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", code, cwd=tmp_path)
    assert await process.wait() == 0
