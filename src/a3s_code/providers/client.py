"""One attempt at a model (the ``Model`` port over HTTP). In: a ModelRequest. Out: its ModelDeltas, or an LlmError.

One rule: an answer ends normally only when its decoder says that it is whole; no message holds a key or header value.
Known weakness: a consumer that leaves the stream should close it; else the connection waits for the collector.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Final

import msgspec

from a3s_code.core.content import AttachmentRef
from a3s_code.errors import ConfigError, LlmError
from a3s_code.ports.model import ModelDelta, ModelRequest
from a3s_code.providers import failures
from a3s_code.providers.answer import AnswerDecoder
from a3s_code.providers.http import Exchange, HttpTransport

AFTER_FINISH_S: Final = 5.0  # for the usage that may follow the finish reason
AFTER_DONE_S: Final = 0.1  # for the end of the body: waiting longer than that costs more than a new connection
SLICE_BYTES: Final = 8 * 1024  # decoded at a time: the first delta of a big chunk shouldn't wait for its last
_ADDRESS: Final = re.compile(
    r"(https?)://([^/?#\x00-\x20]+)([^?#\x00-\x1f]*)(\?[^#\x00-\x1f]*)?(?:#.*)?", re.IGNORECASE
)
"""Scheme, host with port, path, query. Importing ``urllib.parse`` takes 3 ms that making a session needn't wait for."""
_VERSION = re.compile(r"v\d+(?:[a-z]+\d*)?")
_BASE_HEADERS: Final = {
    "accept": "text/event-stream",
    "accept-encoding": "identity",
    "content-type": "application/json",
    "user-agent": "a3s-code-py",
}


class HttpModel:
    """What the families share. ``api_key`` is asked at the first request; ``headers`` win over ours."""

    path = ""

    def __init__(
        self,
        transport: HttpTransport,
        *,
        base_url: str,
        api_key: Callable[[], str | None],
        headers: Mapping[str, str],
        model: str,
        images: bool = True,
        owns_transport: bool = False,
    ) -> None:
        self.url = join_url(base_url, self.path)
        self._transport = transport
        self._api_key = api_key
        self._given = headers
        self._model = model
        self._images = images
        self._owns_transport = owns_transport
        self._headers: dict[str, str] | None = None
        self._secrets: tuple[str, ...] = ()

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta, None]:
        """The answer, piece by piece."""
        headers = self._headers or self._authorised()
        refs = self._unseen(request)
        if refs:
            request = msgspec.structs.replace(request, load=await asyncio.to_thread(_loaded, request, refs))
        body = self._encode(request)
        decoder = self._decoder()
        exchange: Exchange | None = None
        try:
            exchange = await self._transport.post(self.url, headers, body, request.timeout_ms / 1000)
            while not decoder.done:
                try:
                    chunk = await exchange.read()
                except LlmError:
                    if decoder.complete:
                        break  # the answer is whole; what is missing is at most its usage
                    raise
                if not chunk:
                    break
                for start in range(0, len(chunk), SLICE_BYTES):
                    deltas = decoder.feed(chunk[start : start + SLICE_BYTES])
                    for delta in deltas:
                        yield delta
                    if decoder.complete and deltas and not decoder.done:
                        exchange.expire_in(AFTER_FINISH_S)
            for delta in decoder.finish():
                yield delta
            if decoder.done and not exchange.ended:
                await _drain(exchange)
        except LlmError as error:
            raise failures.scrubbed(error, self._secrets) from None
        finally:
            if exchange is not None:
                exchange.close()

    async def aclose(self) -> None:
        if self._owns_transport:
            await self._transport.aclose()

    def _authorised(self) -> dict[str, str]:
        key = (self._api_key() or "").strip()
        headers = _BASE_HEADERS | (self._credentials(key) if key else {}) | self._fixed_headers()
        headers |= {name.lower(): value for name, value in self._given.items()}
        for name, value in headers.items():
            if not value.isprintable() or not re.fullmatch(r"[!-9;-~]+", name):
                raise LlmError(f"the header {name!r} (or the key in it) holds a character that can't be sent")
        secrets = {key, *self._given.values(), *(value.split()[-1] for value in self._given.values() if value.strip())}
        # Longest first, so that no secret is left in pieces; a very short value is no secret but a word.
        self._secrets = tuple(sorted((secret for secret in secrets if len(secret) > 3), key=len, reverse=True))
        self._headers = headers
        return headers

    def _credentials(self, key: str) -> dict[str, str]:
        raise NotImplementedError

    def _fixed_headers(self) -> dict[str, str]:
        return {}

    def _unseen(self, request: ModelRequest) -> list[AttachmentRef]:
        """Attachments that encoding will load."""
        raise NotImplementedError

    def _encode(self, request: ModelRequest) -> bytes:
        raise NotImplementedError

    def _decoder(self) -> AnswerDecoder:
        raise NotImplementedError


def join_url(base_url: str, path: str) -> str:
    """``base_url`` with ``path`` (``chat/completions``) under exactly one version segment, ``/v1`` unless given."""
    parts = _ADDRESS.fullmatch(base_url.strip())
    _, at, host = parts[2].rpartition("@") if parts is not None else ("", "", "")
    if parts is None or not host.partition(":")[0]:
        raise ConfigError("the base URL is no http(s) URL with a host")
    if at:
        raise ConfigError(f"the base URL of {host} holds a user name: put credentials in apiKey or headers")
    base = parts[3].rstrip("/")
    if base.endswith("/" + path):
        base = base[: -len(path) - 1]
    elif not any(_VERSION.fullmatch(segment) for segment in base.split("/")):
        base += "/v1"
    return f"{parts[1].lower()}://{host}{base}/{path}{parts[4] or ''}"


def host_of(url: str) -> str:
    """The host, without its port, of what ``join_url`` gave."""
    return url.split("/", 3)[2].partition(":")[0].lower()


async def _drain(exchange: Exchange) -> None:
    """Reads the end of the body, so that the connection can be used again."""
    exchange.expire_in(AFTER_DONE_S)
    try:
        for _ in range(8):
            if not await exchange.read():
                return
    except LlmError:
        return  # the answer is whole; only the connection is lost


def _loaded(request: ModelRequest, refs: list[AttachmentRef]) -> Callable[[AttachmentRef], bytes]:
    """Reads attachments in a worker thread, so that encoding doesn't block the loop with files."""
    found: dict[str, bytes] = {}
    for ref in refs:
        try:
            if request.load is not None:
                found[ref.sha256] = request.load(ref)
        except OSError:
            continue  # the encoder says that it is not available

    def load(ref: AttachmentRef) -> bytes:
        if ref.sha256 not in found and request.load is not None:
            found[ref.sha256] = request.load(ref)
        return found[ref.sha256]

    return load
