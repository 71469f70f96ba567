"""The encoded view beside a long log (facts.md): it saves reading, and is ignored unless it fits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from a3s_code import Agent
from a3s_code.core.state import View
from a3s_code.core.viewcodec import decode_view, encode_view
from a3s_code.engine import writer
from a3s_code.stores import factlog
from a3s_code.system.clock import SystemClock
from a3s_code.testing import ScriptedModel, call

ACL = 'default_model = "offline/scout"'


@pytest.fixture(autouse=True)
def _short_logs_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "WORTH_IT", 5)


async def talk(tmp_path: Path, *prompts: str) -> dict[str, Any]:
    """What a session that was opened on the log says before and after the prompts."""
    async with await Agent.create_async(ACL) as agent:
        model = ScriptedModel([turn for prompt in prompts for turn in ([call("ls", {})], f"answer to {prompt}")])
        session = await agent.session_async(tmp_path, session_id="s", llm_client=model)
        opened = {"history": session.history(), "runs": session.runs()}
        for prompt in prompts:
            await session.send_async(prompt)
        return opened


def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many facts each opening reads."""
    read: list[int] = []
    original = factlog.FileFactLog.read

    def reading(self: factlog.FileFactLog, after: Any = None) -> Any:
        read.append(0)
        for fact in original(self, after):
            read[-1] += 1
            yield fact

    monkeypatch.setattr(factlog.FileFactLog, "read", reading)
    return read


async def test_only_the_tail_is_read_and_everything_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """History and run records are those of the whole log, whatever was read of it."""
    await talk(tmp_path, "one", "two")
    log = tmp_path / ".a3s" / "effect-log" / "s.jsonl"
    view = log.with_suffix(".view")
    kept = view.read_bytes()
    view.unlink()
    whole = await talk(tmp_path)
    view.write_bytes(kept)
    read = counted(monkeypatch)
    quick = await talk(tmp_path)
    assert read == [0]
    assert quick["history"] == whole["history"]
    forget = {"event_count": 0}
    assert [run | forget for run in quick["runs"]] == [run | forget for run in whole["runs"]]
    await talk(tmp_path, "three")
    view.write_bytes(kept)
    assert (await talk(tmp_path))["history"][-1]["content"] == "answer to three"
    assert 0 < read[-1] < 12


@pytest.mark.parametrize("change", [b"", b"{}", b"\x00\xff", "cut", "other"])
async def test_a_shortcut_that_does_not_fit_is_ignored(tmp_path: Path, change: bytes | str) -> None:
    """Damaged, cut, or of another log: the log is folded as if nothing were there."""
    await talk(tmp_path, "one")
    log = tmp_path / ".a3s" / "effect-log" / "s.jsonl"
    view = log.with_suffix(".view")
    before = (await talk(tmp_path))["history"]
    if change == "other":
        (tmp_path / "elsewhere").mkdir()
        await talk(tmp_path / "elsewhere", "two")
        change = (tmp_path / "elsewhere" / ".a3s" / "effect-log" / "s.view").read_bytes()
    view.write_bytes(view.read_bytes()[:-20] if isinstance(change, str) else change)
    assert (await talk(tmp_path))["history"] == before


def test_bytes_of_another_layout_are_no_view() -> None:
    """What doesn't decode is None, never half a view."""
    assert decode_view(b'{"seq": "x"}') is None
    assert decode_view(encode_view(View())) == View()


async def test_a_record_tells_the_same_time_live_and_from_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run began when its first fact says so, however long the record was there before it."""
    times = iter(range(1_700_000_000_000, 1_700_000_100_000, 7))
    monkeypatch.setattr(SystemClock, "now_ms", lambda self: next(times))
    async with await Agent.create_async(ACL) as agent:
        session = await agent.session_async(tmp_path, session_id="s", llm_client=ScriptedModel(["hi"]))
        await session.send_async("go")
        live = session.runs()[0]["created_ms"]
        await session.close_async()
        again = await agent.session_async(tmp_path, session_id="s", llm_client=ScriptedModel([]))
        assert again.runs()[0]["created_ms"] == live
