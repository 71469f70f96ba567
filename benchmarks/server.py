"""A scripted, OpenAI-compatible model server on loopback. In: requests. Out: answers that cost next to nothing.

The model's name is the script, so the server keeps no state of a conversation:

    bench-r<ROUNDS>-d<DELAY_MS>-c<DELTAS>-p<GAP_MS>

ROUNDS tool calls come before the final text, each DELAY_MS after its request; the final text comes in DELTAS pieces,
GAP_MS apart (0: in one write; 1: one after the other, as fast as one write a piece allows). The first piece is the time
it was sent at (``time.monotonic_ns``, one clock for all processes), so that a client can tell how long it took.

``GET /record`` keeps the bodies from then on, ``GET /bodies`` gives them (a JSON list of texts) and stops.
``POST /discard`` is answered with DELTAS 1 whatever it holds: the floor sends recorded bodies there.

One rule: nothing is parsed that needn't be, so that what is measured is the client.
Known weakness: HTTP/1.1 with a content length only, which is what the clients send.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import sys
import time
from functools import lru_cache

ASKED = "#go"
SCRIPT = re.compile(rb'bench-r(\d+)-d(\d+)-c(\d+)-p(\d+)"')
HEAD = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-cache\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n"
)
LAST = b"0\r\n\r\n"
_BIG = 50_000


def script(rounds: int = 0, *, delay_ms: int = 0, deltas: int = 1, gap_ms: int = 0) -> str:
    """The model name that makes the server behave so."""
    return f"bench-r{rounds}-d{delay_ms}-c{deltas}-p{gap_ms}"


def frame(delta: object, finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return _sse({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "bench", "choices": [choice]})


def _sse(event: object) -> bytes:
    return b"data: " + json.dumps(event, separators=(",", ":")).encode() + b"\n\n"


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


@lru_cache
def _pieces(deltas: int) -> tuple[bytes, ...]:
    """Everything after the first piece of text."""
    words = [frame({"content": f"w{i % 1000:03d} "}) for i in range(1, deltas)]
    used = {"prompt_tokens": 50, "completion_tokens": deltas, "total_tokens": 50 + deltas}
    usage = _sse({"id": "c", "object": "chat.completion.chunk", "created": 1, "choices": [], "usage": used})
    return (*words, frame({}, "stop"), usage, b"data: [DONE]\n\n")


@lru_cache
def _whole(deltas: int) -> bytes:
    return b"".join(_pieces(deltas))


def _first() -> bytes:
    return frame({"role": "assistant", "content": f"{time.monotonic_ns()} "})


def _call(number: int) -> bytes:
    function = {"name": "look", "arguments": f'{{"file_path":"f{number % 32:02d}.txt"}}'}
    call = {"index": 0, "id": f"call_{number:06d}", "type": "function", "function": function}
    used = {"prompt_tokens": 50, "completion_tokens": 8, "total_tokens": 58}
    usage = _sse({"id": "c", "object": "chat.completion.chunk", "created": 1, "choices": [], "usage": used})
    said = frame({"role": "assistant", "content": None, "tool_calls": [call]}) + frame({}, "tool_calls")
    return HEAD + _chunk(said + usage + b"data: [DONE]\n\n") + LAST


def _rounds_done(body: bytes) -> int:
    """Assistant messages since the last prompt that asks for a run."""
    done = 0
    for message in reversed(json.loads(body)["messages"]):
        if message["role"] == "assistant":
            done += 1
        elif message["role"] == "user" and ASKED in message["content"]:
            break
    return done


class Connection(asyncio.Protocol):
    numbers = iter(range(1 << 60))
    recorded: list[bytes] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.held = bytearray()

    def data_received(self, data: bytes) -> None:
        self.held += data
        end = self.held.find(b"\r\n\r\n")
        if end < 0:
            return
        head = bytes(self.held[:end]).lower()
        at = head.find(b"content-length:")
        size = int(head[at + 15 :].split(b"\r\n", 1)[0]) if at >= 0 else 0
        if len(self.held) < end + 4 + size:
            return
        body = bytes(self.held[end + 4 : end + 4 + size])
        del self.held[: end + 4 + size]
        self.answer(head, body)

    def answer(self, head: bytes, body: bytes) -> None:
        if head.startswith(b"get /record"):
            Connection.recorded = []
            self.json([])
        elif head.startswith(b"get /bodies"):
            kept, Connection.recorded = Connection.recorded or [], None
            self.json([kept_body.decode() for kept_body in kept])
        elif head.startswith(b"post /discard"):
            self.send(HEAD + _chunk(_first() + _whole(1)) + LAST)
        else:
            self.model(body)

    def json(self, value: object) -> None:
        data = json.dumps(value).encode()
        self.transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(data), data))

    def model(self, body: bytes) -> None:
        if Connection.recorded is not None:
            Connection.recorded.append(body)
        ends = body if len(body) < _BIG else body[:2_000] + body[-_BIG // 2 :]  # the name is at one end of a big body
        found = SCRIPT.search(ends)
        rounds, delay_ms, deltas, gap_ms = (int(group) for group in found.groups()) if found else (0, 0, 1, 0)
        if rounds and _rounds_done(body) < rounds:
            self.later(delay_ms, _call(next(self.numbers)))
        elif gap_ms:
            self.task = asyncio.get_running_loop().create_task(self.pace(delay_ms, deltas, gap_ms))
        elif delay_ms:
            self.later(delay_ms, HEAD + _chunk(_first() + _whole(deltas)) + LAST)
        else:
            self.send(HEAD + _chunk(_first() + _whole(deltas)) + LAST)

    def later(self, delay_ms: int, data: bytes) -> None:
        if delay_ms:
            asyncio.get_running_loop().call_later(delay_ms / 1000, self.send, data)
        else:
            self.send(data)

    async def pace(self, delay_ms: int, deltas: int, gap_ms: int) -> None:
        await asyncio.sleep(delay_ms / 1000)
        self.send(HEAD + _chunk(_first()))
        for piece in _pieces(deltas):
            await asyncio.sleep(gap_ms / 1000 if gap_ms > 1 else 0)
            self.send(_chunk(piece))
        self.send(LAST)

    def send(self, data: bytes) -> None:
        if not self.transport.is_closing():
            self.transport.write(data)


async def serve() -> None:
    """Says its port on standard output and serves until standard input ends."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Connection, "127.0.0.1", 0, backlog=2048)
    print(server.sockets[0].getsockname()[1], flush=True)
    await loop.run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(serve())
