"""Events as a session sends them, for the renderers' tests."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

START_MS = 1_700_000_000_000


class Recorded(msgspec.Struct, frozen=True):
    """What a renderer reads of an ``AgentEvent``."""

    type: str
    payload: dict[str, Any]
    metadata: dict[str, Any]
    version: int = 1


def record(*events: tuple[int, str, dict[str, Any]]) -> list[Recorded]:
    """Events from (milliseconds since the start, type, payload)."""
    return [
        Recorded(kind, payload, {"run_id": "r-1", "session_id": "s-1", "sequence": i, "timestamp_ms": START_MS + at})
        for i, (at, kind, payload) in enumerate(events, 1)
    ]


def deltas(at: int, pieces: Iterable[str]) -> list[tuple[int, str, dict[str, Any]]]:
    return [(at, "text_delta", {"text": piece}) for piece in pieces]


def call(
    at: int, took_ms: int, name: str, args: dict[str, Any], output: str, exit_code: int = 0, **metadata: Any
) -> list[tuple[int, str, dict[str, Any]]]:
    """One call from its start to its end."""
    whole = {"id": f"c-{at}", "name": name}
    end = {**whole, "output": output, "exit_code": exit_code, "metadata": metadata, "took_ms": took_ms}
    return [
        (at, "tool_start", whole),
        (at, "tool_input_delta", {**whole, "delta": "{"}),
        (at, "tool_execution_start", {**whole, "args": args}),
        (at + took_ms, "tool_end", end),
    ]


def usage(total: int) -> dict[str, int]:
    return {"prompt_tokens": total - 1, "completion_tokens": 1, "total_tokens": total}


def end(
    at: int, text: str = "", *, calls: int = 0, total: int = 0, reason: str = "done"
) -> tuple[int, str, dict[str, Any]]:
    payload = {"text": text, "usage": usage(total), "tool_calls_count": calls, "stop_reason": reason}
    return at, "agent_end", {**payload, "verification_summary": None, "completion": None}


TYPICAL = record(
    (0, "agent_start", {"prompt": "What is this?"}),
    (1, "turn_start", {"turn": 1}),
    *deltas(400, ["I'll ", "look ", "around.\n"]),
    (420, "reasoning_delta", {"text": "hm"}),
    (500, "turn_end", {"turn": 1, "usage": usage(900)}),
    *call(510, 12, "read", {"file_path": "README.md"}, "     1\t# Title\n     2\ttext"),
    *call(530, 1700, "bash", {"command": "make test\nmake lint"}, "boom\nmake: *** [test] Error 1\n[exit code: 2]", 2),
    (2240, "turn_start", {"turn": 2}),
    *deltas(2900, ["It is ", "**a library**", ".\n\nThat's all."]),
    (3000, "turn_end", {"turn": 2, "usage": usage(1334)}),
    end(3210, "It is **a library**.\n\nThat's all.", calls=2, total=2234),
)

RETRIED = record(
    (0, "agent_start", {"prompt": "x"}),
    (0, "turn_start", {"turn": 1}),
    *deltas(10, ["The answer ", "is fou"]),
    (50, "turn_start", {"turn": 1}),
    *deltas(60, ["The answer ", "is 42."]),
    (70, "turn_end", {"turn": 1, "usage": usage(50)}),
    end(80, "The answer is 42.", total=50),
)
