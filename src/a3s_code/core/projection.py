"""What of a long output is shown (tools.md §6.2). In: a tool's name, its output and a policy. Out: the projected text,
its evidence, and the whole text when something was taken from it.

One rule: the same output and policy give the same projection; a cut never falls inside a UTF-8 sequence.
Known weakness: a sampled array that is no longer too long keeps its shape but not its length; a consumer has to look at
``a3s_sampled``.
"""

from __future__ import annotations

from itertools import groupby
from typing import Annotated, Final

import msgspec

from a3s_code.core.content import JsonObject
from a3s_code.core.evidence import LossMode, artifact_uri, lossy, utf8
from a3s_code.core.text.clip import join_head_tail

SCHEMA: Final = "a3s.code.tool-result-transform-policy.v1"
MARKER_ROOM: Final = 512
_NOT_KEPT: Final = "the full output was too large to keep"
_Bytes = Annotated[int, msgspec.Meta(ge=0, le=102_400)]
_Natural = Annotated[int, msgspec.Meta(ge=0)]


class ToolResultTransformPolicy(msgspec.Struct, frozen=True):
    """How long outputs are shown. ``max_output_bytes`` is the bound, ``head_bytes`` and ``tail_bytes`` what is kept of
    an output over it. ``fold_repeated_lines`` writes ``repeated_line_threshold`` or more equal lines in a row once;
    ``structured_sample_items`` is how many members of a JSON array over the bound are kept at most (0: it is cut as
    text). Any policy but the default keeps ``head_bytes + tail_bytes <= max_output_bytes - 512``, as the mark of the
    cut counts too. Raises ``ValueError`` for others.
    """

    max_output_bytes: Annotated[int, msgspec.Meta(ge=1024, le=102_400)] = 102_400
    head_bytes: _Bytes = 102_400
    tail_bytes: _Bytes = 0
    fold_repeated_lines: bool = False
    repeated_line_threshold: Annotated[int, msgspec.Meta(ge=2)] = 3
    structured_sample_items: _Natural = 0

    def __post_init__(self) -> None:
        default = (self.max_output_bytes, self.head_bytes, self.tail_bytes) == (102_400, 102_400, 0)
        if default and not self.fold_repeated_lines and not self.structured_sample_items:
            return
        if self.head_bytes + self.tail_bytes > self.max_output_bytes - MARKER_ROOM:
            raise ValueError(
                f"head_bytes + tail_bytes must be at most max_output_bytes - {MARKER_ROOM} "
                f"({self.max_output_bytes - MARKER_ROOM})"
            )

    @classmethod
    def conservative(cls) -> ToolResultTransformPolicy:
        """The default: the first 100 KiB, and a mark."""
        return cls()

    @classmethod
    def context_efficient(cls) -> ToolResultTransformPolicy:
        """64 KiB from the beginning and 32 KiB from the end, repeated lines folded, long arrays sampled."""
        return cls(102_400, 65_536, 32_768, True, 3, 32)


class Projected(msgspec.Struct, frozen=True):
    """``evidence`` is that of a lossy projection, ``whole`` its original, to be kept under ``uri`` if there is one."""

    text: str
    evidence: JsonObject | None = None
    whole: str | None = None
    uri: str | None = None


def projected(tool: str, output: str, policy: ToolResultTransformPolicy, keep_bytes: int) -> Projected:
    """The projection of ``output``. An original over ``keep_bytes`` can't be kept, and the text says so."""
    output, data = utf8(output)
    if len(data) <= policy.max_output_bytes and not policy.fold_repeated_lines:
        return Projected(output)
    text, changed = _transformed(output, data, policy)
    short = text.encode() if changed else data
    bounded = len(short) > policy.max_output_bytes
    if not bounded and not changed:
        return Projected(output)
    uri = artifact_uri(tool, data) if len(data) <= keep_bytes else None
    if bounded:
        note = f"full output: {uri}" if uri is not None else _NOT_KEPT
        tail = short[len(short) - policy.tail_bytes :]
        text = join_head_tail(short[: policy.head_bytes], tail, len(short), note).text
        short = text.encode()
    return Projected(text, lossy(tool, data, short, _mode(changed, bounded, policy), uri), output, uri)


def _mode(changed: bool, bounded: bool, policy: ToolResultTransformPolicy) -> LossMode:
    if changed:
        return "composite" if bounded else "deterministic_transform"
    return "head_tail" if policy.tail_bytes else "bounded_preview"


def _transformed(output: str, data: bytes, policy: ToolResultTransformPolicy) -> tuple[str, bool]:
    """The text sampled or folded, and whether it was."""
    if policy.structured_sample_items and len(data) > policy.max_output_bytes:
        sampled = _sampled(data, policy.structured_sample_items, policy.max_output_bytes)
        if sampled is not None:
            return sampled, True
    if policy.fold_repeated_lines:
        folded = _folded(output, policy.repeated_line_threshold)
        return folded, folded is not output
    return output, False


def _sampled(data: bytes, items: int, limit: int) -> str | None:
    """Evenly spaced members of a top-level array, as many as fit; ``None`` when there is nothing to sample."""
    if not data[:1].isspace() and data[:1] != b"[":
        return None
    try:
        members = msgspec.json.decode(data, type=list[msgspec.Raw])
    except msgspec.DecodeError:
        return None
    count = min(items, len(members) - 1)
    while count > 0:
        at = [i * (len(members) - 1) // (count - 1) for i in range(count)] if count > 1 else [0]
        shown = {"a3s_sampled": True, "total_items": len(members), "items": [members[i] for i in at]}
        sampled = msgspec.json.encode(shown)
        if len(sampled) <= limit:
            return sampled.decode()
        count //= 2
    return None


def _folded(text: str, threshold: int) -> str:
    """Runs of equal lines once, with their number; the same object when there are none."""
    lines: list[str] = []
    folded = False
    for line, run in groupby(text.split("\n")):
        times = sum(1 for _ in run)
        if times < threshold:
            lines += [line] * times
        else:
            folded = True
            lines += [line, f"[previous line repeated {times - 1} more times]"]
    return "\n".join(lines) if folded else text
