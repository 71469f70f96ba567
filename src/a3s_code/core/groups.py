"""Which calls of a turn may run together. In: the calls of a turn. Out: groups, in call order.

One rule: neighbours that are allowed and parallel-safe form one group; every other call is a group of its own.
Known weakness: a read behind a write waits for it, even of another file.
"""

from __future__ import annotations

from a3s_code.core.state import CallState


def together(state: CallState) -> bool:
    """Whether a call may run beside its neighbours."""
    return state.call.parallel and state.call.verdict.decision == "allow" and state.call.fault is None


def counts_as_step(turn: tuple[CallState, ...], state: CallState) -> bool:
    """Whether starting this call is a step of its own, and not one with a neighbour that is at work."""
    if state.attempts or not together(state):
        return True
    return not any(other.attempts and other.open for other in _neighbours(turn, turn.index(state)))


def _neighbours(turn: tuple[CallState, ...], at: int) -> tuple[CallState, ...]:
    """The group that call number ``at`` belongs to."""
    first, last = at, at
    while first > 0 and together(turn[first - 1]):
        first -= 1
    while last + 1 < len(turn) and together(turn[last + 1]):
        last += 1
    return turn[first : last + 1]
