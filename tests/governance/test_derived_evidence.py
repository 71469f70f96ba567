"""The evidence of a whole output isn't stored, and nobody misses it (tools.md §6.1)."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from evidence_session import DATA, DERIVED, EVIDENCE, KEPT, recorded, seen_of

from a3s_code.core.facts import ToolResulted
from a3s_code.core.project import of_fact
from a3s_code.core.state import View
from a3s_code.engine.replay.replay import replay
from a3s_code.stores.logfile import read_header, read_log


def results_of(log: Path) -> list[ToolResulted]:
    return [line.fact.data for line in read_log(str(log)) if isinstance(line.fact.data, ToolResulted)]


async def test_what_is_seen_is_what_was_seen(tmp_path: Path) -> None:
    """Events and a host's results are byte for byte those of the time when all evidence was on the log."""
    _, seen = await recorded(tmp_path)
    assert seen == seen_of(KEPT)


async def test_only_shortened_outputs_have_evidence_on_the_log(tmp_path: Path) -> None:
    """The results are those of the golden log of this form, and of the earlier one but for derivable evidence."""
    log, _ = await recorded(tmp_path)
    (tmp_path / "log.jsonl").write_bytes(log)
    now, before = results_of(tmp_path / "log.jsonl"), results_of(DATA / f"{KEPT}.jsonl")
    assert now == results_of(DATA / f"{DERIVED}.jsonl")
    assert [result.output for result in now if EVIDENCE in result.metadata] == [
        result.output for result in before if "bytes omitted" in result.output
    ]
    for new, old in zip(now, before, strict=True):
        assert new.metadata == {key: old.metadata[key] for key in old.metadata if key in new.metadata}
        assert set(old.metadata) - set(new.metadata) <= {EVIDENCE}


@pytest.mark.parametrize("name", [KEPT, DERIVED])
def test_both_forms_give_the_same_events(name: str) -> None:
    """What a reader of either log derives for its events are the bytes that were sent when it was written."""
    told = [
        event
        for line in read_log(str(DATA / f"{name}.jsonl"))
        if isinstance(line.fact.data, ToolResulted)
        for event in of_fact(line.fact, View())
        if event[0] == "tool_end"
    ]
    sent = [payload for kind, payload in seen_of(KEPT)["events"] if kind == "tool_end"]
    assert [msgspec.json.encode(payload).decode() for _, payload in told] == sent


@pytest.mark.parametrize("name", [KEPT, DERIVED])
async def test_both_forms_replay(name: str) -> None:
    """The loop makes the recorded facts again, whichever form they are in."""
    log = str(DATA / f"{name}.jsonl")
    done = await replay(read_header(log), list(read_log(log)))
    assert done.difference is None
    assert done.same == done.total
