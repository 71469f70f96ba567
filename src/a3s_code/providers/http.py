"""HTTP to one provider. In: a URL, headers and body. Out: an Exchange to read an answer from, or an LlmError.

One rule: one ``post`` is one attempt on a pooled connection; every failure comes out as an LlmError with its class.
Known weakness: the sessions of a loop that was closed before ``aclose`` are dropped without a goodbye to the server.
"""

from __future__ import annotations

import asyncio
import errno
import io
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from a3s_code.errors import LlmError
from a3s_code.providers import failures

if TYPE_CHECKING:
    import aiohttp

CONNECT_S: Final = 15.0
KEEP_ALIVE_S: Final = 30.0
ERROR_BODY_BYTES: Final = 64 * 1024
_BIG_BODY: Final = 1 << 20  # aiohttp warns of bytes above this


class Exchange:
    """An answer that has begun: ``status``, ``headers`` by lower-case name, and its bytes as they come."""

    def __init__(self, response: aiohttp.ClientResponse, timeout_s: float) -> None:
        self.status = response.status
        self._response = response
        self._content = response.content
        self._loop = asyncio.get_running_loop()
        self._timeout_s = timeout_s
        self._waiting_since: float | None = None
        self._watch = self._loop.call_later(timeout_s, self._look)

    @property
    def headers(self) -> Mapping[str, str]:
        return {name.lower(): value for name, value in self._response.headers.items()}

    @property
    def ended(self) -> bool:
        """Whether everything has come and was read."""
        return self._content.at_eof()

    async def read(self) -> bytes:
        """The bytes that are there, waiting for some; empty at the end."""
        self._waiting_since = self._loop.time()
        try:
            return await self._content.readany()
        except LlmError:
            raise
        except (OSError, ValueError, *_client_error()) as error:
            raise classified(error) from error
        finally:
            self._waiting_since = None

    def expire_in(self, seconds: float) -> None:
        """From now on the whole rest must come within ``seconds``."""
        self._watch.cancel()
        self._watch = self._loop.call_later(seconds, self._expire, seconds)

    def close(self) -> None:
        """Gives the connection back when everything was read, else closes it."""
        self._watch.cancel()
        self._response.close()

    def _look(self) -> None:
        """One timer for the whole answer: re-armed for what is left, so that a chunk costs no timer."""
        since = self._waiting_since
        now = self._loop.time()
        left = self._timeout_s - (now - since) if since is not None else self._timeout_s
        if left <= 0:
            self._expire(self._timeout_s)
        else:
            self._watch = self._loop.call_at(now + left, self._look)

    def _expire(self, seconds: float) -> None:
        self._content.set_exception(LlmError(f"the provider was silent for {seconds:g} s", retryable=True))


class HttpTransport:
    """Connections to one provider: a session for each event loop, made at its first request."""

    def __init__(self) -> None:
        self._sessions: dict[asyncio.AbstractEventLoop, aiohttp.ClientSession] = {}
        self._timeouts: aiohttp.ClientTimeout | None = None
        self._proxies: dict[str, str | None] = {}
        self._closed = False

    async def post(self, url: str, headers: Mapping[str, str], body: bytes, timeout_s: float) -> Exchange:
        """Sends ``body``; returns once the answer's head is there. Another status than 200 raises."""
        loop = asyncio.get_running_loop()
        session = self._sessions.get(loop) or await self._open(loop)
        data = body if len(body) <= _BIG_BODY else io.BytesIO(body)
        try:
            async with asyncio.timeout(timeout_s):
                response = await session.post(
                    url,
                    data=data,
                    headers=headers,
                    timeout=self._timeouts,
                    allow_redirects=False,
                    proxy=self._proxy(url),
                )
        except (OSError, ValueError, *_client_error()) as error:
            raise classified(error, timeout_s) from error
        exchange = Exchange(response, timeout_s)
        if response.status == 200:
            return exchange
        try:
            raise failures.from_response(exchange.status, exchange.headers, await _start_of(exchange))
        finally:
            exchange.close()

    async def aclose(self) -> None:
        """Closes every connection; the transport can't be used afterwards."""
        self._closed = True
        sessions, self._sessions = self._sessions, {}
        here = asyncio.get_running_loop()
        for loop, session in sessions.items():
            if loop is not here and loop.is_running():
                await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(session.close(), loop))
            elif loop is here or loop.is_closed():
                await session.close()
            else:
                session.detach()  # its loop stands still: nobody can close it properly

    async def _open(self, loop: asyncio.AbstractEventLoop) -> aiohttp.ClientSession:
        if self._closed:
            raise LlmError("the provider's connections were closed")
        import aiohttp

        for old in [other for other in self._sessions if other.is_closed()]:
            await self._sessions.pop(old).close()
        self._timeouts = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S)
        session = self._sessions[loop] = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEP_ALIVE_S),
            cookie_jar=aiohttp.DummyCookieJar(),
        )
        return session

    def _proxy(self, url: str) -> str | None:
        """``HTTP(S)_PROXY`` and ``NO_PROXY``, read once; aiohttp's own way reads them, and ~/.netrc, every time."""
        if url not in self._proxies:
            from urllib.parse import urlsplit  # these two take 20 ms that no import should cost
            from urllib.request import getproxies_environment, proxy_bypass

            parts = urlsplit(url)
            proxy = getproxies_environment().get(parts.scheme)
            self._proxies[url] = None if proxy and proxy_bypass(parts.netloc) else proxy
        return self._proxies[url]


async def _start_of(exchange: Exchange) -> bytes:
    """The first part of an error's body, as far as it comes."""
    body = bytearray()
    try:
        while len(body) < ERROR_BODY_BYTES and (chunk := await exchange.read()):
            body += chunk
    except LlmError:
        return bytes(body)  # the status says enough
    return bytes(body[:ERROR_BODY_BYTES])


def _client_error() -> tuple[type[Exception]]:
    from aiohttp import ClientError

    return (ClientError,)


def classified(error: Exception, timeout_s: float = 0) -> LlmError:
    """What a failure below HTTP means. Whoever is unknown, refuses or isn't trusted won't be there a moment later."""
    import aiohttp

    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return LlmError(f"unknown host {error.host}: {_reason(error)}")
    if isinstance(error, (aiohttp.ClientConnectorCertificateError, aiohttp.ClientSSLError)):
        return LlmError(failures.clip(f"no trusted connection to {error.host}: {error}"))
    if isinstance(error, aiohttp.ClientConnectorError):
        refused = error.os_error.errno == errno.ECONNREFUSED
        what = "refused the connection" if refused else f"can't be reached ({_reason(error)})"
        return LlmError(f"{error.host}:{error.port} {what}", retryable=not refused)
    if isinstance(error, aiohttp.ClientHttpProxyError):
        retryable = failures.is_retryable(error.status)
        return LlmError(f"the proxy answered {error.status}", status=error.status, retryable=retryable)
    if isinstance(error, TimeoutError):
        connecting = isinstance(error, aiohttp.ConnectionTimeoutError)
        limit = f"no connection within {CONNECT_S:g} s" if connecting else f"no answer within {timeout_s:g} s"
        return LlmError(limit, retryable=True)
    if isinstance(error, (aiohttp.InvalidURL, ValueError)):
        return LlmError(f"the request can't be sent ({type(error).__name__}): check the base URL, key and headers")
    return LlmError(failures.clip(f"the connection was lost: {error}"), retryable=True)


def _reason(error: aiohttp.ClientConnectorError) -> str:
    return error.os_error.strerror or str(error.os_error)
