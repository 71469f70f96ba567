"""A host's direct calls of tools (tools.md §2.2). In: a session, a name and arguments. Out: a ToolResult.

One rule: they pass the kernel like every other call; they leave no facts and take no gate.
Known weakness: none known.
"""

from __future__ import annotations

from a3s_code.core.content import JsonObject
from a3s_code.engine import leaving
from a3s_code.engine import session as sessions
from a3s_code.engine.invoke.invocation import Instead
from a3s_code.engine.invoke.kernel import result_of
from a3s_code.engine.opening import session_start
from a3s_code.ports.tool import Origin, ToolResult


async def call_tool(
    session: sessions.EngineSession,
    name: str,
    args: JsonObject,
    origin: Origin,
    *,
    whole: bool = False,
    instead: Instead | None = None,
) -> ToolResult:
    """Never raises for what the tool does. ``whole``: its output isn't shortened. ``instead`` is done in its place."""
    session.check_open()
    await session_start(session.firing, session.parts)
    session.check_open()
    invocation = session.kernel.host_call(name, args, origin, session.token.child())
    invocation.instead = instead
    with session.firing.inside():
        result = result_of(invocation, await session.kernel.invoke(invocation), whole=whole)
        await session.firing.hooks.drained(leaving.DRAIN_S)
    return result
