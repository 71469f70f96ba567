"""Going on after a death. In: the view of a log whose last run may be open. Out: facts that close or resume it.

One rule: what the log says decides; nothing is run again that has a result, and no stored turn is asked for anew.
Known weakness: runs of the same session that were resumed stay recorded as parked, as they were.
"""

from __future__ import annotations

from msgspec.structs import replace

from a3s_code.core.decide import next_step
from a3s_code.core.decide.settle import settle
from a3s_code.core.facts import FactData, RunClosed
from a3s_code.core.rules import Rules
from a3s_code.core.state import RunState, View
from a3s_code.core.steps import Settle
from a3s_code.engine.tool_calls import result_of
from a3s_code.errors import CodeError

LEFT_OPEN = "the process that worked on it ended, and a new prompt arrived"


def settle_open(view: View) -> tuple[str, list[FactData]] | None:
    """The closing facts of a run that was left open (facts.md, *Parking and answering*), with its id."""
    if view.run is None:
        return None
    step = settle(view, "cancelled", why=LEFT_OPEN)
    closed = RunClosed("cancelled", view.run.steps, None, "cancelled")
    return view.run.id, [*(result_of(item) for item in step.results), closed]


def last_run(view: View) -> RunState | None:
    """The run that a resume goes on from."""
    return view.run or (view.closed.run if view.closed else None)


def is_quiescent(view: View, rules: Rules) -> bool:
    """Whether there is nothing to go on with: the last run ended well or was cancelled, or failed at its very end."""
    if view.run is not None:
        return False
    if view.closed is None or view.closed.status != "failed":
        return True
    reopened = replace(view, run=RunState("probe", "resume", text=view.closed.run.text))
    return isinstance(next_step(reopened, rules), Settle)


def check_context(earlier: dict[str, str], now: dict[str, str]) -> None:
    """``CONTEXT_ERROR`` naming what changed behind the run (facts.md, *Standing context*)."""
    changed = sorted(name for name in earlier.keys() | now.keys() if earlier.get(name) != now.get(name))
    if changed:
        raise CodeError(
            f"The run was opened with another {', '.join(changed)}; restore it, or pass accept_changes=True to go on "
            "with what stands now",
            "CONTEXT_ERROR",
        )
