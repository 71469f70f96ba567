"""Which calls of a turn may run together. In: the calls of a turn. Out: yes or no.

One rule: neighbours among the open calls that are allowed and parallel-safe run together; every other call runs alone.
Known weakness: a read behind a write waits for it, even of another file.
"""

from __future__ import annotations

from a3s_code.core.state import CallState


def together(state: CallState) -> bool:
    """Whether a call may run beside its neighbours."""
    return state.call.parallel and state.call.verdict.decision == "allow" and state.call.fault is None


def counts_as_step(turn: tuple[CallState, ...], state: CallState) -> bool:
    """Whether starting this call is a step of its own: it begins anew, or nothing that it may run beside is at work."""
    if state.attempts or not together(state):
        return True
    return not any(other.attempts and other.open and together(other) for other in turn)
