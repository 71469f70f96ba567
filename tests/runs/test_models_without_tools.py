"""A model that is declared to call no tools (providers.md, ``tool_call``)."""

from __future__ import annotations

from pathlib import Path

from a3s_code import Agent
from a3s_code.testing import ScriptedModel, call

CONFIG = {
    "default_model": "p/m",
    "completion_gate": "require",
    "providers": {"p": {"base_url": "http://127.0.0.1:1", "models": {"m": {"tool_call": False}}}},
}


async def test_it_is_offered_none_and_none_runs(workspace: Path) -> None:
    """Its requests carry no tools, and a call that it makes all the same is refused."""
    model = ScriptedModel([[call("write", {"file_path": "x", "content": "y"})], "in text"])
    async with await Agent.create_from_config_async(CONFIG) as agent:
        session = await agent.session_async(workspace, llm_client=model)
        assert (await session.send_async("go")).text == "in text"
        assert [request.tools for request in model.requests] == [(), ()]
        assert "tool_call = false" in str(session.history()[2]["content"])
        assert not (workspace / "x").exists()


async def test_a_gate_that_is_not_there_is_told(workspace: Path) -> None:
    """A configuration that asks for the completion gate doesn't get it in silence."""
    async with await Agent.create_from_config_async(CONFIG) as agent:
        session = await agent.session_async(workspace, llm_client=ScriptedModel([]))
        assert "completion_gate 'require' has no effect" in str(session.init_warning)
