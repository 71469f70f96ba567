"""The call itself (tools.md §2.1, step 13). In: an admitted invocation. Out: its output, whatever happened to it.

One rule: a tool is asked to stop first and stopped 5 s later; the caller never waits longer than that.
Known weakness: a plain function in a thread can't be stopped: it is abandoned and its result is discarded.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from typing import Any

import msgspec

from a3s_code.core.content import Json
from a3s_code.core.digest import canonical
from a3s_code.engine.invoke.invocation import Invocation, failed
from a3s_code.engine.parts import Parts
from a3s_code.ports.tasks import spawn
from a3s_code.ports.tool import Attachment, ToolContext, ToolFailure, ToolOutput

GRACE_S = 5.0
DEADLINE_SLACK_S = 0.25
_INT_LIMIT = 2**63
_MEMBERS: dict[str, type] = {"output": str, "exit_code": int, "metadata": dict, "attachments": tuple, "artifacts": dict}
_log = logging.getLogger("a3s_code")


async def execute(inv: Invocation, ctx: ToolContext, parts: Parts) -> ToolOutput:
    """Runs the tool under its deadline and its token."""
    stop = _Stop(ctx, inv, parts)
    body = stop.start()
    try:
        output = await stop.ended
    except asyncio.CancelledError:
        ctx.cancelled.set()
        body.cancel()
        await asyncio.wait([body], timeout=GRACE_S)
        raise
    finally:
        stop.disarm()
    return output


class _Stop:
    """Ends a call that is cancelled or out of time: asks, then stops it. ``ended`` gets the one output."""

    def __init__(self, ctx: ToolContext, inv: Invocation, parts: Parts) -> None:
        self._loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[ToolOutput] = self._loop.create_future()
        self._ctx, self._inv, self._parts, self._clock = ctx, inv, parts, parts.clock
        self._body: asyncio.Task[None] | None = None
        self._why: ToolOutput | None = None
        self._timers: list[asyncio.TimerHandle] = []

    def start(self) -> asyncio.Task[None]:
        self._body = spawn(self._run(), f"tool {self._inv.name}")
        self._body.add_done_callback(self._gone)
        self._inv.token.on_cancel(self._cancelled)
        if self._ctx.deadline is not None:
            left = max(0.0, self._ctx.deadline - self._clock.monotonic()) + DEADLINE_SLACK_S
            self._timers.append(self._loop.call_later(left, self._timed_out))
        return self._body

    async def _run(self) -> None:
        """Gives the output itself, as waiting for the task to be done takes one more turn of the loop."""
        output = await _body(self._inv, self._ctx, self._parts)
        if self._why is not None and self._why.error_kind == "timeout" and output.error_kind in (None, "cancelled"):
            output = self._why
        if not self.ended.done():
            self.ended.set_result(output)

    def _gone(self, body: asyncio.Task[None]) -> None:
        if body.cancelled() and not self.ended.done():
            self.ended.set_result(self._why or failed("cancelled", "Cancelled", exit_code=130))

    def _cancelled(self) -> None:
        self._ask(failed("cancelled", "Cancelled", exit_code=130))

    def _timed_out(self) -> None:
        """Time in which a call inside this one waits for a person doesn't count."""
        left = (self._ctx.deadline or 0.0) + DEADLINE_SLACK_S - self._clock.monotonic()
        if self._inv.waiting or left > DEADLINE_SLACK_S:
            self._timers.append(self._loop.call_later(max(left, DEADLINE_SLACK_S), self._timed_out))
            return
        self._ask(failed("timeout", f"Timed out after {self._inv.limit_ms} ms", exit_code=124))

    def _ask(self, why: ToolOutput) -> None:
        if self._why is not None or self.ended.done():
            return
        self._why = why
        self._ctx.cancelled.set()
        self._timers.append(self._loop.call_later(GRACE_S, self._force))

    def _force(self) -> None:
        if self._body is not None:
            self._body.cancel()
        if not self.ended.done() and self._why is not None:
            self.ended.set_result(self._why)

    def disarm(self) -> None:
        for timer in self._timers:
            timer.cancel()
        self._inv.token.off_cancel(self._cancelled)


async def _body(inv: Invocation, ctx: ToolContext, parts: Parts) -> ToolOutput:
    registered = inv.registered
    run = inv.instead or registered.tool.execute
    try:
        if registered.host:
            output: Any = await parts.callbacks.call_host(run, inv.args, ctx)
        elif inspect.iscoroutinefunction(run):
            output = await run(inv.args, ctx)
        else:
            output = await parts.callbacks.in_thread(run, inv.args, ctx)
    except ToolFailure as failure:
        return as_output(failure_output(failure), inv.name)
    except Exception as error:  # noqa: BLE001  whatever a tool raises is its result, never the run's end
        _log.debug("tool %s raised", inv.name, exc_info=parts.governance.loggable(error))
        return failed("internal", f"{type(error).__name__}: {error}")
    return as_output(output, inv.name)


def failure_output(failure: ToolFailure) -> ToolOutput:
    error: dict[str, Json] = {"type": failure.kind, "message": failure.message, **failure.detail}
    return ToolOutput(failure.message, failure.exit_code, {**failure.metadata, "error": error}, failure.kind)


def as_output(value: object, name: str) -> ToolOutput:
    """What ``execute`` gave, as a ToolOutput; text means success."""
    if isinstance(value, str):
        return ToolOutput(value)
    if isinstance(value, ToolOutput):
        fault = _fault(value)
        return value if fault is None else failed("internal", f"Tool '{name}' returned a ToolOutput whose {fault}")
    return failed("internal", f"Tool '{name}' returned {type(value).__name__}, expected str or ToolOutput")


def _fault(value: ToolOutput) -> str | None:
    """What would keep a tool's output from being stored; nothing checks the members when a ToolOutput is made."""
    members: dict[str, object] = msgspec.structs.asdict(value)
    for name, kind in _MEMBERS.items():
        if type(members[name]) is bool or not isinstance(members[name], kind):
            return f"{name} is {members[name]!r:.40}, expected {kind.__name__}"
    if not -_INT_LIMIT <= value.exit_code < _INT_LIMIT:
        return "exit_code is no 64-bit number"
    if value.error_kind is not None and not isinstance(members["error_kind"], str):
        return f"error_kind is {value.error_kind!r:.40}, expected str or None"
    if not all(isinstance(each, Attachment) for each in value.attachments):
        return "attachments are not all Attachment"
    if not all(isinstance(text, str) for item in value.artifacts.items() for text in item):
        return "artifacts are not all str"
    try:
        canonical(value.metadata)
    except (TypeError, ValueError, RecursionError, OverflowError) as error:
        return f"metadata is no JSON: {error}"
    return None
