"""What a compaction does to the view. In: a view and a CompactionDone. Out: the view with the shorter conversation.

One rule: a compaction never parts a call from its result; a mark inside a turn moves back to before the turn.
Known weakness: pruned outputs are cut at fixed sizes, whatever they hold.
"""

from __future__ import annotations

from msgspec.structs import replace

from a3s_code.core.chain import Chain
from a3s_code.core.content import AssistantMessage, Message, ToolMessage, UserMessage
from a3s_code.core.facts import CompactionDone
from a3s_code.core.state import View

PRUNE_HEAD, PRUNE_TAIL = 1024, 512
SUMMARY_LABEL = "Summary of the earlier conversation:\n\n"


def compacted(view: View, done: CompactionDone) -> View:
    """Everything up to fact ``done.upto`` becomes one summary message; the outputs of ``done.pruned`` are cut."""
    cut = _cut(view, done.upto)
    if cut == 0 and not done.pruned:
        return view
    pruned = frozenset(done.pruned)
    kept = [_pruned(message, pruned) for message in view.messages.tail(cut)]
    seqs = view.message_seqs.tail(cut)
    if cut:
        kept.insert(0, UserMessage(SUMMARY_LABEL + done.summary))
        seqs.insert(0, done.upto)
    moved = cut - 1 if cut else 0
    sides = tuple((max(0, a - moved), b if b < 0 else max(0, b - moved)) for a, b in view.sides)
    return replace(
        view,
        messages=Chain(kept),
        message_seqs=Chain(seqs),
        generation=view.generation + 1,
        carried=sum(size_of(message) for message in kept),
        reported_tokens=0,
        sides=sides,
    )


def size_of(message: Message) -> int:
    """Characters that a message takes in a request, roughly."""
    match message:
        case UserMessage():
            return len(message.text)
        case ToolMessage():
            return len(message.output)
        case AssistantMessage():
            calls = sum(len(call.name) + len(str(call.args)) for call in message.calls)
            return len(message.text) + sum(len(part.text) for part in message.reasoning) + calls


def _cut(view: View, upto: int) -> int:
    """How many messages the summary replaces. Results share the fact position of the last one, so that a mark
    inside a turn's results keeps the turn whole."""
    cut = 0
    for seq in view.message_seqs:
        if seq > upto:
            break
        cut += 1
    while cut and cut < len(view.messages) and isinstance(view.messages[cut], ToolMessage):
        cut -= 1
    if cut and cut == len(view.messages) and view.open_calls:
        cut -= 1
    return cut


def _pruned(message: Message, calls: frozenset[str]) -> Message:
    if not isinstance(message, ToolMessage) or message.call not in calls:
        return message
    left_out = len(message.output) - PRUNE_HEAD - PRUNE_TAIL
    if left_out <= 0:
        return message
    mark = f"\n[… {left_out} characters left out; read or run it again to see them …]\n"
    return replace(message, output=message.output[:PRUNE_HEAD] + mark + message.output[-PRUNE_TAIL:])
