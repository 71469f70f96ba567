"""OpenAI-compatible Chat Completions, GLM included. In: a ModelRequest. Out: ModelDeltas.

One rule: everything but the address, the key's header and the limit's name is in ``encode`` and ``decode``.
Known weakness: only OpenAI's own host is asked for ``max_completion_tokens``; every other one for ``max_tokens``.
"""

from __future__ import annotations

from a3s_code.core.content import AttachmentRef
from a3s_code.ports.model import ModelRequest
from a3s_code.providers.client import HttpModel, host_of
from a3s_code.providers.openai.decode import OpenAiDecoder
from a3s_code.providers.openai.encode import encode, transcript


class OpenAiModel(HttpModel):
    path = "chat/completions"

    def _credentials(self, key: str) -> dict[str, str]:
        return {"authorization": f"Bearer {key}"}

    def _unseen(self, request: ModelRequest) -> list[AttachmentRef]:
        return transcript(request, images=self._images).unseen(request.messages)

    def _encode(self, request: ModelRequest) -> bytes:
        own_host = host_of(self.url) == "api.openai.com"
        member = "max_completion_tokens" if own_host else "max_tokens"
        return encode(request, model=self._model or request.model, images=self._images, limit_member=member)

    def _decoder(self) -> OpenAiDecoder:
        return OpenAiDecoder()
