"""What the tests of the command share. In: arguments. Out: real child processes, and a server that speaks as OpenAI.

One rule: no key and no state of the machine reaches a command. Known weakness: none known.
"""

from __future__ import annotations

import http.server
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

HOLD: Final = None
COMMAND: Final = [sys.executable, "-m", "a3s_code.cli.main"]


def environment(home: Path, **more: str) -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "PYTHONPATH") if name in os.environ}
    return {**kept, "HOME": str(home), "TERM": "xterm-256color", "PYTHONWARNINGS": "error", **more}


def start(args: Sequence[str], home: Path, **env: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*COMMAND, *args],
        env=environment(home, **env),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    )


def run(args: Sequence[str], home: Path, typed: str = "", **env: str) -> tuple[int, str, str]:
    """Exit code, standard output and standard error output."""
    process = start(args, home, **env)
    out, err = process.communicate(typed, timeout=30)
    return process.returncode, out, err


def said(text: str) -> list[bytes]:
    return [_chunk({"content": text}, None), _chunk({}, "stop"), b"data: [DONE]\n\n"]


def called(*calls: tuple[str, dict[str, Any]]) -> list[bytes]:
    pieces = [
        {"index": i, "id": f"c-{os.urandom(4).hex()}", "function": {"name": name, "arguments": json.dumps(args)}}
        for i, (name, args) in enumerate(calls)
    ]
    return [_chunk({"tool_calls": pieces}, None), _chunk({}, "tool_calls"), b"data: [DONE]\n\n"]


def _chunk(delta: dict[str, Any], finish: str | None) -> bytes:
    value = {"id": "x", "model": "m-1", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}
    return b"data: " + json.dumps(value).encode() + b"\n\n"


class Provider:
    """Answers by its script; ``HOLD`` in an answer keeps the connection silent. ``asked`` is what came."""

    def __init__(self, answers: Sequence[Sequence[bytes | None] | int], url: str) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[dict[str, str], dict[str, Any]]] = []
        self.url = url
        self.holding = threading.Event()
        self.over = threading.Event()

    @property
    def env(self) -> dict[str, str]:
        return {"OPENAI_API_KEY": "sk-test-1234567890", "OPENAI_BASE_URL": self.url}


class _Handler(http.server.BaseHTTPRequestHandler):
    server: _Server

    def do_POST(self) -> None:
        provider = self.server.provider
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        provider.asked.append(({name.lower(): value for name, value in self.headers.items()}, body))
        answer = provider.answers.pop(0)
        if isinstance(answer, int):
            self.send_error(answer, explain="no")
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        for piece in answer:
            if piece is HOLD:
                self.wfile.flush()
                provider.holding.set()
                provider.over.wait(30)
                return
            self.wfile.write(piece)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  the standard library's name
        """Nothing is printed."""


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    provider: Provider


@contextmanager
def provider(*answers: Sequence[bytes | None] | int) -> Iterator[Provider]:
    server = _Server(("127.0.0.1", 0), _Handler)
    server.provider = Provider(answers, f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield server.provider
    finally:
        server.provider.over.set()
        server.shutdown()
        server.server_close()
        thread.join()
