"""Hooks that decide about the model's calls (extensions.md §1.3). In: calls the core wants to run or to ask about. Out:
facts that say what the hooks made of them.

One rule: what a hook decided is a fact before it counts, so that the core, and a resumed run, see it: a denial is the
call's result, a rewrite is ``call.judged``, a permission is ``confirmation.answered``.
Known weakness: a run that is resumed where no hook is asked keeps the arguments that an earlier hook rewrote.
"""

from __future__ import annotations

from msgspec.structs import replace

from a3s_code.core.content import AssistantMessage, Call, JsonObject, Verdict
from a3s_code.core.decide.settle import unknown
from a3s_code.core.digest import args_digest
from a3s_code.core.facts import CallJudged, ConfirmationAnswered
from a3s_code.core.policy.confirmation import answerable
from a3s_code.core.state import CallState, View
from a3s_code.engine.active import ActiveRun
from a3s_code.engine.invoke.hooked import permission, refusal
from a3s_code.engine.invoke.invocation import Finished, Invocation
from a3s_code.engine.invoke.judging import beside_the_policy, judged
from a3s_code.engine.tool_calls import record, result_of


async def changed(run: ActiveRun, calls: tuple[Call, ...]) -> bool:
    """Puts ``calls`` before ``pre_tool_use``, each once in this process. True when the log changed, so that the next
    step has to be chosen anew."""
    if not run.firing.wants("pre_tool_use"):
        return False
    at = run.view.seq
    for call in calls:
        state = run.view.call(call.id)
        if call.id not in run.firing.consulted and state is not None:
            await _consult(run, state)
    return run.view.seq != at


async def _consult(run: ActiveRun, state: CallState) -> None:
    """Asks about what the model sent, also when an earlier process's hooks had rewritten it: an approval only counts
    for the same arguments, which the fold sees to."""
    call = state.call
    inv = run.invocation(replace(call, args=_as_sent(run.view, call)))
    refused = await run.kernel.consult(inv)
    run.firing.consulted.add(call.id)
    if refused is not None:
        await _refuse(run, state, inv, refused)
        return
    if not inv.consulted or args_digest(inv.args) == args_digest(run.firing.filled_in(call.name, call.args)):
        return
    inv.approved = False
    run.append(CallJudged(call.id, inv.args, await run.token.guard(judged(inv, run.parts))))


def _as_sent(view: View, call: Call) -> JsonObject:
    """The arguments as the model sent them; ``call.judged`` changes them in the view of the turn only."""
    said = view.messages[-1] if view.messages else None
    sent = said.calls if isinstance(said, AssistantMessage) else ()
    return next((each.args for each in sent if each.id == call.id), call.args)


async def _refuse(run: ActiveRun, state: CallState, inv: Invocation, refused: Finished) -> None:
    """A call that had begun before its process ended may have had its effect: that it is denied now doesn't tell."""
    if state.attempts and state.rerun == "unsafe":
        run.append(result_of(unknown(state)))
    else:
        await record(run, inv, refused)


async def settled(run: ActiveRun, calls: tuple[Call, ...]) -> bool:
    """Puts calls that the policy asks about before ``permission_request``, each once with the same arguments. True when
    the log changed."""
    at = run.view.seq
    for call in calls:
        state = run.view.call(call.id)
        if state is None or not state.must_ask or call.id in run.published:
            continue
        key = (call.id, state.digest)
        if call.verdict.rules and run.firing.wants("permission_request") and key not in run.firing.asked:
            run.firing.asked.add(key)
            if await _settle(run, state):
                continue
        if not run.rules.can_ask and call.verdict.kind == "confirmation_unavailable":
            run.append(CallJudged(call.id, call.args, _nobody(call)))
    return run.view.seq != at


async def _settle(run: ActiveRun, state: CallState) -> bool:
    """Whether a hook decided."""
    call = state.call
    inv = run.invocation(call)
    inv.approved, inv.tool = False, run.parts.toolbox.get(call.name)
    if inv.tool is None:
        return False
    inv.args = run.firing.filled_in(call.name, call.args)
    denied, by, reason = await permission(inv, call.verdict, run.firing)
    if denied is not None:
        await _refuse(run, state, inv, Finished(refusal(denied)))
    elif by is not None:
        beside = await run.token.guard(beside_the_policy(inv, run.parts))
        if beside.decision == "allow":
            run.append(ConfirmationAnswered(call.id, state.digest, True, reason, by))
        else:
            run.append(CallJudged(call.id, call.args, beside))
    return denied is not None or by is not None


def _nobody(call: Call) -> Verdict:
    """What an ask comes to that only a hook could have answered."""
    return answerable(None, call.name, replace(call.verdict, kind=""))
