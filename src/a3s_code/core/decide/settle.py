"""How a run is closed. In: a view and why it ends. Out: a Settle with a result for every call still open.

One rule: after a run is closed no call of it is without a result.
Known weakness: none known.
"""

from __future__ import annotations

from a3s_code.core.facts.runs import Closing, Failure
from a3s_code.core.state import CallState, View
from a3s_code.core.steps import Recorded, Settle

UNKNOWN_OUTCOME = (
    "This call had begun when the run was interrupted; whether it took effect is not known. "
    "Look at the present state before doing it again."
)


def settle(
    view: View, status: Closing, *, stop_reason: str | None = None, error: Failure | None = None, why: str = ""
) -> Settle:
    """Closes the run of ``view``. ``why`` is told to the model for calls that never ran."""
    reason = stop_reason or ("cancelled" if status == "cancelled" else "done")
    text = why or (error.message if error else "The run ended before this call ran.")
    return Settle(status, reason, error, tuple(_closing(state, text) for state in view.open_calls))


def _closing(state: CallState, why: str) -> Recorded:
    if state.attempts:
        return unknown(state)
    return Recorded(state.call, "cancelled", f"Cancelled: {why}", "cancelled")


def unknown(state: CallState) -> Recorded:
    return Recorded(state.call, "unknown", UNKNOWN_OUTCOME, "unknown_outcome")
