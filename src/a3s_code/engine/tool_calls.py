"""A batch of model calls. In: calls that the core says to run, in call order. Out: started and result facts.

One rule: ``tool.started`` is on the log before an unsafe call begins, and every begun call gets its result fact,
also when the run is interrupted meanwhile.
Known weakness: none known.
"""

from __future__ import annotations

import asyncio

from a3s_code.core.content import AttachmentRef, Call
from a3s_code.core.facts import CallJudged, ToolResulted, ToolStarted
from a3s_code.core.facts.tools import Outcome
from a3s_code.core.steps import Recorded
from a3s_code.engine.active import ActiveRun
from a3s_code.engine.capabilities import capabilities_of, rerun_safe
from a3s_code.engine.invoke.invocation import Finished, Invocation
from a3s_code.engine.invoke.judging import FINAL, judged
from a3s_code.engine.token import Interrupted
from a3s_code.ports.tasks import spawn
from a3s_code.ports.tool import Attachment

_DENIED = frozenset(
    "permission_denied confirmation_rejected confirmation_timeout confirmation_unavailable hook_denied "
    "skill_restricted protected_path credential_path hard_link budget_exhausted".split()
)


async def run_batch(run: ActiveRun, calls: tuple[Call, ...]) -> None:
    """Runs one call, or several that are read-only together."""
    ready = []
    for call in calls:
        invocation = run.invocation(call)
        if await _judged_stricter(run, call, invocation):
            return
        refusal = await run.kernel.admit(invocation)
        if refusal is not None:
            await record(run, invocation, refusal)
        else:
            ready.append(invocation)
    if not ready:
        return
    started = [_started(run, invocation) for invocation in ready]
    run.append(*started)
    if any(fact.rerun == "unsafe" for fact in started):
        await run.durable()
        if run.keeper is not None and run.rules.unknown_outcome != "run":
            await run.keeper.checkpoint(run)  # another node, too, must know that the call began
    if len(ready) == 1:
        await _finish(run, ready[0])
    else:
        await _finish_together(run, ready)


async def _finish(run: ActiveRun, invocation: Invocation) -> None:
    await record(run, invocation, await run.kernel.execute(invocation))


async def _finish_together(run: ActiveRun, ready: list[Invocation]) -> None:
    """Results are recorded as they come; in call order when ids and times are fixed, so that a replay is equal."""
    work = [spawn(run.kernel.execute(invocation), f"tool {invocation.name}") for invocation in ready]
    try:
        if run.parts.env.fixed:
            for invocation, task in zip(ready, work, strict=True):
                await record(run, invocation, await task)
            return
        by_task = dict(zip(work, ready, strict=True))
        waiting = set(work)
        while waiting:
            done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            for task in work:
                if task in done:
                    await record(run, by_task[task], task.result())
            if waiting and run.keeper is not None:
                await run.keeper.checkpoint(run)
    finally:
        for task in work:
            task.cancel()
        await asyncio.wait(work)


async def _judged_stricter(run: ActiveRun, call: Call, invocation: Invocation) -> bool:
    """Judges once more right before the call runs; for unchanged arguments that can only tighten the verdict. One that
    was approved stays approved under whatever policy there is now, but for what no approval lifts."""
    registered = run.parts.toolbox.get(call.name)
    args, _ = registered.check(call.args) if registered else (None, None)
    if args is None or call.verdict.decision == "deny":
        return False
    invocation.args = invocation.checked = args
    invocation.tool = registered
    verdict = await run.token.guard(judged(invocation, run.parts))
    if verdict.decision == "allow" or (call.verdict.decision == "ask" and verdict.kind not in FINAL):
        return False
    run.append(CallJudged(call.id, call.args, verdict))
    return True


def _started(run: ActiveRun, invocation: Invocation) -> ToolStarted:
    state = run.view.call(invocation.id)
    attempt = (state.attempts if state else 0) + 1
    capabilities = capabilities_of(invocation.registered, invocation.args)
    return ToolStarted(invocation.id, attempt, "safe" if rerun_safe(capabilities) else "unsafe", capabilities.read_only)


async def record(run: ActiveRun, invocation: Invocation, finished: Finished) -> None:
    """The result fact of a call that the kernel had in hand."""
    output = finished.output
    if run.left is not None and output.error_kind == "cancelled":
        raise Interrupted(run.token.reason)  # whoever goes on with the run decides about the call
    host = invocation.tool is not None and invocation.tool.host
    invocation.flush(None if host else output.output)  # a program's two pipes are read in any order
    run.kernel.told(invocation)
    refs = await _kept(run, output.attachments) if output.attachments else ()
    run.append(
        ToolResulted(
            invocation.id,
            invocation.name,
            output.output,
            output.exit_code,
            outcome_of(output.error_kind, output.exit_code),
            output.metadata,
            finished.took_ms,
            refs,
        )
    )


async def _kept(run: ActiveRun, attachments: tuple[Attachment, ...]) -> tuple[AttachmentRef, ...]:
    """The attachments' bytes beside the log; a disk that fails ends the run as a failing log does."""
    put = run.parts.blobs.put
    return tuple([await run.parts.callbacks.in_thread(put, a.data, "image", a.media_type) for a in attachments])


def outcome_of(error_kind: str | None, exit_code: int) -> Outcome:
    """What the fact calls a result with this error kind and exit code."""
    if error_kind in _DENIED:
        return "denied"
    if error_kind == "cancelled":
        return "cancelled"
    if error_kind == "duplicate_call":
        return "blocked"
    return "ok" if error_kind is None and exit_code == 0 else "error"


def result_of(item: Recorded) -> ToolResulted:
    """The fact for a call that gets its result without running."""
    metadata = dict(item.metadata)
    if item.kind:
        metadata["error"] = {"type": item.kind, "message": item.output}
    exit_code = {"ok": 0, "cancelled": 130}.get(item.outcome, 1)
    return ToolResulted(item.call.id, item.call.name, item.output, exit_code, item.outcome, metadata)
