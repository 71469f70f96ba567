"""The line that chooses the next step. In: a view and the rules. Out: one Step.

One rule: the first rule in ``ORDER`` that has an opinion wins; same view and rules, same step, everywhere.
Known weakness: none known.

``PHASES`` says in words when each phase is reached; `docs/how-a-run-advances.md` is drawn from it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from a3s_code.core.decide import approvals, context, limits, model, tools
from a3s_code.core.decide.settle import settle
from a3s_code.core.facts.runs import Failure
from a3s_code.core.rules import Rules
from a3s_code.core.state import View
from a3s_code.core.steps import LIMITED, Idle, Phase, Step

ORDER: Final[tuple[Callable[[View, Rules], Step | None], ...]] = (
    limits.rule,
    tools.refusals,
    approvals.rule,
    tools.rule,
    context.rule,
    model.rule,
)


def next_step(view: View, rules: Rules) -> Step:
    """What the shell has to do now. Pure; after ``Settle`` is performed the answer is ``Idle``."""
    if view.run is None:
        return Idle()
    for rule in ORDER:
        step = rule(view, rules)
        if step is not None:
            return _within_limit(step, view, rules)
    return settle(view, "completed")


def _within_limit(step: Step, view: View, rules: Rules) -> Step:
    if not isinstance(step, LIMITED) or view.run is None or view.run.steps < rules.step_limit:
        return step
    message = f"The run took {view.run.steps} steps, as many as step_limit={rules.step_limit} allows"
    return settle(view, "failed", error=Failure("STEP_LIMIT", message))


class PhaseRow(NamedTuple):
    """One row of the phase table: what leads to the phase, what is done there, and which phases may follow."""

    when: str
    does: str
    then: tuple[Phase, ...]


_ANY_WORK: Final[tuple[Phase, ...]] = ("infer", "compact", "confirm", "question", "tool", "deny", "done")
_PARKED: Final = "park until it is answered"
_SETTLED: Final[tuple[Phase, ...]] = ("idle", "infer", "compact", "done")

PHASES: Final[dict[Phase, PhaseRow]] = {
    "idle": PhaseRow("no run is at work", "nothing, until a prompt or a resume opens a run", _ANY_WORK),
    "infer": PhaseRow("the conversation waits for the model", "call the model, or ask it to go on", _ANY_WORK),
    "compact": PhaseRow("the window is too full", "summarise older facts", ("infer", "done")),
    "confirm": PhaseRow("a call asks and has no answer", _PARKED, ("confirm", "tool", "done")),
    "question": PhaseRow("an ask_user call has no answer", _PARKED, ("question", "tool", "done")),
    "tool": PhaseRow("recorded calls have no result", "run them, or record why not", _ANY_WORK),
    "deny": PhaseRow("the tool budget is used up", "record budget.denied", ("done",)),
    "done": PhaseRow("nothing is left, or a limit is reached", "settle the run; a steer makes it go on", _SETTLED),
}
