"""Which calls of a turn may run together. In: the calls of a turn. Out: groups, in call order.

One rule: neighbours that are allowed and parallel-safe form one group; every other call is a group of its own.
Known weakness: a read behind a write waits for it, even of another file.
"""

from __future__ import annotations

from a3s_code.core.state import CallState


def together(state: CallState) -> bool:
    """Whether a call may run beside its neighbours."""
    return state.call.parallel and state.call.verdict.decision == "allow" and state.call.fault is None


def counts_as_step(turn: tuple[CallState, ...], call_id: str) -> bool:
    """Whether starting this call begins a group that the step limit has not counted yet."""
    at = next(i for i, state in enumerate(turn) if state.call.id == call_id)
    if turn[at].counted or not together(turn[at]):
        return True
    return not any(state.counted for state in neighbours(turn, at))


def neighbours(turn: tuple[CallState, ...], at: int) -> tuple[CallState, ...]:
    """The group that call number ``at`` belongs to."""
    if not together(turn[at]):
        return (turn[at],)
    first, last = at, at
    while first > 0 and together(turn[first - 1]):
        first -= 1
    while last + 1 < len(turn) and together(turn[last + 1]):
        last += 1
    return turn[first : last + 1]
