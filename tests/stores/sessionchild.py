"""A node that dies inside a payment. In: a store of a kind, a workspace. Out: a log, a checkpoint, and what was paid.

One rule: it kills itself where a power cut would, after the effect and before its result.
Known weakness: none known.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

from storehelp import maker

from a3s_code import Agent, tool
from a3s_code.testing import ScriptedModel, calls


async def main() -> None:
    kind, directory, dsn, schema, workspace = sys.argv[1:]

    @tool
    def pay(amount: int) -> str:
        """Pays."""
        with open(Path(workspace) / "paid", "a") as file:
            file.write(str(amount))
        if amount == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        return "paid"

    store = maker(kind, Path(directory), lambda: dsn, schema)()
    model = ScriptedModel([calls(("pay", {"amount": 1}), ("pay", {"amount": 2}))])
    async with await Agent.create_from_config_async({}) as agent:
        session = await agent.session_async(
            workspace,
            session_id="s",
            session_store=store,
            llm_client=model,
            tools=[pay],
            permission_policy="full",
            tenant_id="acme",
            role="a clerk",
        )
        await session.spawn_run_with_id_async("run-a", "pay twice")
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
