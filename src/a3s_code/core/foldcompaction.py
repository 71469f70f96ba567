"""What a compaction does to the view. In: a view and a CompactionDone. Out: the changed members of the view.

One rule: a compaction never parts a call from its result; a mark inside a turn moves back to before the turn.
Known weakness: pruned outputs are cut at fixed sizes, whatever they hold.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from a3s_code.core.chain import Chain
from a3s_code.core.content import AssistantMessage, Message, ToolMessage, UserMessage
from a3s_code.core.digest import encoded_size
from a3s_code.core.facts import CompactionDone
from a3s_code.core.state import View

PRUNED_ABOVE, PRUNE_HEAD, PRUNE_TAIL = 2048, 1024, 512
SUMMARY_LABEL = "Summary of the earlier conversation:\n\n"


def compaction(view: View, done: CompactionDone) -> dict[str, Any]:
    """Everything up to fact ``done.upto`` becomes one summary message (none when the summary is empty); the outputs of
    ``done.pruned`` are cut."""
    cut = _cut(view, done.upto)
    pruned = frozenset(done.pruned)
    kept = [_pruned(message, pruned) for message in view.messages.tail(cut)]
    seqs = view.message_seqs.tail(cut)
    summaries = 1 if cut and done.summary else 0
    if summaries:
        kept.insert(0, UserMessage(SUMMARY_LABEL + done.summary))
        seqs.insert(0, view.message_seqs[cut - 1])
    if kept == view.messages.tail(0):
        return {}
    changes: dict[str, Any] = {
        "messages": Chain(kept),
        "message_seqs": Chain(seqs),
        "generation": view.generation + 1,
        "carried": sum(size_of(message) for message in kept),
        "reported_tokens": 0,
        "sides": _moved(view, cut, summaries),
    }
    if not kept:
        changes.update(ends_with="nothing", turn=())
    return changes


def size_of(message: Message) -> int:
    """Characters that a message takes in a request, roughly."""
    match message:
        case UserMessage():
            return len(message.text)
        case ToolMessage():
            return len(message.output)
        case AssistantMessage():
            size = len(message.text)
            for thought in message.reasoning:
                size += len(thought.text)
            for call in message.calls:
                size += len(call.name) + (encoded_size(call.args) if call.raw is None else len(call.raw))
            return size


def _cut(view: View, upto: int) -> int:
    """How many messages the summary replaces. Calls at work, and an answer that a run ends with, are kept."""
    cut = 0
    for seq in view.message_seqs:
        if seq > upto:
            break
        cut += 1
    while 0 < cut < len(view.messages) and isinstance(view.messages[cut], ToolMessage):
        cut -= 1
    at_work = view.run is not None or bool(view.open_calls)
    if cut and cut == len(view.messages) and view.ends_with == "assistant" and at_work:
        cut -= 1
    return cut


def _moved(view: View, cut: int, summaries: int) -> tuple[tuple[int, int], ...]:
    """The hidden ranges at their new places. A summary is hidden when all that it replaces is."""
    shown = any(not any(a <= at and (at < b or b < 0) for a, b in view.sides) for at in range(cut))
    first = summaries if shown else 0
    moved: list[tuple[int, int]] = []
    for a, b in view.sides:
        start = first if a < cut else a - cut + summaries
        end = b if b < 0 else max(0, b - cut) + summaries
        if (b < 0 or start < end) and (start, end) not in moved:
            moved.append((start, end))
    return tuple(moved)


def _pruned(message: Message, calls: frozenset[str]) -> Message:
    if not isinstance(message, ToolMessage) or message.call not in calls or len(message.output) <= PRUNED_ABOVE:
        return message
    left_out = len(message.output) - PRUNE_HEAD - PRUNE_TAIL
    mark = f"\n[… {left_out} characters left out; read or run it again to see them …]\n"
    return replace(message, output=message.output[:PRUNE_HEAD] + mark + message.output[-PRUNE_TAIL:])
