"""Sessions with a store. In: a workspace and a store. Out: sessions that save, and what their logs' directory holds.

One rule: stores are real; a failing one fails in one method only. Known weakness: none known.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from a3s_code import Agent, MemorySessionStore, Session, tool
from a3s_code.api.wiring import LEASES
from a3s_code.errors import StoreError
from a3s_code.testing import ScriptedModel, Turn

REMOTE = "the database is gone"


async def kept(agent: Agent, workspace: Path, store: Any, *script: Turn, **options: Any) -> Session:
    """A session called ``s`` in ``store``, which is saved after every run."""
    given: dict[str, Any] = {"session_id": "s", "llm_client": ScriptedModel(list(script)), "log_durability": "os"}
    return await agent.session_async(workspace, **{**given, "session_store": store, "auto_save": True, **options})


def logs(workspace: Path) -> list[str]:
    """The files beside the session's log, that one included."""
    directory = workspace / ".a3s" / "effect-log"
    return sorted(path.name for path in directory.glob("s.*")) if directory.exists() else []


def paying(paid: list[int]) -> Any:
    """A tool that pays, and writes down what it paid."""

    @tool
    def pay(amount: int) -> str:
        """Pays."""
        paid.append(amount)
        return "paid"

    return pay


async def vanished(session: Session) -> None:
    """As if the session's node had died in the middle of its work: nobody renews its lease, and the lease is void. Its
    process doesn't know that yet."""
    keeper = session._engine.keeper
    assert keeper is not None
    kept = keeper.holding._kept
    assert kept is not None
    LEASES.let_go(kept)
    await keeper.store.release(kept.lease)


class Failing(MemorySessionStore):
    """A store of which some methods fail."""

    def __init__(self, *methods: str) -> None:
        self.methods = list(methods)
        super().__init__()

    def __getattribute__(self, name: str) -> Any:
        if name != "methods" and name in self.methods:
            return self._refuse
        return super().__getattribute__(name)

    async def _refuse(self, *of: object, **more: object) -> None:
        raise StoreError(REMOTE)
