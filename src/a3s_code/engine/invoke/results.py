"""What becomes of a result (tools.md §2.1, steps 14 and 15). In: a tool's output. Out: the output that callers, facts
and the model see, and the whole text.

One rule: first sanitised, then shortened; what is kept whole is the sanitised text. The metadata are as a fact keeps
them: with the evidence of an output that was shortened.
Known weakness: none known.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from a3s_code.core.content import JsonObject
from a3s_code.core.evidence import EVIDENCE
from a3s_code.core.projection import projected
from a3s_code.engine.artifacts import Artifacts
from a3s_code.engine.invoke.invocation import failed
from a3s_code.engine.parts import Parts
from a3s_code.engine.sanitizer import SanitizeFailed
from a3s_code.ports.tool import ToolOutput

WITHHELD: Final = "The output was withheld: the security provider failed"
_LARGE: Final = 256 * 1024
"""Characters from which sanitising and hashing is done in a worker thread; below, the loop stands for under 1 ms."""


class Results:
    """One a session. ``artifacts`` are the outputs of which only a part is shown."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self.artifacts = Artifacts(parts.governance.artifacts)

    async def settle(self, tool: str, output: ToolOutput) -> tuple[ToolOutput, str]:
        """The output as it is seen, and its whole text."""
        if len(output.output) < _LARGE:
            return self._settled(tool, output)
        settled: tuple[ToolOutput, str] = await self._parts.callbacks.in_thread(self._settled, tool, output)
        return settled

    def _settled(self, tool: str, output: ToolOutput) -> tuple[ToolOutput, str]:
        governance = self._parts.governance
        if governance.as_recorded and EVIDENCE in output.metadata:
            return output, output.output
        if governance.sanitizer is not None:
            try:
                text = governance.sanitizer.text(output.output)
                metadata: JsonObject = governance.sanitizer.metadata(output.metadata)
                artifacts = {name: governance.sanitizer.text(whole) for name, whole in output.artifacts.items()}
                output = replace(output, output=text, metadata=metadata, artifacts=artifacts)
            except SanitizeFailed:
                output = failed("internal", WITHHELD)
        result = projected(tool, output.output, governance.transform, self.artifacts.keep_bytes)
        if result.uri is not None and result.whole is not None:
            self.artifacts.put(result.uri, tool, result.whole)
        metadata = {**output.metadata, **self._kept(tool, output)}
        metadata.pop(EVIDENCE, None)  # what a tool says of it counts for nothing
        if result.evidence is not None:
            metadata[EVIDENCE] = result.evidence
        whole = result.text if result.whole is None else result.whole
        return replace(output, output=result.text, metadata=metadata), whole

    def _kept(self, tool: str, output: ToolOutput) -> JsonObject:
        """``file_change`` with the URIs of what it has only the beginning of; nothing without such texts."""
        change = output.metadata.get("file_change")
        if not output.artifacts or not isinstance(change, dict):
            return {}
        uris: JsonObject = {name: self.artifacts.keep(tool, text) for name, text in output.artifacts.items()}
        return {"file_change": {**change, "artifacts": {name: uri for name, uri in uris.items() if uri is not None}}}
