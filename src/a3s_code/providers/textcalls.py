"""A client of a model that writes its calls as text. In: another client. Out: the same answers, with calls.

One rule: one delta in is at least one delta out, so that whoever watches for silence sees that the model is at work.
Known weakness: none known beyond those of ``core.textcalls``.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Final

from a3s_code.core.delta import ModelDelta
from a3s_code.core.textcalls import TextCalls
from a3s_code.ports.model import Model, ModelRequest

_AT_WORK: Final = (ModelDelta(),)


class TextCallsModel:
    """``model``, whose text may hold calls (``text_tool_calls`` in a ``models`` block)."""

    def __init__(self, model: Model) -> None:
        self._model = model

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta, None]:
        found = TextCalls({tool.name: tool.parameters for tool in request.tools})
        stream = self._model.stream(request)
        try:
            async for delta in stream:
                for each in found.feed(delta) or _AT_WORK:
                    yield each
            for each in found.end():
                yield each
        finally:
            close = getattr(stream, "aclose", None)
            if close is not None:
                await close()
