"""What a run gives its caller (api.md, *Session*)."""

from __future__ import annotations

import json

import pytest

from a3s_code.api.result import AgentResult


def test_result_says_that_nothing_was_verified() -> None:
    """The verification fields agree with each other and claim nothing."""
    result = AgentResult(text="hi", run_id="r1")
    assert result.verification_status == result.verification_summary["status"] == "skipped"
    assert json.loads(result.verification_summary_json) == result.verification_summary
    assert result.verification_summary_text.startswith("Verification: skipped (0 reports")
    assert (result.stop_reason, result.completion) == ("done", None)


def test_result_is_frozen_and_prints_well() -> None:
    """A result can't be changed; its text is what ``str`` gives, and its repr is short."""
    result = AgentResult(text="x" * 500, run_id="r1", total_tokens=3)
    with pytest.raises(AttributeError):
        result.text = "y"  # type: ignore[misc]  # frozen
    assert str(result) == "x" * 500
    assert len(repr(result)) < 200
    assert "run_id='r1'" in repr(result)


def test_results_share_no_state() -> None:
    """Changing one result's mappings does not show in another."""
    AgentResult().delegated_usage["total_tokens"] = 9
    assert AgentResult().delegated_usage["total_tokens"] == 0
