"""A session whose results came to be in every way. In: a workspace. Out: its log, and what was seen of its results.

Run it (``python tests/governance/evidence_session.py NAME``) to write the session into ``tests/data`` once for a form
of the log. What is there of an earlier form stays: ``golden-0.1-kept-evidence`` is from when every result's evidence
was on the log.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path
from typing import Any

import msgspec

from a3s_code import Agent, HostEnvConfig, PermissionPolicy, ToolOutput, tool
from a3s_code.ports.tool import ToolContext
from a3s_code.stores.factlog import log_path
from a3s_code.testing import ScriptedModel, call, calls

DATA = Path(__file__).parent.parent / "data"
KEPT, DERIVED = "golden-0.1-kept-evidence", "golden-0.1-derived-evidence"
EVIDENCE = "a3s_tool_result_evidence"


def lines(count: int, ctx: ToolContext) -> ToolOutput:
    """Prints lines, and claims something about them."""
    return ToolOutput("\n".join(f"line {n}" for n in range(count)), metadata={"count": count, EVIDENCE: "mine"})


def odd() -> str:
    """Says half a character."""
    return "half \ud800 of it"


async def recorded(workspace: Path) -> tuple[bytes, dict[str, Any]]:
    """The log, and the ends of calls as events and a host's direct call show them."""
    (workspace / "a.txt").write_text("alpha\näöü 北京\n")
    first = calls(("read", {"file_path": "a.txt"}), ("read", {"file_path": "nothing"}), ("lines", {"count": 300}))
    second = calls(
        ("bash", {"command": "true"}), ("nothing", {}), ("lines", {"count": 3}), ("odd", {}), ("ls", {"no": 1})
    )
    script = [first, second, calls(call("ls", "{")), "done"]
    policy = PermissionPolicy(deny=["bash"], default_decision="allow")
    options: dict[str, Any] = {"permission_policy": policy, "tools": [tool(lines), tool(odd)], "tool_budget": None}
    options |= {"tool_result_transform_policy": {"max_output_bytes": 1024, "head_bytes": 100, "tail_bytes": 50}}
    options |= {"host_env": HostEnvConfig("n", 1_700_000_000_000), "log_durability": "os", "sandbox": "host"}
    async with await Agent.create_from_config_async({}) as agent:
        session = await agent.session_async(
            workspace, session_id="golden", llm_client=ScriptedModel(list(script)), **options
        )
        events = [event async for event in session.stream("go") if event.type in ("tool_end", "permission_denied")]
        direct = await session.tool_async("lines", {"count": 3})
        seen = {
            "events": [[event.type, event.payload_json] for event in events],
            "host": [direct.output, direct.exit_code, direct.metadata_json],
        }
    return Path(log_path(str(workspace.resolve()), "golden")).read_bytes(), msgspec.to_builtins(seen)


def seen_of(name: str) -> dict[str, Any]:
    """What was seen of the results of a golden session."""
    found: dict[str, Any] = msgspec.json.decode((DATA / f"{name}.seen.json").read_bytes())
    return found


def write(name: str) -> None:
    with tempfile.TemporaryDirectory() as root:
        log, seen = asyncio.run(recorded(Path(root)))
    (DATA / f"{name}.jsonl").write_bytes(log)
    (DATA / f"{name}.seen.json").write_bytes(msgspec.json.format(msgspec.json.encode(seen), indent=2) + b"\n")


if __name__ == "__main__":
    write(sys.argv[1])
