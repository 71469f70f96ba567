"""A scripted life of two sessions, told with fixed ids and times. In: a storage, two workspaces and which side of the
comparison this is. Out: whatever was recorded, as text by name.

One rule: the sides differ in everything that is chance or the machine's (who of two calls is done first, how output is
cut, how long things take), and in nothing else.
Known weakness: none known.

Run as a program it tells the story with a store of every kind.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Mapping
from itertools import count
from pathlib import Path
from typing import Any

from storehelp import AnyStore, maker

from a3s_code import Agent, HostEnvConfig, Session, ToolContext, tool
from a3s_code.errors import CodeError
from a3s_code.stores.factlog import log_path
from a3s_code.stores.transaction import Transaction
from a3s_code.system.clock import SystemClock
from a3s_code.testing import ScriptedModel, Turn, call, calls, delay, error, text, thought

TIME_MS = 1_700_000_000_000
PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(32))
LABELS = {"tenant_id": "acme", "principal": "jo", "correlation_id": "c-λ"}
OPTIONS: dict[str, Any] = {
    **LABELS,
    "auto_save": True,
    "sandbox": "host",
    "log_durability": "os",
    "role": "a clerk",
    "step_limit": 20,
    "tool_budget": None,
    "permission_policy": {"allow": [], "ask": ["pay"], "default_decision": "allow"},
    "confirmation_policy": {"enabled": True},
    "retention_limits": {"max_runs_retained": 5, "max_events_per_run": 60, "max_trace_events": 50},
    "artifact_store_limits": {"max_artifacts": 2},
    "tool_result_transform_policy": {"max_output_bytes": 1024, "head_bytes": 256, "tail_bytes": 128},
}


class Uneven(SystemClock):
    """Every look at it takes time: ``step`` seconds more than it took."""

    def __init__(self, step: float) -> None:
        self._step = step
        self._looks = count()

    def monotonic(self) -> float:
        return super().monotonic() + next(self._looks) * self._step


class Side:
    """One side of the comparison; ``late`` is which of two calls side by side ends last."""

    def __init__(self, late: str) -> None:
        self.late = late
        self.heard: list[str] = []

    def tools(self) -> list[Any]:
        over = asyncio.Event()

        @tool(read_only=True, idempotent=True, max_parallelism=4)
        async def look(name: str, ctx: ToolContext) -> dict[str, Any]:
            """Looks, and has another tool look too."""
            if name == self.late:
                await over.wait()
            for piece in ["see", "ing ", name] if name == self.late else [f"seeing {name}"]:
                ctx.emit(piece)
            inner = await ctx.invoke("ls", {"path": name})
            ctx.emit("\n")
            if name != self.late:
                over.set()
            return {"of": name, "made": ctx.new_id(), "entries": sorted({"c", "a", "b"}), "inner": inner.exit_code}

        @tool
        def pay(amount: int) -> str:
            """Pays."""
            return f"paid {amount}"

        return [look, pay]

    def hooks(self) -> list[dict[str, Any]]:
        async def listen(event: Mapping[str, Any]) -> None:
            for _ in range(5 if self.late == "left" else 1):
                await asyncio.sleep(0)
            self.heard.append(json.dumps(event, sort_keys=True))

        def gate(event: Mapping[str, Any]) -> dict[str, Any]:
            rewrite = (
                {"args": {**event["payload"]["args"], "limit": 20}} if event["payload"]["tool"] == "read" else None
            )
            return {"action": "continue", "modified": rewrite}

        return [
            {"name": "gate", "event_type": "pre_tool_use", "handler": gate},
            {"name": "after", "event_type": "post_tool_use", "handler": listen},
            {"name": "told", "event_type": "generate_end", "handler": listen},
            {"name": "behind", "event_type": "post_tool_use", "config": {"background": True}, "handler": listen},
        ]


class Story:
    """``told`` is what was recorded so far, by name."""

    def __init__(self, store: AnyStore, side: Side, here: Path, there: Path) -> None:
        self.told: dict[str, str] = {}
        self._store = store
        self._side = side
        self._here, self._there = here, there
        self._env = HostEnvConfig("n", TIME_MS)

    async def tell(self) -> dict[str, str]:
        async with await self._agent() as agent:
            await self._conversation(agent)
        async with await self._agent() as agent:
            await self._another_process(agent)
        async with await self._agent() as agent:
            await self._another_node(agent)
        await self._keep("at the end", "main", "fork-1")
        for name, workspace in (("here", self._here), ("there", self._there)):
            for session_id in ("main", "fork-1"):
                path = Path(log_path(str(workspace), session_id))
                if path.exists():
                    self.told[f"log of {session_id} {name}"] = path.read_bytes().decode()
        self.told["what hooks heard"] = "\n".join(sorted(self._side.heard))
        await self._store.close()
        return {name: self._anywhere(told) for name, told in self.told.items()}

    async def _conversation(self, agent: Agent) -> None:
        """Runs with calls side by side, artifacts, attachments, an answer, a question, a steer, retries, an error."""
        gate = asyncio.Event()
        session = await self._session(
            agent,
            [thought("hm"), text("looking around", 3), *calls(("look", {"name": "left"}), ("look", {"name": "right"}))],
            calls(("read", {"file_path": "long.txt"}), ("search", {"query": "line 7", "mode": "grep"}), ("ls", {})),
            calls(("bash", {"command": "echo err >&2; echo out; umask >/dev/null; exit 3"}), ("nothing", {})),
            calls(
                ("write", {"file_path": "b.txt", "content": "β\n"}), ("write", {"file_path": "/outside", "content": ""})
            ),
            call("ls", "{"),
            text("all seen", 4),
            error(429, retry_after_ms=1),
            [call("pay", {"amount": 3}, id="c1")],
            [call("ask_user", {"question": "Which?", "options": ["a", "b"]}, id="c2")],
            [delay(gate), "steered later"],
            "as you say",
            error(400),
        )
        await self._run(session, "go", [{"data": PNG, "media_type": "image/png"}, {"path": "notes.txt"}])
        asked = False
        async for event in await session.stream_async("pay and ask"):
            if event.type == "confirmation_required":
                await session.confirm_tool_use_async("c1", True, "fine")
            if event.type == "user_question":
                asked = await session.answer_question_async("c2", "b")
            if event.type == "turn_start" and asked:
                await session.steer_async("and hurry", {"request_id": "r1"})
                gate.set()
        try:
            await session.send_async("fail")
        except CodeError as failed:
            self.told["error"] = f"{failed.code} {failed}"
        await self._keep("after the conversation", "main")
        self._tell("conversation", session)

    async def _another_process(self, agent: Agent) -> None:
        """Resumed from the store: a detached run, a fork, and a run that is left while it waits for an answer."""
        session = await agent.resume_session_async(
            "main", **self._options("done", [call("pay", {"amount": 4}, id="c3")])
        )
        await session.spawn_run_with_id_async("job", "do it")
        await self._until(lambda: session._engine.active is None)
        copy = await session.fork_async(session_id="fork-1")
        await self._run(copy, "pay once more", ends=lambda: bool(copy.pending_confirmations()))
        await copy.close_async()
        await self._keep("left waiting", "fork-1")
        self._tell("resumed", session)

    async def _another_node(self, agent: Agent) -> None:
        """In another workspace: the waiting run is recovered under a new id, and the first session goes on."""
        script: list[Turn] = ["recovered", "forked on"]
        copy = await self._session(agent, *script, session_id="fork-1", workspace=self._there)
        waiting = (await self._store.list_checkpoints("fork-1"))[0].run_id
        await copy.spawn_recovery_with_run_id_async(waiting, "recovery")
        await self._until(lambda: bool(copy.pending_confirmations()))
        await copy.confirm_tool_use_async("c3", False, "too much")
        await self._until(lambda: copy._engine.active is None)
        await self._run(copy, "and now?")
        session = await self._session(agent, "moved", workspace=self._there)
        await self._run(session, "still there?")
        self._tell("fork there", copy)
        self._tell("main there", session)

    async def _agent(self) -> Agent:
        agent = await Agent.create_from_config_async({})
        agent._shared.clock = Uneven(0.001 if self._side.late == "left" else 0.002)
        return agent

    def _options(self, *script: Turn) -> dict[str, Any]:
        return {
            **OPTIONS,
            "session_store": self._store,
            "host_env": self._env,
            "llm_client": ScriptedModel(list(script)),
            "tools": self._side.tools(),
            "hooks": self._side.hooks(),
        }

    async def _session(
        self, agent: Agent, *script: Turn, session_id: str = "main", workspace: Path | None = None
    ) -> Session:
        options = {**self._options(*script), "session_id": session_id}
        return await agent.session_async(workspace or self._here, **options)

    async def _run(
        self,
        session: Session,
        prompt: str,
        attachments: list[Any] | None = None,
        ends: Callable[[], bool] | None = None,
    ) -> None:
        """To its end, or until ``ends``. On one side somebody reads meanwhile, on the other only afterwards."""
        stream = await session.stream_async(prompt, attachments=attachments)
        if ends is not None or self._side.late == "right":
            await self._until(ends or (lambda: session._engine.active is None))
        if ends is None:
            async for _ in stream:
                pass

    async def _until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            await asyncio.sleep(0.001)  # so that threads have their turn

    def _tell(self, when: str, session: Session) -> None:
        """What the session says of itself, as JSON in its own order."""
        runs = session.runs()
        self.told[f"{when}: runs"] = json.dumps(runs)
        self.told[f"{when}: events"] = "\n".join(
            json.dumps(event) for run in runs for event in session.run_events(str(run["id"]))
        )
        self.told[f"{when}: trace"] = "\n".join(json.dumps(line) for line in session.trace_events())
        self.told[f"{when}: history"] = json.dumps(session.history())

    async def _keep(self, when: str, *session_ids: str) -> None:
        """What the store holds, as it is stored."""

        async def rule(tx: Transaction) -> dict[str, bytes]:
            kept: dict[str, bytes] = {}
            for session_id in session_ids:
                kept[f"snapshot of {session_id}"] = _undigested(await tx.get("session", session_id) or b"")
                for kind in ("checkpoint", "run"):
                    found = await tx.of_session(kind, session_id)
                    kept[f"{kind}s of {session_id}"] = b"\n".join(sorted(map(_undigested, found)))
                facts = sorted(await tx.facts(session_id, 10**6), key=lambda row: row.seq)
                kept[f"facts of {session_id}"] = b"\n".join(row.raw for row in facts)
            return kept

        for name, data in (await self._store._backend.transact((), rule)).items():
            self.told[f"{when}: {name}"] = data.decode()

    def _anywhere(self, said: str) -> str:
        """Without the workspaces' paths."""
        for name, path in (("here", self._here), ("there", self._there)):
            said = said.replace(str(path.resolve()), f"/{name}")
        return said


def _undigested(document: bytes) -> bytes:
    """Without the digest at its end, which covers the workspace's path."""
    return document[: document.rfind(b',"digest":')]


async def tell_all(kinds: list[str], dsn: str, schema: str, late: str, root: Path) -> dict[str, dict[str, str]]:
    told: dict[str, dict[str, str]] = {}
    for kind in kinds:
        here, there = root / kind / "here", root / kind / "there"
        for workspace in (here, there):
            workspace.mkdir(parents=True)
            (workspace / "long.txt").write_text("".join(f"line {n} {'x' * 40}\n" for n in range(100)))
            (workspace / "notes.txt").write_text("remember\n")
            (workspace / "left").mkdir()
            (workspace / "right").mkdir()
        store = maker(kind, root / kind, lambda: dsn, schema)()
        told[kind] = await Story(store, Side(late), here, there).tell()
    return told


def main() -> None:
    kinds, dsn, schema, late, root = sys.argv[1:]
    told = asyncio.run(tell_all(kinds.split(","), dsn, schema, late, Path(root)))
    sys.stdout.buffer.write(json.dumps(told).encode())


if __name__ == "__main__":
    main()
