"""What the tests of governance share. In: a workspace and a script. Out: sessions, what was asked, what the log says.

One rule: real files and the whole engine. Known weakness: none known.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from a3s_code import Agent, ConfirmationPolicy, PermissionPolicy, Session
from a3s_code.core.facts import Fact
from a3s_code.stores.factlog import FileFactLog, log_path
from a3s_code.stores.syncer import Syncer
from a3s_code.testing import ScriptedModel, Turn, calls

ALLOW_ALL = PermissionPolicy(default_decision="allow")


async def opened(agent: Agent, workspace: Path, *script: Turn, **options: Any) -> Session:
    """A session ``s`` that may do everything and can ask nobody, unless told otherwise."""
    given = {
        "session_id": "s",
        "llm_client": ScriptedModel(list(script)),
        "permission_policy": ALLOW_ALL,
        "log_durability": "os",
        "sandbox": "host",
        **options,
    }
    return await agent.session_async(workspace, **given)


def asking(**policy: Any) -> dict[str, Any]:
    return {"confirmation_policy": ConfirmationPolicy(**policy)}


def facts(workspace: Path) -> list[Fact]:
    log = FileFactLog(str(workspace.resolve()), "s", created_ms=0, syncer=Syncer())
    return list(log.read())


def data(workspace: Path, kind: str) -> list[Any]:
    return [fact.data for fact in facts(workspace) if fact.kind == kind]


def log_text(workspace: Path) -> str:
    return Path(log_path(str(workspace.resolve()), "s")).read_text()


async def one_call(agent: Agent, workspace: Path, name: str, args: dict[str, Any], **options: Any) -> Any:
    """The result fact of one call of the model."""
    session = await opened(agent, workspace, calls((name, args)), "done", **options)
    await session.send_async("go")
    (result,) = data(workspace, "tool.result")
    return result


async def until(condition: Callable[[], Any]) -> None:
    """Lets the loop go round until ``condition`` holds; the test's own timeout bounds it."""
    for _ in range(20_000):
        if condition():
            return
        await asyncio.sleep(0)
    while not condition():
        await asyncio.sleep(0.001)
