"""A model provider. In: a ModelRequest. Out: an asynchronous stream of ModelDelta.

One rule: one call of ``stream`` is one attempt; retries belong to the engine. It raises ``LlmError`` (with
``retryable`` set) and never returns normally from a stream that was cut before its end.
Known weakness: the memo is shared state; only the encoder that put something there may read it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, Protocol

import msgspec

from a3s_code.core.content import AttachmentRef, Json, JsonObject, Message
from a3s_code.core.delta import CallDelta, ModelDelta

__all__ = ["CallDelta", "Model", "ModelDelta", "ModelRequest", "ToolSpec"]


class ToolSpec(msgspec.Struct, frozen=True):
    """A tool as a model sees it; ``parameters`` is a JSON Schema with an object root."""

    name: str
    description: str
    parameters: JsonObject


class ModelRequest(msgspec.Struct, frozen=True):
    """What a model is asked.

    ``messages`` is well formed: each call is followed by its one result. It only grows between requests of one
    ``conversation`` with the same ``generation``, so an encoder may keep what it encoded in ``memo`` (one dict a
    session) and encode only what is new. ``load`` gives an attachment's bytes. ``timeout_ms`` bounds the wait for
    the first byte and each silence after it.
    """

    model: str
    messages: Sequence[Message]
    system: str = ""
    tools: tuple[ToolSpec, ...] = ()
    temperature: float | None = None
    max_output_tokens: int | None = None
    timeout_ms: int = 120_000
    session_id: str = ""
    run_id: str = ""
    turn: int = 0
    generation: int = 0
    memo: dict[str, Any] = msgspec.field(default_factory=dict)
    load: Callable[[AttachmentRef], bytes] | None = None
    extra: dict[str, Json] = msgspec.field(default_factory=dict)


class Model(Protocol):
    """What ``opts.llm_client`` must be; every provider client is one."""

    def stream(self, request: ModelRequest) -> AsyncIterator[ModelDelta]: ...
