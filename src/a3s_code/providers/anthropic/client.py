"""Anthropic Messages. In: a ModelRequest. Out: ModelDeltas.

One rule: everything but the address and the headers is in ``encode`` and ``decode``.
Known weakness: none known.
"""

from __future__ import annotations

from a3s_code.core.content import AttachmentRef
from a3s_code.ports.model import ModelRequest
from a3s_code.providers.anthropic.decode import AnthropicDecoder
from a3s_code.providers.anthropic.encode import encode, transcript
from a3s_code.providers.client import HttpModel


class AnthropicModel(HttpModel):
    path = "messages"

    def _credentials(self, key: str) -> dict[str, str]:
        return {"x-api-key": key}

    def _fixed_headers(self) -> dict[str, str]:
        return {"anthropic-version": "2023-06-01"}

    def _unseen(self, request: ModelRequest) -> list[AttachmentRef]:
        return transcript(request, images=self._images).unseen(request.messages)

    def _encode(self, request: ModelRequest) -> bytes:
        return encode(request, model=self._model or request.model, images=self._images)

    def _decoder(self) -> AnthropicDecoder:
        return AnthropicDecoder()
